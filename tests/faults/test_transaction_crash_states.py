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
from collections.abc import Iterator, Mapping

import pytest

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions import adoption, reconcile
from broker.transactions.endings import Endings
from broker.transactions.timeouts import abort_late, expire_ids
from tests.faults import broken_transactions
from tests.support import crash_states
from tests.support.transactional_life import (
    TOPICS,
    TV1,
    Client,
    Peer,
    Script,
    count_writes,
    judge,
    killed_at,
    read,
    start,
)

Configs = Mapping[str, str] | None
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


async def _judge_after_timeout(peer: Peer, client: Client) -> None:
    """Let the time of what is open pass, before its client comes back: nothing is torn."""
    services = peer.services
    for transaction in services.transactions.store.open:
        transaction.started_ms = 0
    await abort_late(services.transactions, services.metrics)
    await services.transactions.finish()
    seen = {topic: read(peer, topic) for topic in TOPICS}
    for topic in TOPICS:
        for value, is_commit in client.answered.items():
            assert (value in seen[topic]) == is_commit, f"{value!r} in {topic}: answered otherwise"
        log = services.partitions.get(topic, 0).log
        assert log.last_stable_offset == log.high_watermark, f"{topic} is open"
    if client.asked:
        value = client.asked[0]
        assert (value in seen["a"]) == (value in seen["b"]), f"{value!r} is torn"


def judged(script: Script, states: Configs, most: int, *, times_out: bool = False) -> Iterator[str]:
    """Yield what is wrong with each state, nothing for most; at most `most` states of each cut."""
    chance = random.Random(1)
    for nth in range(count_writes(script, states) + 1):
        filesystem, client = killed_at(script, nth, states)
        for content in crash_states.states(filesystem, chance, most):
            broker, peer = start(crash_states.disk_of(content))
            look = _judge_after_timeout if times_out else judge
            wrong = ""
            try:
                broker.run(look(peer, _copy(client, peer)))
            except (AssertionError, ValueError) as error:
                wrong = f"after {nth} writes: {error!r}"[:300]
            broker.end()
            yield wrong


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
    script, states = SCRIPTS[name]
    # The compacted life has some 250 file calls.
    told = list(judged(script, states, STATES_MAX if states is None else STATES_MAX // 3))
    found = [what for what in told if what]
    assert not found, f"{len(found)} of {len(told)}:\n" + "\n".join(found[:10])
    assert len(told) > 50
    print(f"{len(told)} states")


BROKEN = {
    "complete-before-the-markers": (Endings, "_carry_out", older_commit),
    "write-markers-before-the-decision": (Endings, "_carry_out", older_commit),
    "adopt-no-marker": (reconcile, "_adopted", commit),
    "time-out-what-is-decided": (adoption, "reconcile", older_commit),
}


@pytest.mark.faults
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_broker_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, script = BROKEN[name]
    monkeypatch.setattr(where, what, getattr(where, what))  # put back at the end
    assert not any(judged(script, None, 2, times_out=True))
    broken_transactions.NEED_A_STATE[name]()
    assert any(judged(script, None, 20, times_out=True))
