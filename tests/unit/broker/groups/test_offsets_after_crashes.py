"""Offsets of a transaction when the broker dies: seen with its records, or not at all.

Every write of a scripted life is the last one, once by a kill and once by each shape of a power
cut. After the restart a new instance of the producer ends what is open, and no offset is unstable.
"""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.group_rig import commit as commit_plainly
from tests.support.rig_client import ask
from tests.support.thorough import some_of
from tests.support.transactional_life import (
    TOPICS,
    TV1,
    TV2,
    Client,
    Peer,
    count_writes,
    killed_at,
    read,
    start,
)

GROUP = "g"
PLAIN = 1  # the offset that is committed without a transaction
UNSTABLE = 88


async def consume(client: Client, offset: int, *, is_commit: bool, version: int = TV2) -> None:
    """Read up to `offset`: write a record, commit the offsets with it, and end that."""
    producer, value = client.producer, b"%d" % offset
    if version < TV2:
        assert await producer.add(TOPICS[0], [0]) == [0]
        assert await producer.add_offsets(GROUP) == 0
    produced = await producer.produce(TOPICS[0], 0, value, version=12 if version >= TV2 else 9)
    assert not produced.error_code, produced
    topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
            ],
        )
        for name in TOPICS
    ]
    body = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=topics,
    )
    answer = await ask(producer.rig, body, 5 if version >= TV2 else 3)
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    assert codes == [0, 0], codes
    client.asked = value, is_commit, version
    assert await producer.end(is_commit=is_commit, version=version) == 0
    client.answered[value] = is_commit
    client.asked = None


async def prepare(client: Client) -> None:
    """Commit what a group has before it begins."""
    rig: Any = client.producer.rig
    found = await ask(rig, FindCoordinatorRequest(key=GROUP), 3)
    assert found.error_code == 0, found
    codes = await commit_plainly(rig, *((name, 0, PLAIN) for name in TOPICS), group_id=GROUP)
    assert not any(code for _, _, code in codes), codes


async def two_commits(client: Client) -> None:
    await prepare(client)
    await consume(client, 5, is_commit=True)
    await consume(client, 6, is_commit=True)


async def an_abort_between(client: Client) -> None:
    await prepare(client)
    await consume(client, 5, is_commit=False)
    await consume(client, 6, is_commit=True)


async def older_versions(client: Client) -> None:
    await prepare(client)
    await consume(client, 5, is_commit=True, version=TV1)
    await consume(client, 6, is_commit=False, version=TV1)


SCRIPTS = [two_commits, an_abort_between, older_versions]
SHAPES = ["kill", "lost", "kept", "torn", "zeros"]


def crash(filesystem: Any, shape: str) -> None:
    if shape == "kill":
        filesystem.kill()
    else:
        filesystem.crash(shape)


async def offsets_of(peer: Any, *, stable: bool) -> set[int]:
    """Return the offsets of both topics, or what they are refused with."""
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in TOPICS]
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=asked)]
    answer = await ask(peer, OffsetFetchRequest(groups=groups, require_stable=stable), 9)
    (group,) = answer.groups
    assert group.error_code == 0, group
    return {
        UNSTABLE if one.error_code == UNSTABLE else one.committed_offset
        for topic in group.topics
        for one in topic.partitions
    }


async def judge(peer: Peer, client: Client) -> None:
    rig: Any = peer
    if not peer.services.has_groups:
        return  # it died before there was one
    await peer.services.groups.load()
    if peer.services.groups.log.count() == 0:
        return
    seen = await offsets_of(rig, stable=False)
    assert len(seen) == 1, f"torn: {seen}"
    for _ in range(5):
        answer = await client.producer.init()
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        await peer.rest()
    assert answer.error_code == 0, answer
    (offset,) = seen
    assert await offsets_of(rig, stable=True) == seen, "what nobody ended is not aborted"
    committed = [int(value) for value in read(peer, TOPICS[0])]
    assert committed == [one for one in (5, 6) if one in committed]
    assert offset == max(committed, default=offset), f"records {committed}, but {offset}"
    if not committed:
        assert offset in (PLAIN, -1)
    for value, is_commit in client.answered.items():
        assert (int(value) in committed) == is_commit, f"{value!r} was answered otherwise"
    await consume(client, 9, is_commit=True)
    assert await offsets_of(rig, stable=True) == {9}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_offsets_are_seen_with_the_records_of_their_transaction(script: Any, shape: str) -> None:
    for nth in some_of(range(count_writes(script) + 1), SHAPES.index(shape)):
        filesystem, client = killed_at(script, nth)
        crash(filesystem, shape)
        broker, peer = start(filesystem)
        client.producer.rig = peer  # type: ignore[assignment]
        try:
            broker.run(judge(peer, client))
        except AssertionError as error:
            raise AssertionError(f"after {nth} writes: {error}") from error
        assert broker.surprises == []
        broker.end()
