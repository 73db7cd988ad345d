"""The image after each record, as Kafka's controller would have it, and what it refuses."""

import pytest

from broker.metadata.image import ClusterImage
from broker.metadata.image_error import ImageError
from broker.metadata.records_io import UnknownRecord
from broker.metadata.snapshots import image_records
from protocol.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID_A, ID_B = b"A" * 16, b"B" * 16
DIRECTORY, OTHER_DIRECTORY = b"D" * 16, b"E" * 16


def partition(number=0, topic_id=ID_A, **fields):
    values = {
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [DIRECTORY],
    }
    return PartitionRecord(partition_id=number, topic_id=topic_id, **(values | fields))


def change(number=0, topic_id=ID_A, **fields):
    return PartitionChangeRecord(partition_id=number, topic_id=topic_id, **fields)


def config(name, value, *, resource=(2, "a")):
    return ConfigRecord(
        resource_type=resource[0], resource_name=resource[1], name=name, value=value
    )


def image_of(*records):
    image = ClusterImage()
    for record in records:
        image.apply(record)
    return image


TOPIC_A = (TopicRecord(name="a", topic_id=ID_A), partition(0), partition(1))


def test_a_topic():
    image = image_of(*TOPIC_A)
    topic = image.topics["a"]
    assert image.topics_by_id[ID_A] is topic
    assert [p.partition for p in topic.partitions] == [0, 1]
    assert image.partition_count == 2
    assert topic.partitions[0].directory_of(1) == DIRECTORY
    assert topic.partitions[0].directory_of(2) == bytes(16)


def test_a_partition_without_directories_is_from_an_old_log():
    image = image_of(TopicRecord(name="a", topic_id=ID_A), partition(0, directories=[]))
    assert image.topics["a"].partitions[0].directory_of(1) == bytes(16)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        # (leader, leader_epoch, partition_epoch, isr, recovery, elr, last_known_elr, directories)
        ("nothing", {}, (1, 0, 1, [1], 0, [], [], [DIRECTORY])),
        ("isr only", {"isr": [1, 2]}, (1, 0, 1, [1, 2], 0, [], [], [DIRECTORY])),
        ("the same leader", {"leader": 1}, (1, 1, 1, [1], 0, [], [], [DIRECTORY])),
        (
            "Kafka's clean stop",
            {"isr": [], "leader": -1, "eligible_leader_replicas": [1], "last_known_elr": [1]},
            (-1, 1, 1, [], 0, [1], [1], [DIRECTORY]),
        ),
        (
            "Kafka's unclean election",
            {"isr": [1], "leader": 1, "leader_recovery_state": 1, "last_known_elr": []},
            (1, 1, 1, [1], 1, [], [], [DIRECTORY]),
        ),
        (
            "another directory",
            {"directories": [OTHER_DIRECTORY]},
            (1, 0, 1, [1], 0, [], [], [OTHER_DIRECTORY]),
        ),
    ],
)
def test_partition_changes(name, fields, expected):
    image = image_of(*TOPIC_A, change(0, **fields))
    p = image.topics["a"].partitions[0]
    found = (
        p.leader,
        p.leader_epoch,
        p.partition_epoch,
        p.isr,
        p.leader_recovery_state,
        p.eligible_leader_replicas,
        p.last_known_elr,
        p.directories,
    )
    assert found == expected, name
    assert image.topics["a"].partitions[1].partition_epoch == 0


def test_a_reassignment():
    image = image_of(
        *TOPIC_A,
        change(0, replicas=[1, 2], adding_replicas=[2], directories=[DIRECTORY, OTHER_DIRECTORY]),
        change(0, isr=[1, 2], leader=2),
        change(0, replicas=[2], isr=[2], adding_replicas=[], directories=[OTHER_DIRECTORY]),
    )
    p = image.topics["a"].partitions[0]
    assert (p.replicas, p.isr, p.leader, p.leader_epoch, p.partition_epoch) == ([2], [2], 2, 1, 3)
    assert (p.adding_replicas, p.directory_of(2)) == ([], OTHER_DIRECTORY)


def test_configs():
    image = image_of(
        *TOPIC_A,
        config("retention.ms", "1"),
        config("retention.ms", "2"),
        config("segment.bytes", "2097152"),
        config("segment.bytes", None),
        config("never.set", None),
        config("min.insync.replicas", "1", resource=(4, "")),
        config("log.retention.ms", "9", resource=(4, "1")),
        config("interval.ms", "9", resource=(16, "client-metrics")),
    )
    assert image.topics["a"].configs == {"retention.ms": "2"}
    assert image.broker_configs == {
        "": {"min.insync.replicas": "1"},
        "1": {"log.retention.ms": "9"},
    }
    assert image.other_configs == {(16, "client-metrics"): {"interval.ms": "9"}}


