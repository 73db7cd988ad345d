"""Transactions after every disk state that a power cut may leave of a scripted life.

One producer writes to two topics, in both versions. At each file call of its life the power is cut,
and the disk holds any of the states that `tests.support.crash_states` lists: of each log another
part of what was not synced. The next start must find each transaction whole, as it was answered;
then a new producer must be able to go on. BARNABAS_CRASH_STATES limits the states of each cut.

The broken brokers of `tests.faults.broken_transactions` whose break depends on which logs a cut
leaves are caught here without any luck of timing.
"""

import logging
import os
import random
from collections.abc import Callable, Iterator

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions import adoption, reconcile
from broker.transactions.endings import Endings
from broker.transactions.timeouts import abort_late, expire_ids
from tests.faults import broken_transactions
from tests.support import crash_states
from tests.support.transactional_life import (
    TV1,
    Client,
    Peer,
    count_writes,
    judge,
    killed_at,
    start,
)

STATES_MAX = int(os.environ.get("BARNABAS_CRASH_STATES", "6"))  # for each cut
SMALL_STATES = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "300",
    "min.cleanable.dirty.ratio": "0.0",
    "file.delete.delay.ms": "0",
}


async def commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True)


async def older_commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True, version=TV1)


async def alternate(client: Client) -> None:
    """Each end contradicts the one before."""
    await client.transaction(b"one", is_commit=False, version=TV1)
    await client.transaction(b"two", is_commit=True)
    await client.transaction(b"three", is_commit=False)
    await client.transaction(b"four", is_commit=True, version=TV1)


async def expire(client: Client) -> None:
    """The id is forgotten between two transactions."""
    peer = client.producer.rig
    await client.transaction(b"one", is_commit=True)
    await peer.rest()
    for one in peer.services.transactions.store.by_id.values():
        one.updated_ms = 0
    await expire_ids(peer.services.transactions, peer.services.metrics)
    answer = await client.producer.init()
    assert answer.error_code == 0, answer
    await client.transaction(b"two", is_commit=True)


async def compact(client: Client) -> None:
    """The topic of states is compacted while a transaction is open, and after it."""
    broker = client.producer.rig._broker
    for value in (b"one", b"two"):
        await client.transaction(value, is_commit=value == b"two")
        answer = await client.producer.produce("a", 0, value + b", next")
        assert not answer.error_code, answer
        await broker.duty("checkpoints")
        await broker.compact(TRANSACTION_TOPIC)
        await broker.duty("checkpoints")
        await broker.duty("deletions")
        assert await client.producer.end(is_commit=False) == 0


SCRIPTS = {
    "commit": (commit, None),
    "older commit": (older_commit, None),
    "alternate": (alternate, None),
    "expire": (expire, None),
    "compact": (compact, SMALL_STATES),
}


async def _times_out(peer: Peer) -> None:
    """Let the time of what is open pass, before its client comes back."""
    services = peer.services
    for transaction in services.transactions.store.open:
        transaction.started_ms = 0
    await abort_late(services.transactions, services.metrics)


def failures(script: Callable, states, most: int, *, times_out: bool) -> tuple[int, list[str]]:
    """Return how many states were checked, and what was wrong with some."""
    count, found = 0, []
    chance = random.Random(1)
    for nth in range(count_writes(script, states) + 1):
        filesystem, client = killed_at(script, nth, states)
        for content in crash_states.states(filesystem, chance, most):
            count += 1
            broker, peer = start(crash_states.disk_of(content))
            client_now = _copy(client, peer)
            try:
                if times_out:
                    broker.run(_times_out(peer))
                broker.run(judge(peer, client_now))
            except (AssertionError, ValueError) as error:
                found.append(f"after {nth} writes: {error!r}"[:300])
            broker.end()
    return count, found


def _copy(client: Client, peer: Peer) -> Client:
    """Return the client as it was at the cut: each state is judged by its own."""
    copied = Client(type(client.producer)(peer, client.producer.transactional_id))
    vars(copied.producer).update(vars(client.producer) | {"rig": peer})
    copied.producer.sequences = dict(client.producer.sequences)
    copied.answered, copied.asked = dict(client.answered), client.asked
    copied.acks = client.acks
    return copied


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.faults
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_transaction_is_whole_in_every_state(name: str) -> None:
    count, found = failures(*SCRIPTS[name], STATES_MAX, times_out=False)
    assert not found, f"{len(found)} of {count}:\n" + "\n".join(found[:10])
    assert count > 50
    print(f"{count} states")


BROKEN = {
    "complete-before-the-markers": (Endings, "_carry_out", older_commit),
    "write-markers-before-the-decision": (Endings, "_carry_out", older_commit),
    "adopt-no-marker": (reconcile, "_adopted", commit),
    "time-out-what-is-decided": (adoption, "reconcile", older_commit),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_broker_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, script = BROKEN[name]
    monkeypatch.setattr(where, what, getattr(where, what))  # put back at the end
    assert failures(script, None, 20, times_out=True)[1] == []
    broken_transactions.NEED_A_STATE[name]()
    assert failures(script, None, 20, times_out=True)[1] != []
