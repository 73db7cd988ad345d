"""Offsets of transactions in a broker: what clients see of them, and what a restart makes of them.

§6 of the notes on Kafka 4.3: each row was tried on it.
"""

import asyncio
import random

import pytest

from broker.groups import forgetting, loading
from broker.groups.removal import expire_offsets
from broker.groups.replay import read_chunk
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.records import batches
from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import compact
from tests.support.broker_rig import Rig
from tests.support.compacting import drive, headers_of, limits
from tests.support.group_rig import commit, committed, find, member
from tests.support.pending_rig import durable, end, mark, pend
from tests.support.rig_client import ask, crash, create

UNSTABLE, NON_EMPTY = 88, 68
COUNT = 4  # partitions of `t`


def rig_of(directory, **settings):
    return Rig(directory, offsets_topic_num_partitions="2", **settings)


@pytest.fixture
async def rig(tmp_path):
    made = rig_of(tmp_path)
    await create(made, "t", COUNT)
    await create(made, "u")
    await find(made)
    yield made
    await made.close()


async def stable(rig, *wanted, group="g", version=9, topic_ids=None):
    """Return {(topic, partition): (offset, error)} of a fetch that requires stable offsets."""
    topics = [
        OffsetFetchRequestTopics(
            name=topic, topic_id=(topic_ids or {}).get(topic, b"\0" * 16), partition_indexes=[one]
        )
        for topic, one in wanted
    ]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics or None)]
    body = OffsetFetchRequest(groups=groups, require_stable=True)
    (answer,) = (await ask(rig, body, version)).groups
    assert answer.error_code == 0
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    }


async def listed(rig):
    body = ListGroupsRequest()
    return [(one.group_id, one.group_state) for one in (await ask(rig, body, 5)).groups]


async def delete_groups(rig, *names):
    answer = await ask(rig, DeleteGroupsRequest(groups_names=list(names)), 2)
    return [one.error_code for one in answer.results]


