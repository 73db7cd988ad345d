"""OffsetFetch: the answer of each version. The offsets are tested in broker/test_groups.py."""

import pytest

from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, find
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(made, "t", 2)
    yield made
    await made.close()


def old(topics: list[OffsetFetchRequestTopic] | None) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id="g", topics=topics)


@pytest.mark.parametrize("version", [1, 5, 7])
async def test_one_group_in_the_old_shape(rig, version):
    await find(rig)
    await commit(rig, ("t", 0, 7), metadata="m")
    asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    answer = await ask(rig, old(asked), version)
    (topic,) = answer.topics
    epoch = 3 if version >= 5 else -1
    assert answer.error_code == 0
    assert [
        (one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code)
        for one in topic.partitions
    ] == [(7, epoch, "m", 0), (-1, -1, "", 0)]


async def test_null_topics_return_all_offsets(rig):
    await find(rig)
    await commit(rig, ("t", 0, 7), ("t", 1, 8))
    (topic,) = (await ask(rig, old(None), 2)).topics
    assert [one.committed_offset for one in topic.partitions] == [7, 8]
    assert (await ask(rig, old([]), 2)).topics == []


@pytest.mark.parametrize(("version", "top", "each"), [(1, 0, [16]), (2, 16, []), (7, 16, [])])
async def test_an_error_of_the_group(rig, version, top, each):
    asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = await ask(rig, old(asked), version)
    assert answer.error_code == top
    assert [one.error_code for topic in answer.topics for one in topic.partitions] == each


async def test_many_groups(rig):
    await find(rig)
    await commit(rig, ("t", 0, 7), group_id="a")
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("b", "a", "")]
    answer = await ask(rig, OffsetFetchRequest(groups=groups), 8)
    assert [(one.group_id, len(one.topics), one.error_code) for one in answer.groups] == [
        ("b", 0, 0),
        ("a", 1, 0),
        ("", 0, 0),
    ]
    assert (await ask(rig, OffsetFetchRequest(), 8)).groups == []


async def test_topics_by_id(rig):
    await find(rig)
    topic_id = await create(rig, "u")
    await commit(rig, ("", 0, 5), version=10, topic_id=topic_id)
    await commit(rig, ("t", 0, 6))
    topics = [
        OffsetFetchRequestTopics(topic_id=asked, partition_indexes=[0])
        for asked in (topic_id, b"?" * 16)
    ]
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=topics),
        OffsetFetchRequestGroup(group_id="g", topics=None),
    ]
    named, everything = (await ask(rig, OffsetFetchRequest(groups=groups), 10)).groups
    assert [
        (topic.topic_id, one.committed_offset, one.error_code)
        for topic in named.topics
        for one in topic.partitions
    ] == [(b"?" * 16, -1, 100), (topic_id, 5, 0)]
    assert sorted(one.committed_offset for t in everything.topics for one in t.partitions) == [5, 6]


async def test_an_offset_of_a_recreated_topic_is_not_shown(rig):
    await find(rig)
    first = await create(rig, "u")
    await commit(rig, ("", 0, 5), version=10, topic_id=first)
    offsets = dict(rig.services.groups.registry_of("g").offsets.topics("g")["u"])
    await rig.services.topics.delete("u")
    second = await create(rig, "u")
    # As after a crash between the deletion and its tombstones.
    rig.services.groups.registry_of("g").offsets._groups["g"] = {"u": offsets}
    topics = [OffsetFetchRequestTopics(topic_id=second, partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    (answer,) = (await ask(rig, OffsetFetchRequest(groups=groups), 10)).groups
    assert answer.topics[0].partitions[0].committed_offset == -1
