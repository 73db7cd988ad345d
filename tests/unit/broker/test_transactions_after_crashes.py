"""A broker that dies in mid-transaction: after the restart each transaction is whole.

Every write of a scripted life is the last one, once by a kill and once by a power cut in each of
its shapes: while the transaction is open, while it is decided, between its markers, and after.
"""

import pytest

from broker.transactions.transaction_states import TransactionState
from protocol.errors import ErrorCode
from tests.support.transactional_life import (
    TOPICS,
    TV1,
    Client,
    Peer,
    count_writes,
    dies_in_start,
    killed_at,
    read,
    start,
    stored,
)


async def commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True)


async def abort(client: Client) -> None:
    await client.transaction(b"one", is_commit=False)


async def older_commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True, version=TV1)


async def unlike(client: Client) -> None:
    """Ends contradict the ones before, and the data of the next one are not waited for."""
    await client.transaction(b"one", is_commit=True)
    await client.transaction(b"two", is_commit=False, acks=1)
    await client.transaction(b"three", is_commit=True, acks=1)


async def mixed(client: Client) -> None:
    await client.transaction(b"one", is_commit=False, version=TV1)
    await client.transaction(b"two", is_commit=True, acks=1)


SCRIPTS = [commit, abort, older_commit, unlike, mixed]


def crash(filesystem, shape):
    if shape == "kill":
        filesystem.kill()
    else:
        filesystem.crash(shape)


async def told(peer: Peer, client: Client, seen: dict[str, list[bytes]]) -> None:
    """Hold what a consumer sees against what was answered, and ask again for the rest."""
    asked = client.asked[0] if client.asked else b""
    for topic in TOPICS:
        for value, is_commit in client.answered.items():
            assert (value in seen[topic]) == is_commit, f"{value!r} in {topic}: answered otherwise"
    assert (asked in seen["a"]) == (asked in seen["b"]), f"{asked!r} is torn"
    if client.asked:
        _, is_commit, version = client.asked
        kept = [asked in stored(peer, topic) for topic in TOPICS]
        assert all(kept) or client.acks == 1, "acknowledged records are gone"
        code = await client.producer.end(is_commit=is_commit, version=version)
        if code == ErrorCode.INVALID_TXN_STATE:
            assert (is_commit, any(kept)) == (True, False), "asked again for the same outcome"
        else:
            assert code == ErrorCode.NONE, "asked again for the same outcome"
        for topic, is_kept in zip(TOPICS, kept, strict=True):
            assert (asked in read(peer, topic)) == (is_commit and is_kept), f"{asked!r} in {topic}"


async def judge(peer: Peer, client: Client) -> None:
    seen = {topic: read(peer, topic) for topic in TOPICS}
    await told(peer, client, seen)
    # A new instance ends whatever is open. Then nothing holds readers back.
    for _ in range(5):
        answer = await client.producer.init()
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        await peer.rest()
    assert answer.error_code == 0, answer
    for topic in TOPICS:
        log = peer.services.partitions.get(topic, 0).log
        assert log.open_transactions() == []
        assert log.last_stable_offset == log.high_watermark
    await client.transaction(b"last", is_commit=True)
    for topic in TOPICS:
        assert (read(peer, topic))[-1] == b"last"
    (state,) = peer.services.transactions.store.by_id.values()
    assert state.state in (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT)


@pytest.mark.parametrize("shape", ["kill", "lost", "kept", "torn", "zeros"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_transaction_is_whole_wherever_the_broker_dies(script, shape):
    for nth in range(count_writes(script) + 1):
        filesystem, client = killed_at(script, nth)
        crash(filesystem, shape)
        broker, peer = start(filesystem)
        client.producer.rig = peer
        try:
            broker.run(judge(peer, client))
        except AssertionError as error:
            raise AssertionError(f"after {nth} writes: {error}") from error
        assert broker.surprises == []
        broker.end()


@pytest.mark.parametrize("shape", ["lost", "kept"])
@pytest.mark.parametrize("script", [commit, older_commit])
def test_a_start_that_dies_too_leaves_the_same_evidence(script, shape):
    """Whatever it has written by then: the third life finds the transaction whole."""
    for nth in range(4, count_writes(script) + 1):
        at = 0
        while True:
            filesystem, client = killed_at(script, nth)
            crash(filesystem, shape)
            has_died = dies_in_start(filesystem, at)
            crash(filesystem, shape)
            broker, peer = start(filesystem)
            client.producer.rig = peer
            try:
                broker.run(judge(peer, client))
            except AssertionError as error:
                raise AssertionError(f"after {nth} writes, then {at}: {error}") from error
            broker.end()
            if not has_died:
                break
            at += 3