async def delete_offset(rig, topic, number, group="g"):
    partitions = [OffsetDeleteRequestPartition(partition_index=number)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    answer = await ask(rig, OffsetDeleteRequest(group_id=group, topics=topics), 0)
    return answer.error_code or answer.topics[0].partitions[0].error_code


def state(rig):
    """Return what a rig has in memory of offsets, pending ones and groups."""
    shards = rig.services.groups._shards
    return [
        (
            shard.registry.offsets._groups,
            shard.registry.offsets.pending.producers(),
            sorted(shard.registry.groups),
        )
        for shard in shards
    ]


async def restarted(rig, tmp_path):
    await durable(rig)
    await crash(rig)
    again = rig_of(tmp_path)
    await again.loading
    return again


# -- Reading --------------------------------------------------------------------------------------


async def test_only_the_partition_with_a_pending_offset_is_unstable(rig):
    await commit(rig, ("t", 0, 1), ("t", 1, 2))
    pend(rig, ("t", 0, 5), ("u", 0, 6))
    asked = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert await stable(rig, *asked) == {
        ("t", 0): (-1, UNSTABLE),
        ("t", 1): (2, 0),
        ("t", 2): (-1, 0),
        ("u", 0): (-1, UNSTABLE),
    }
    assert await committed(rig, *asked) == {("t", 0): 1, ("t", 1): 2, ("t", 2): -1, ("u", 0): -1}
    end(rig, commits=True)
    assert await stable(rig, ("t", 0), ("u", 0)) == {("t", 0): (5, 0), ("u", 0): (6, 0)}


async def test_all_offsets_are_those_committed_before(rig):
    await commit(rig, ("t", 0, 1), ("t", 1, 2))
    pend(rig, ("t", 0, 5), ("u", 0, 6))
    assert await stable(rig) == {("t", 0): (-1, UNSTABLE), ("t", 1): (2, 0)}
    assert await committed(rig) == {("t", 0): 1, ("t", 1): 2}


async def test_topics_by_id(rig):
    ids = {"t": rig.services.topics.by_name("t").topic_id}
    pend(rig, ("t", 0, 5))
    asked = OffsetFetchRequestTopics(topic_id=ids["t"], partition_indexes=[0, 1])
    groups = [OffsetFetchRequestGroup(group_id="g", topics=[asked])]
    body = OffsetFetchRequest(groups=groups, require_stable=True)
    (answer,) = (await ask(rig, body, 10)).groups
    assert [one.error_code for one in answer.topics[0].partitions] == [UNSTABLE, 0]


@pytest.mark.parametrize(("version", "wanted"), [(6, (-1, 0)), (7, (-1, UNSTABLE))])
async def test_before_version_7_nobody_asks_for_stable_offsets(rig, version, wanted):
    pend(rig, ("t", 0, 5))
    asked = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    body = OffsetFetchRequest(group_id="g", topics=asked, require_stable=version >= 7)
    answer = await ask(rig, body, version)
    one = answer.topics[0].partitions[0]
    assert (one.committed_offset, one.error_code) == wanted


# -- Groups ---------------------------------------------------------------------------------------


async def test_a_group_of_pending_offsets_is_listed_and_gone_after_the_abort(rig):
    pend(rig, ("t", 0, 5))
    assert await listed(rig) == [("g", "Empty")]
    (described,) = (await ask(rig, DescribeGroupsRequest(groups=["g"]), 5)).groups
    assert (described.group_state, described.error_code) == ("Empty", 0)
    end(rig, commits=False)
    assert await listed(rig) == []


async def test_a_group_of_pending_offsets_stays_after_the_commit(rig):
    pend(rig, ("t", 0, 5))
    end(rig, commits=True)
    assert await listed(rig) == [("g", "Empty")]


@pytest.mark.parametrize("joins", [False, True])
async def test_a_group_with_more_than_pending_offsets_stays_after_the_abort(rig, joins):
    pend(rig, ("t", 0, 5))
    if joins:
        await member(rig)
    else:
        await commit(rig, ("t", 1, 5))
    end(rig, commits=False)
    assert await listed(rig) == [("g", "Stable" if joins else "Empty")]


async def test_a_group_that_was_joined_and_left_without_a_generation_stays(rig, tmp_path):
    """Its first record is in the log."""
    await member(rig)
    (one,) = rig.services.groups.groups()
    one.rebalance.remove_member(next(iter(one._roster.members)))
    pend(rig, ("t", 0, 5))
    end(rig, commits=False)
    assert [name for name, _ in await listed(rig)] == ["g"]


# -- Deletion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_committed", [False, True])
@pytest.mark.parametrize("commits", [False, True])
async def test_a_deleted_group_does_not_come_back_with_the_commit(
    rig, tmp_path, has_committed, commits
):
    if has_committed:
        await commit(rig, ("t", 0, 1))
    pend(rig, ("t", 0, 5), ("u", 0, 6))
    assert await delete_groups(rig, "g") == [0]
    assert await listed(rig) == []
    end(rig, commits=commits)
    assert await listed(rig) == []
    assert await committed(rig) == {}
    again = await restarted(rig, tmp_path)
    assert await committed(again) == {}
    assert await listed(again) == []
    await again.close()


async def test_a_group_with_members_is_not_deleted(rig):
    await member(rig)
    pend(rig, ("t", 0, 5))
    assert await delete_groups(rig, "g") == [NON_EMPTY]
    end(rig, commits=True)
    assert await committed(rig) == {("t", 0): 5}


@pytest.mark.parametrize("has_committed", [False, True])
async def test_a_deleted_offset_does_not_come_back_with_the_commit(rig, tmp_path, has_committed):
    if has_committed:
        await commit(rig, ("t", 0, 1))
    pend(rig, ("t", 0, 5), ("t", 1, 6))
    assert await delete_offset(rig, "t", 0) == 0
    assert await stable(rig, ("t", 0), ("t", 1)) == {("t", 0): (-1, 0), ("t", 1): (-1, UNSTABLE)}
    end(rig, commits=True)
    assert await committed(rig) == {("t", 1): 6}
    again = await restarted(rig, tmp_path)
    assert await committed(again) == {("t", 1): 6}
    await again.close()


async def test_an_offset_that_is_deleted_between_the_marker_and_its_end_stays_deleted(
    rig, tmp_path
):
    pend(rig, ("t", 0, 5))
    marked = mark(rig, commits=True)
    assert await delete_offset(rig, "t", 0) == 0
    rig.services.groups.transaction_ended(*marked)
    assert await committed(rig) == {}
    again = await restarted(rig, tmp_path)
    assert await committed(again) == {}
    await again.close()


async def test_a_group_with_pending_offsets_outlives_its_expired_ones(rig):
    await commit(rig, ("t", 0, 1), version=4, retention_time_ms=0)
    await commit(rig, ("t", 1, 1), version=4, retention_time_ms=0)
    pend(rig, ("t", 0, 5))
    await expire_offsets(rig.services.groups)
    assert await committed(rig) == {("t", 0): 1}
    await delete_offset(rig, "t", 0)
    pend(rig, ("t", 1, 5))
    await expire_offsets(rig.services.groups)
    assert await listed(rig) == [("g", "Empty")]
    end(rig, commits=True)
    assert await committed(rig) == {("t", 1): 5}


async def test_a_deleted_topic_takes_its_pending_offsets(rig, tmp_path):
    pend(rig, ("t", 0, 5), ("u", 0, 6))
    await rig.services.topics.delete("t")
    await create(rig, "t", COUNT)
    assert await stable(rig, ("t", 0)) == {("t", 0): (-1, 0)}
    pend(rig, ("t", 1, 7))  # of the new topic
    end(rig, commits=True)
    assert await committed(rig) == {("t", 1): 7, ("u", 0): 6}
    again = await restarted(rig, tmp_path)
    assert await committed(again) == {("t", 1): 7, ("u", 0): 6}
    await again.close()


async def test_a_pending_offset_of_a_new_topic_outlives_the_tombstones_of_the_old_one(
    rig, tmp_path, monkeypatch
):
    """Tombstones are written in turns; one that came later would drop the new offset."""
    monkeypatch.setattr(forgetting, "TURN_UNITS", 1)
    await commit(rig, *(("t", number, 1) for number in range(COUNT)))
    await commit(rig, *(("t", number, 1) for number in range(COUNT)), group_id="h")
    topics = rig.services.groups._deleted_topics
    for shard in rig.services.groups._shards:
        topics.forget(shard, "t")
    assert topics._left, "some tombstones are not written yet"
    pend(rig, ("t", 3, 7), ("t", 2, 8))
    while topics._left:
        await asyncio.sleep(0)
    assert await committed(rig) == {}
    end(rig, commits=True)
    wanted = {("t", 3): 7, ("t", 2): 8}
    assert await committed(rig) == wanted
    again = await restarted(rig, tmp_path)
    assert await committed(again) == wanted
    assert await committed(again, group="h") == {}
    await again.close()


# -- Restarts -------------------------------------------------------------------------------------


async def test_open_transactions_stay_open_over_a_restart(rig, tmp_path):
    await commit(rig, ("t", 0, 1), ("t", 1, 1), ("t", 2, 1), ("t", 3, 1))
    pend(rig, ("t", 0, 10), ("t", 3, 13), producer=10)
    pend(rig, ("t", 1, 11), producer=11)
    pend(rig, ("t", 2, 12), producer=12)
    await commit(rig, ("t", 3, 2))
    end(rig, commits=True, producer=11)
    end(rig, commits=False, producer=12)
    again = await restarted(rig, tmp_path)
    assert await stable(again) == {
        ("t", 0): (-1, UNSTABLE),
        ("t", 1): (11, 0),
        ("t", 2): (1, 0),
        ("t", 3): (-1, UNSTABLE),
    }
    end(again, commits=True, producer=10)
    wanted = {("t", 0): 10, ("t", 1): 11, ("t", 2): 1, ("t", 3): 2}
    assert await committed(again) == wanted
    third = await restarted(again, tmp_path)
    assert await committed(third) == wanted
    await third.close()


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_marker_that_comes_while_groups_are_loaded_counts_once(
    rig, tmp_path, monkeypatch, is_read
):
    """The load reads it, or is told of it: whether it has come to the end of the log."""
    await commit(rig, ("t", 0, 1))
    pend(rig, ("t", 0, 5))
    await durable(rig)
    await crash(rig)
    begin = loading._begin_sessions
    told = []

    async def begin_later(shard):
        if shard.registry.get("g") is not None and not is_read:
            end(again, commits=True)
            told.append(shard.state)
        await begin(shard)

    monkeypatch.setattr(loading, "_begin_sessions", begin_later)
    again = rig_of(tmp_path)
    if is_read:
        end(again, commits=True)
    await again.loading
    assert told == [] if is_read else ["loading"]
    assert await stable(again, ("t", 0)) == {("t", 0): (5, 0)}
    await again.close()


async def live(rig, rng, count):
    """Commit, end and delete something `count` times, in whatever order."""
    for _ in range(count):
        group = rng.choice("gh")
        place = rng.choice(["t", "t", "u"])
        number = rng.randrange(COUNT) if place == "t" else 0
        producer = rng.choice([7, 8, 9])
        what = rng.random()
        if what < 0.25:
            await commit(rig, (place, number, rng.randrange(100)), group_id=group)
        elif what < 0.65:
            pend(rig, (place, number, rng.randrange(100)), group=group, producer=producer)
        elif what < 0.9:
            end(rig, commits=rng.random() < 0.6, group=group, producer=producer)
        elif what < 0.95:
            await delete_offset(rig, place, number, group)
        elif what < 0.98:
            await delete_groups(rig, group)
        else:
            await rig.services.topics.delete("u")
            await create(rig, "u")
    rig.services.groups._deleted_topics.finish()


@pytest.mark.parametrize("seed", range(8))
async def test_memory_is_what_a_restart_loads(rig, tmp_path, seed):
    await live(rig, random.Random(seed), 60)
    before = state(rig)
    again = await restarted(rig, tmp_path)
    assert state(again) == before
    await again.close()


@pytest.mark.parametrize("seed", range(3))
async def test_memory_is_what_a_restart_loads_after_compaction(tmp_path, seed):
    rng = random.Random(seed)
    rig = rig_of(tmp_path, internal_segment_bytes="400")
    await create(rig, "t", COUNT)
    await create(rig, "u")
    await find(rig)
    cleaned = 0
    for _ in range(3):
        await live(rig, rng, 40)
        await durable(rig)
        for number in range(2):
            cleaned += compacted(rig, rig.services.partitions.get(GROUP_TOPIC, number).log)
    assert cleaned, "no record went"
    before = offsets_of(rig)
    again = await restarted(rig, tmp_path)
    assert offsets_of(again) == before
    await again.close()


def offsets_of(rig):
    """Return offsets and pending ones: groups without any offset go with their records."""
    return [(offsets, pending) for offsets, pending, _ in state(rig)]


def compacted(rig, log):
    """Compact a log of groups, all tombstones and markers included; return how many records go."""
    while (marker_offset := log.unsettled_from) is not None:
        log.settle(marker_offset)
    checkpoint = log.begin_checkpoint()
    if checkpoint is not None:
        checkpoint.run()
        log.finish_checkpoint(checkpoint, None)
        rig.services.logs.write_checkpoints()  # compaction stays below what the file says
    far_ms = 1 << 42
    records = sum(header.record_count for header in headers_of(log))
    drive(compact(log, find_cleanable(log, far_ms), limits(), far_ms))
    return records - sum(header.record_count for header in headers_of(log))


async def test_the_records_of_a_transaction_are_one_batch_as_kafka_writes_it(rig):
    number, first_end = pend(rig, ("t", 0, 5), ("t", 1, 6))
    assert pend(rig, ("t", 2, 7)) == (number, first_end + 1)
    log = rig.services.partitions.get(GROUP_TOPIC, number).log
    content = log.read(0, 1 << 20, end_offset=log.end_offset).read()
    assert [len(batch.records) for batch in read_chunk(content)] == [2, 1]
    assert [
        (one.producer_id, one.producer_epoch, one.base_sequence, one.is_transactional)
        for _, one in batches(content)
    ] == [(9, 3, 0, True)] * 2
