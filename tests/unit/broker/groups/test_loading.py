"""Loading: each partition is one shard, independent of the others and of concurrent changes."""

import asyncio
import threading
from pathlib import Path

import pytest

from broker.groups import loading
from broker.groups.group_log import partition_of
from broker.groups.registry import Registry
from broker.groups.replay import RECORDS_PER_TURN, ReadBatch, ReadRecord, Replayer, read_chunk
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.record_batch import HEADER_SIZE, read_header, write_crc
from protocol.records import Record, build
from protocol.wire import ZERO_UUID
from tests.support import raw_batches
from tests.support.broker_rig import Rig
from tests.support.group_host import FakeHost
from tests.support.group_rig import commit, committed, find
from tests.support.rig_client import create

NOT_COORDINATOR, LOADING = 16, 14
COUNT = 3
A, B, C = ("a", "b", "c")  # in partitions 1, 2 and 0 of three


def rig_of(directory: Path) -> Rig:
    return Rig(directory, offsets_topic_num_partitions=str(COUNT))


def test_the_three_groups_are_in_three_partitions():
    assert [partition_of(group, COUNT) for group in (A, B, C)] == [1, 2, 0]


@pytest.fixture
async def rig(tmp_path):
    """A broker with an offset in each partition."""
    made = rig_of(tmp_path)
    await create(made, "t")
    await create(made, "u")
    await find(made)
    for group in (A, B, C):
        assert await commit(made, ("t", 0, 7), ("u", 0, 8), group_id=group) == [
            ("t", 0, 0),
            ("u", 0, 0),
        ]
    yield made
    await made.close()


def put(rig: Rig, number: int, batch: bytes) -> None:
    """Append a batch as it may be in a log that Kafka has written and cleaned."""
    log = rig.services.partitions.get(GROUP_TOPIC, number).log
    written = bytearray(batch)
    log._write(written, read_header(written), 1)


def offset_record(
    group: str, offset: int, topic: str = "t", topic_id: bytes = ZERO_UUID
) -> bytearray:
    key = OffsetCommitKey(group=group, topic=topic, partition=0)
    value = OffsetCommitValue(offset=offset, commit_timestamp=1, topic_id=topic_id)
    return build([Record(0, 1, encode_key(key), encode_value(value))])


@pytest.mark.parametrize("attributes", [0x30, 0x20, 0x10, 0])
async def test_a_batch_without_records_is_skipped(rig, tmp_path, attributes):
    put(rig, 0, raw_batches.batch((), last_offset_delta=0, attributes=attributes, producer_id=3))
    await rig.close()
    again = rig_of(tmp_path)
    await again.loading
    for group in (A, B, C):
        assert await committed(again, ("t", 0), group=group) == {("t", 0): 7}
    again.services.groups.check_can_list()
    await again.close()


async def test_an_unexpected_error_fails_only_its_partition(rig, tmp_path, monkeypatch, caplog):
    await rig.close()
    again = rig_of(tmp_path)
    load = loading.load_shard

    async def fails(shard, *rest):
        if shard.number == 0:
            raise ZeroDivisionError("on purpose")
        return await load(shard, *rest)

    monkeypatch.setattr(loading, "load_shard", fails)
    await again.loading
    found = [await committed(again, ("t", 0), group=group) for group in (A, B, C)]
    assert found == [{("t", 0): 7}, {("t", 0): 7}, NOT_COORDINATOR]
    again.services.groups.check_can_list()
    assert {group.group_id for group in again.services.groups.groups()} == {A, B}
    assert "groups of __consumer_offsets-0 are not loaded: on purpose" in caplog.text
    await again.close()


async def test_undecodable_records_fail_only_their_partition(rig, tmp_path):
    torn = offset_record(C, 9)
    torn[HEADER_SIZE:] = b"\xff" * (len(torn) - HEADER_SIZE)
    write_crc(torn, 0)
    assert read_header(torn).record_count == 1
    put(rig, 0, torn)
    await rig.close()
    again = rig_of(tmp_path)
    await again.loading
    found = [await committed(again, ("t", 0), group=group) for group in (A, B, C)]
    assert found == [{("t", 0): 7}, {("t", 0): 7}, NOT_COORDINATOR]
    await again.close()


async def test_a_record_in_another_groups_partition_is_skipped(rig, tmp_path, caplog):
    put(rig, 2, offset_record(A, 5))  # read after partition 1, where A is
    put(rig, 2, offset_record("stranger", 5))
    await rig.close()
    again = rig_of(tmp_path)
    await again.loading
    assert await committed(again, ("t", 0), group=A) == {("t", 0): 7}
    assert {group.group_id for group in again.services.groups.groups()} == {A, B, C}
    assert "__consumer_offsets-2: ignored 2 records of groups" in caplog.text
    await again.close()