def test_a_removed_topic_takes_its_configs_with_it():
    image = image_of(
        *TOPIC_A,
        config("retention.ms", "1"),
        RemoveTopicRecord(topic_id=ID_A),
        TopicRecord(name="a", topic_id=ID_B),
        partition(0, ID_B),
    )
    assert image.topics["a"].topic_id == ID_B
    assert image.topics["a"].configs == {}
    assert list(image.topics_by_id) == [ID_B]


def test_collisions_follow_creation_and_removal():
    image = image_of(TopicRecord(name="a.b", topic_id=ID_A), TopicRecord(name="a_b", topic_id=ID_B))
    assert image.topic_colliding_with("a.b") == "a_b"
    assert image.topic_colliding_with("a_b") == "a.b"
    assert image.topic_colliding_with("a-b") is None
    image.apply(RemoveTopicRecord(topic_id=ID_B))
    assert image.topic_colliding_with("a.b") is None
    image.apply(RemoveTopicRecord(topic_id=ID_A))
    assert image.topic_colliding_with("a_b") is None


@pytest.mark.parametrize(("named", "cleared"), [("a", {"a"}), ("", {"a", "b"})])
def test_eligible_leaders_are_cleared_of_one_topic_or_of_all(named, cleared):
    image = ClusterImage()
    for name in ("a", "b"):
        topic_id = name.encode() * 16
        image.apply(TopicRecord(name=name, topic_id=topic_id))
        for number, elr in ((0, [1]), (1, [])):
            image.apply(
                PartitionRecord(
                    partition_id=number, topic_id=topic_id, partition_epoch=4, last_known_elr=elr
                )
            )
    image.apply(ClearElrRecord(topic_name=named))
    for name, topic in image.topics.items():
        first, second = topic.partitions
        is_cleared = name in cleared
        assert (first.last_known_elr, first.partition_epoch) == (
            ([], 5) if is_cleared else ([1], 4)
        )
        assert (second.last_known_elr, second.partition_epoch) == ([], 4)
    with pytest.raises(ImageError):
        image.apply(ClearElrRecord(topic_name="none"))


def test_records_that_only_kafka_understands_are_kept_in_order():
    broker = RegisterBrokerRecord(broker_id=1, incarnation_id=ID_A, broker_epoch=11)
    others = [UnknownRecord(10, 0, b"a"), broker, UnknownRecord(10, 0, b"b")]
    image = image_of(UnknownRecord(20, 0), *others)
    assert [getattr(one, "frame", one) for one in image.kept] == [b"a", broker, b"b"]


def test_levels_ids_and_brokers():
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        ProducerIdsRecord(broker_id=-1, next_producer_id=1000),  # as in a snapshot
        RegisterBrokerRecord(broker_id=1, incarnation_id=ID_A, broker_epoch=11),
        RegisterBrokerRecord(broker_id=1, incarnation_id=ID_B, broker_epoch=101),
        UnknownRecord(20, 0),
        UnknownRecord(20, 0),
        UnknownRecord(10, 0),
    )
    assert image.feature_levels == {"metadata.version": 30}
    assert image.next_producer_id == 1000
    assert image.broker_epochs == {1: 101}
    assert image.skipped == {20: 2, 10: 1}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (TopicRecord(name="a", topic_id=ID_B), "topic a is created a second time"),
        (TopicRecord(name="b", topic_id=ID_A), "topic id 4141.* belongs to two topics"),
        (partition(0, ID_B), "PartitionRecord of unknown topic id 4242"),
        (partition(3), "a: partition 3 follows 2 partitions"),
        (change(0, ID_B), "PartitionChangeRecord of unknown topic id"),
        (change(2), "a has no partition 2"),
        (change(-1), "a has no partition -1"),
        (RemoveTopicRecord(topic_id=ID_B), "RemoveTopicRecord of unknown topic id"),
        (ProducerIdsRecord(broker_id=1, next_producer_id=999), "goes back from 1000 to 999"),
    ],
)
def test_records_that_contradict_the_image(record, text):
    image = image_of(*TOPIC_A, ProducerIdsRecord(broker_id=1, next_producer_id=1000))
    with pytest.raises(ImageError, match=text):
        image.apply(record)


def test_a_captured_image_does_not_change():
    image = image_of(*TOPIC_A, config("retention.ms", "7"), config("x", "1", resource=(4, "")))
    captured = image.capture()
    before = list(map(repr, image_records(image)))
    later = (
        change(0, leader=2, isr=[2]),
        partition(2),
        config("retention.ms", "8"),
        config("x", "2", resource=(4, "")),
        config("y", "2", resource=(32, "group")),
        TopicRecord(name="b", topic_id=ID_B),
        FeatureLevelRecord(name="level", feature_level=3),
        ProducerIdsRecord(broker_id=1, next_producer_id=1_000),
        UnknownRecord(99, 0, b"frame"),
    )
    for record in later:
        image.apply(record)
    assert list(map(repr, image_records(captured))) == before
    assert list(map(repr, image_records(image))) != before
