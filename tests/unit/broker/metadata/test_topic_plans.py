"""The plan of a topic request: an outcome for each topic, and the records to write."""

import pytest

from broker.metadata.growth import MorePartitions
from broker.metadata.image import ClusterImage, TopicInfo
from broker.metadata.topic_rules import NewTopic
from tests.support.metadata_node import NOW_MS, Node, create_partitions, create_topics


def outcome(result):
    return result.name if isinstance(result, TopicInfo) else int(result.code)


def test_each_topic_has_its_own_outcome():
    node = Node()
    node.create("plain", 1)
    node.create("a_b", 1)
    asked = [
        NewTopic(name=""),
        NewTopic(name="new", partition_count=3, replication_factor=1),
        NewTopic(name="d"),
        NewTopic(name="d", partition_count=2),
        NewTopic(name="plain"),
        NewTopic(name="a.b", partition_count=0),
        NewTopic(name="cfg", configs={"nosuch": "1"}, partition_count=0),
        NewTopic(name="count", partition_count=0),
        NewTopic(name="__cluster_metadata"),
        NewTopic(name="x.y"),
        NewTopic(name="x_y"),
    ]
    created = create_topics(node.controller, asked, NOW_MS)
    assert {name: outcome(result) for name, result in created.results.items()} == {
        "": 17,
        "new": "new",
        "plain": 36,
        "a.b": 17,
        "cfg": 40,
        "count": 37,
        "__cluster_metadata": 42,
        "x.y": "x.y",
        "x_y": "x_y",  # Kafka checks collisions only against topics from before the request
        "d": 42,
    }
    assert created.end_offset == node.controller.metadata_log.end_offset
    assert sorted(node.image.topics) == ["a_b", "new", "plain", "x.y", "x_y"]
    assert len(created.results["new"].partitions) == 3


@pytest.mark.parametrize(
    ("name", "counts", "code"),
    [
        ("records", [9_999], None),
        ("records of two", [5_000, 4_998], None),
        ("one record too many", [10_000], 44),
        ("the topics' own records count", [5_000, 5_000], 44),
        ("partitions", [10_001], 44),
    ],
)
def test_too_many_topics_in_one_request(name, counts, code):
    node = Node()
    asked = [NewTopic(name=f"t{i}", partition_count=count) for i, count in enumerate(counts)]
    created = node.controller.planner.plan_topics(asked)
    if code is None:
        assert all(isinstance(result, TopicInfo) for result in created.results.values()), name
    else:
        assert {outcome(result) for result in created.results.values()} == {code}, name
    asked.append(NewTopic(name="a/b"))
    outcomes = {outcome(r) for r in create_topics(node.controller, asked, NOW_MS).results.values()}
    assert outcomes == ({44} if code else {f"t{i}" for i in range(len(counts))} | {17})


def test_a_plan_changes_nothing():
    node = Node()
    end_offset = node.controller.metadata_log.end_offset
    plan = node.controller.planner.plan_topics([NewTopic(name="t")])
    assert plan.results["t"].partitions[0].leader == 1
    assert end_offset == node.controller.metadata_log.end_offset
    assert node.image.topics == {}


def test_topic_ids_are_random_uuids_in_kafkas_format():
    node = Node()
    names = [f"t{number}" for number in range(300)]
    create_topics(node.controller, [NewTopic(name=name) for name in names], NOW_MS)
    ids = set(node.image.topics_by_id)
    assert len(ids) == 300
    for topic_id in ids:
        assert (topic_id[6] >> 4, topic_id[8] >> 6) == (4, 2)
        assert topic_id[0] >> 2 != 62


def test_the_topics_of_a_plan_equal_those_of_its_records(monkeypatch):
    """Also without a turn of `apply` for each of ten thousand records, on the loop."""
    node = Node()
    applied = []
    monkeypatch.setattr(ClusterImage, "apply", lambda _image, record: applied.append(record))
    asked = [
        NewTopic(name="many", partition_count=500, configs={"retention.ms": "7"}),
        *(NewTopic(name=f"t.{number}") for number in range(50)),
    ]
    create_topics(node.controller, asked, NOW_MS)
    grown = [MorePartitions(name="many", count=900), MorePartitions(name="t.7", count=3)]
    create_partitions(node.controller, grown, NOW_MS)
    assert applied == []
    node.controller.metadata_log.flush()
    monkeypatch.undo()
    again = node.restart().image
    assert again.topics == node.image.topics
    assert again.topics_by_id == node.image.topics_by_id
    assert again.topic_colliding_with("t_7") == node.image.topic_colliding_with("t_7") == "t.7"
    assert len(node.image.topics["many"].partitions) == 900


def test_refusals_hold_no_frames():
    """Of very many refusals these were most objects, which only the garbage collector freed."""
    node = Node()
    node.create("t", 3)
    new = [NewTopic(name="new", partition_count=0)]
    refusals = list(create_topics(node.controller, new, NOW_MS).results.values())
    many = [NewTopic(name=name, partition_count=6_000) for name in "ab"]  # refused as a whole
    refusals += create_topics(node.controller, many, NOW_MS).results.values()
    grown = create_partitions(node.controller, [MorePartitions(name="t", count=2)], NOW_MS)
    refusals += grown.results.values()
    assert len(refusals) == 4
    assert {outcome(one) for one in refusals} == {37, 44}
    assert all(one.__traceback__ is None for one in refusals)