async def test_a_topic_deleted_during_the_load_loses_all_its_offsets(rig, tmp_path, monkeypatch):
    await rig.close()
    deleted = threading.Event()

    def read_later(chunk):
        deleted.wait()
        return read_chunk(chunk)

    monkeypatch.setattr(loading, "read_chunk", read_later)
    again = rig_of(tmp_path)
    try:
        await again.services.topics.delete("t")
    except BaseException:
        deleted.set()
        raise
    assert await committed(again, group=A) == LOADING
    deleted.set()
    await again.loading
    for group in (A, B, C):
        assert await committed(again, group=group) == {("u", 0): 8}
    await again.close()
    third = rig_of(tmp_path)
    await third.loading
    for group in (A, B, C):
        assert await committed(third, group=group) == {("u", 0): 8}
    await third.close()


async def test_the_load_drops_the_offsets_of_topics_that_are_gone(rig, tmp_path):
    """A crash came between the deletion of a topic and the tombstones of its offsets.

    A later topic of that name would have them, and a consumer would skip its first records.
    """
    put(rig, 1, offset_record(A, 5, "gone"))
    put(rig, 0, offset_record(C, 5, "gone"))
    await rig.close()
    again = rig_of(tmp_path)
    await again.loading
    await again.close()
    third = rig_of(tmp_path)
    await create(third, "gone")
    await third.loading
    for group in (A, B, C):
        assert await committed(third, group=group) == {("t", 0): 7, ("u", 0): 8}
    await third.close()


async def test_the_load_drops_what_was_committed_for_an_earlier_topic_of_the_name(rig, tmp_path):
    """A crash came behind a deletion and a creation, and before the tombstones of the offsets."""
    put(rig, 1, offset_record(A, 5, "t", b"an earlier topic"))
    put(rig, 2, offset_record(B, 5, "t"))  # of an older broker: nothing says whose it is
    await rig.close()
    for _ in range(2):  # the second start finds the tombstone
        again = rig_of(tmp_path)
        await again.loading
        assert await committed(again, group=A) == {("u", 0): 8}
        assert await committed(again, group=B) == {("t", 0): 5, ("u", 0): 8}
        assert await committed(again, group=C) == {("t", 0): 7, ("u", 0): 8}
        await again.close()


async def test_a_read_only_broker_shows_the_offsets_of_topics_that_are_gone(rig, tmp_path):
    put(rig, 1, offset_record(A, 5, "gone"))
    put(rig, 1, offset_record(A, 6, "t", b"an earlier topic"))
    await rig.close()
    again = Rig(tmp_path, offsets_topic_num_partitions=str(COUNT), barnabas_read_only="true")
    await again.loading
    found = await committed(again, group=A)
    assert (found["gone", 0], found["t", 0]) == (5, 6)
    await again.close()


async def test_deleting_the_offsets_topic_during_a_load_leaves_no_group(rig, tmp_path):
    await rig.close()
    again = rig_of(tmp_path)
    await again.services.topics.delete(GROUP_TOPIC)
    await asyncio.gather(again.loading, return_exceptions=True)
    await find(again)
    for group in (A, B, C):
        assert await committed(again, group=group) == {}
        assert await commit(again, ("u", 0, 1), group_id=group) == [("u", 0, 0)]
    await again.close()


def test_generations_with_many_members_take_turns():
    members = [
        MemberMetadata(
            member_id=f"m{number}",
            group_instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=1_000,
            session_timeout=10_000,
            subscription=b"",
            assignment=b"",
        )
        for number in range(RECORDS_PER_TURN)
    ]
    value = GroupMetadataValue(
        protocol_type="connect", generation=3, protocol="p", leader="m0", members=members
    )
    records = [ReadRecord(offset, GroupMetadataKey(group="g"), value) for offset in range(5)]
    replayer = Replayer(registry := Registry(), FakeHost(), lambda _: True)
    assert len(list(replayer.apply([ReadBatch(5, 5, -1, None, records)]))) == 5
    assert registry.groups["g"].member_count == RECORDS_PER_TURN


def test_members_with_many_partitions_take_turns():
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2,
        previous_member_epoch=1,
        state=0,
        assigned_partitions=[CurrentPartitions(topic_id=b"t" * 16, partitions=list(range(10_000)))],
        partitions_pending_revocation=[],
    )
    records = [ReadRecord(offset, key, value) for offset in range(5)]
    replayer = Replayer(registry := Registry(), FakeHost(), lambda _: True)
    assert len(list(replayer.apply([ReadBatch(5, 5, -1, None, records)]))) == 5
    assert registry.groups["g"].member_count == 1
