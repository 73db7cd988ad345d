"""OffsetCommit: refusals of single partitions, and the group errors of each version."""

import asyncio

import pytest

from broker.groups import commits
from broker.handlers import offset_commit
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.wire import ZERO_UUID
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


async def test_the_record_of_a_topic_that_is_named_has_its_id(rig):
    topic_id = rig.services.topics.by_name("t").topic_id
    assert await commit(rig, ("t", 0, 7)) == [("t", 0, 0)]
    offsets = rig.services.groups.registry_of("g").offsets
    assert offsets.get("g", "t", 0).topic_id == topic_id


async def test_by_id_good_and_bad_partitions_come_as_one_topic(rig):
    topic_id = rig.services.topics.by_name("t").topic_id
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        for number in (0, 9)
    ]
    topics = [OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)]
    answer = await ask(rig, OffsetCommitRequest(group_id="g", topics=topics), 10)
    (topic,) = answer.topics
    codes = [(one.partition_index, one.error_code) for one in topic.partitions]
    assert (topic.topic_id, codes) == (topic_id, [(9, UNKNOWN_TOPIC), (0, 0)])


@pytest.mark.parametrize(("count", "code"), [(2048, 0), (2049, 12)])
async def test_metadata_is_measured_in_javas_characters(rig, count, code):
    assert await commit(rig, ("t", 0, 1), metadata="😀" * count) == [("t", 0, code)]


async def test_the_longest_retention_is_stored(rig):
    endless_ms = (1 << 63) - 1
    committed = await commit(rig, ("t", 0, 1), version=4, retention_time_ms=endless_ms)
    assert committed == [("t", 0, 0)]
    stored = rig.services.groups.registry_of("g").offsets.get("g", "t", 0)
    assert stored.expires_ms == endless_ms
    assert stored.topic_id == ZERO_UUID  # version 1 of the record has no id


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(offset_commit, "PARTITIONS_ON_THE_LOOP", 1)
    monkeypatch.setattr(commits, "ANSWERED_PER_STEP", 1)


@pytest.mark.usefixtures("all_are_large")
async def test_commits_and_fetches_of_a_group_keep_their_order_behind_a_large_commit(rig):
    threads = []
    run = rig.services.pool.run

    async def slower(call):
        threads.append(call)
        await asyncio.sleep(0.02 if len(threads) == 1 else 0)
        return await run(call)

    rig.services.pool.run = slower
    answers = await asyncio.gather(
        commit(rig, ("t", 0, 1), ("t", 1, 1), ("no", 0, 1)),
        commit(rig, ("t", 0, 2), ("t", 1, 2)),
        committed(rig, ("t", 0), ("t", 1)),
        commit(rig, ("t", 0, 3)),  # small, and behind the others all the same
        committed(rig),
        commit(rig, ("t", 0, 1), group_id="other"),  # of a group that waits for nothing
    )
    assert answers == [
        [("no", 0, UNKNOWN_TOPIC), ("t", 0, 0), ("t", 1, 0)],
        [("t", 0, 0), ("t", 1, 0)],
        {("t", 0): 2, ("t", 1): 2},
        [("t", 0, 0)],
        {("t", 0): 3, ("t", 1): 2},
        [("t", 0, 0)],
    ]
    assert len(threads) == 2
    assert "g" not in rig.services.groups.large_offset_commits.waiting


@pytest.mark.usefixtures("all_are_large")
async def test_a_large_commit_is_checked_when_it_is_appended(rig):
    run = rig.services.pool.run

    async def joined_meanwhile(call):
        rig.services.pool.run = run
        await member(rig)
        return await run(call)

    rig.services.pool.run = joined_meanwhile
    assert await commit(rig, ("t", 0, 1), ("t", 1, 1)) == [("t", 0, 25), ("t", 1, 25)]
    assert await committed(rig) == {}


@pytest.mark.usefixtures("all_are_large")
async def test_a_topic_that_goes_while_a_large_commit_is_prepared_is_unknown(rig):
    run = rig.services.pool.run

    async def deleted_meanwhile(call):
        rig.services.pool.run = run
        prepared = await run(call)
        await rig.call(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
        return prepared

    await create(rig, "u", 1)
    rig.services.pool.run = deleted_meanwhile
    answer = await commit(rig, ("t", 0, 1), ("u", 0, 1), ("t", 1, 2))
    assert answer == [("u", 0, UNKNOWN_TOPIC), ("t", 0, 0), ("t", 1, 0)]
    assert await committed(rig) == {("t", 0): 1, ("t", 1): 2}


@pytest.mark.usefixtures("all_are_large")
async def test_a_topic_that_is_made_anew_while_a_large_commit_by_id_is_prepared(rig):
    run = rig.services.pool.run
    topic_id = await create(rig, "u", 1)

    async def made_anew_meanwhile(call):
        rig.services.pool.run = run
        prepared = await run(call)
        await rig.call(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
        await create(rig, "u", 1)
        return prepared

    rig.services.pool.run = made_anew_meanwhile
    answer = await commit(rig, ("u", 0, 1), ("u", 0, 2), version=10, topic_id=topic_id)
    assert answer == [("", 0, UNKNOWN_ID), ("", 0, UNKNOWN_ID)]
    assert await committed(rig) == {}
