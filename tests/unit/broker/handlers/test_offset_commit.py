"""OffsetCommit: refusals of single partitions, and the group errors of each version."""

import pytest

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_rig import commit, committed, member
from tests.support.rig_client import ask, create

UNKNOWN_TOPIC, UNKNOWN_ID, TOO_LARGE = 3, 100, 12


@pytest.fixture
async def rig(group_rig):
    await create(group_rig, "t", 2)
    return group_rig


async def test_unknown_topics_and_partitions_come_first_in_the_answer(rig):
    wanted = [("t", 0, 1), ("no", 0, 1), ("t", 5, 1), ("t", 1, 1)]
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                for number, offset in partitions
            ],
        )
        for name, partitions in (("t", [(0, 1), (5, 1), (1, 1)]), ("no", [(0, 1)]))
    ]
    assert len(wanted) == 4
    answer = await ask(rig, OffsetCommitRequest(group_id="g", topics=topics), 9)
    assert [
        (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
        for topic in answer.topics
    ] == [("t", [(5, UNKNOWN_TOPIC), (0, 0), (1, 0)]), ("no", [(0, UNKNOWN_TOPIC)])]
    assert await committed(rig) == {("t", 0): 1, ("t", 1): 1}


async def test_only_unknown_topics_need_no_group(rig):
    assert await commit(rig, ("no", 0, 1), group_id="x") == [("no", 0, UNKNOWN_TOPIC)]
    assert rig.services.groups.group("x") is None


@pytest.mark.parametrize(("length", "code"), [(0, 0), (4096, 0), (4097, TOO_LARGE), (None, 0)])
async def test_metadata_has_a_limit(rig, length, code):
    metadata = None if length is None else "x" * length
    assert await commit(rig, ("t", 0, 1), metadata=metadata) == [("t", 0, code)]


@pytest.mark.parametrize(
    ("version", "fields", "code"),
    [
        (9, {}, 0),
        (2, {}, 0),
        (9, {"group_id": ""}, 0),
        (9, {"generation_id_or_member_epoch": 1}, 69),
        (8, {"generation_id_or_member_epoch": 1}, 22),
        (9, {"member_id": "m"}, 0),
    ],
)
async def test_a_missing_group(rig, version, fields, code):
    assert await commit(rig, ("t", 0, 1), version=version, **fields) == [("t", 0, code)]


@pytest.mark.parametrize(
    ("generation", "known", "code"),
    [(0, True, 0), (1, True, 22), (-1, True, 22), (0, False, 25), (-1, False, 25)],
)
async def test_a_group_with_a_member(rig, generation, known, code):
    member_id, current = await member(rig)
    got = await commit(
        rig,
        ("t", 0, 1),
        member_id=member_id if known else "",
        generation_id_or_member_epoch=generation if generation < 0 else current + generation,
    )
    assert got == [("t", 0, code)]


async def test_topics_by_id(rig):
    topic_id = await create(rig, "u")
    known = await commit(rig, ("", 0, 5), version=10, topic_id=topic_id)
    unknown = await commit(rig, ("", 0, 5), version=10, topic_id=b"?" * 16)
    assert (known, unknown) == ([("", 0, 0)], [("", 0, UNKNOWN_ID)])
    assert await committed(rig, ("u", 0)) == {("u", 0): 5}


@pytest.mark.parametrize(("count", "code"), [(2048, 0), (2049, 12)])
async def test_metadata_is_measured_in_javas_characters(rig, count, code):
    assert await commit(rig, ("t", 0, 1), metadata="😀" * count) == [("t", 0, code)]


async def test_the_longest_retention_is_stored(rig):
    endless_ms = (1 << 63) - 1
    committed = await commit(rig, ("t", 0, 1), version=4, retention_time_ms=endless_ms)
    assert committed == [("t", 0, 0)]
    offsets = rig.services.groups.registry_of("g").offsets
    assert offsets.get("g", "t", 0).expires_ms == endless_ms
