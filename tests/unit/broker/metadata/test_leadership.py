"""Leaders and epochs after a start: after our stop, after a crash, and after Kafka."""

import pytest

from broker.metadata.image_loading import load_image
from broker.metadata.topic_rules import NewTopic
from protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from tests.support.metadata_node import (
    DATA,
    DIRECTORY,
    NOW_MS,
    OUR_DIRECTORY,
    Node,
    create_topics,
    kafka_disk,
)


def epochs(node, name="orders"):
    return [
        (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr)
        for partition in node.image.topics[name].partitions
    ]


def test_a_clean_start_writes_nothing():
    node = Node()
    node.create("orders", 2)
    again = node.restart()
    assert again.leadership.changed_count == 0
    assert (again.controller.metadata_log.epoch, epochs(again)) == (1, [(1, 0, 0, [1])] * 2)
    assert again.leadership.end_offset == node.controller.metadata_log.end_offset


def test_every_unclean_start_begins_new_epochs():
    node = Node()
    node.create("orders", 2)
    for run in (1, 2, 3):
        node = node.restart(unclean=True)
        assert node.leadership.changed_count == 2
        assert epochs(node) == [(1, run, run, [1])] * 2
        assert node.controller.metadata_log.epoch == 1 + run
        assert [log.leader_epoch for log in node.open_all()] == [run, run]
        assert load_image(node.filesystem, DIRECTORY).epoch == 1 + run


def test_an_unclean_start_without_topics_begins_a_new_epoch_of_the_log():
    assert Node().restart(unclean=True).controller.metadata_log.epoch == 2


def test_a_cleanly_stopped_kafka_left_partitions_without_a_leader():
    node = Node(kafka_disk())
    assert node.leadership.changed_count == 3
    for name in ("plain", "conf"):
        for partition in node.image.topics[name].partitions:
            assert (partition.leader, partition.isr, partition.leader_epoch) == (1, [1], 4)
            assert partition.leader_recovery_state == 0
            assert partition.eligible_leader_replicas == partition.last_known_elr == []
            assert partition.directories == [OUR_DIRECTORY]
    logs = node.open_all()
    assert len(logs) == 3
    assert {log.leader_epoch for log in logs} == {4}


def test_partitions_in_another_kafka_directory_are_not_created_here():
    node = Node(kafka_disk(directories=["plain-0"]))
    assert node.leadership.elsewhere == ["plain-1", "conf-0"]
    assert [(topic.name, p.partition) for topic, p in node.leadership.led] == [("plain", 0)]
    assert [(log.topic, log.partition) for log in node.open_all()] == [("plain", 0)]
    assert not node.controller.leads(node.image.topics["conf"], 0)


@pytest.mark.parametrize(
    ("name", "fields", "led", "changed"),
    [
        ("as we leave it", {}, True, 0),
        ("another node's", {"replicas": [2], "isr": [2], "leader": 2}, False, 0),
        (
            "one of three",
            {"replicas": [2, 1, 3], "isr": [2, 1], "leader": 2, "directories": [b"2" * 16] * 3},
            True,
            1,
        ),
        ("directory unknown", {"directories": [bytes(16)]}, True, 1),
        ("directory not assigned", {"directories": [bytes(15) + b"\1"]}, True, 1),
        ("recovering", {"leader_recovery_state": 1}, True, 1),
    ],
)
def test_which_partitions_belong_to_this_broker(name, fields, led, changed):
    node = Node()
    values = {
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 4,
        "partition_epoch": 9,
        "directories": [OUR_DIRECTORY],
    } | fields
    topic_id = b"T" * 16
    records = [
        TopicRecord(name="t", topic_id=topic_id),
        PartitionRecord(partition_id=0, topic_id=topic_id, **values),
    ]
    node.controller.metadata_log.append(records, NOW_MS)
    node.controller.metadata_log.flush()
    node.filesystem.mkdir(f"{DATA}/t-0")
    node.filesystem.sync_directory(DATA)
    again = node.restart()
    partition = again.image.topics["t"].partitions[0]
    assert again.controller.leads(again.image.topics["t"], 0) is led, name
    assert again.leadership.changed_count == changed
    assert again.leadership.not_ours == ([] if led else ["t-0"])
    if led:
        assert (partition.leader, partition.isr) == (1, [1])
        assert partition.directory_of(1) == OUR_DIRECTORY
        assert partition.leader_recovery_state == 0
        assert partition.leader_epoch == (5 if values["leader"] != 1 else 4)


def test_more_partitions_than_fit_a_batch():
    node = Node()
    asked = [NewTopic(name=f"t{number}", partition_count=500) for number in range(5)]
    create_topics(node.controller, asked, NOW_MS)
    node.controller.metadata_log.flush()
    again = node.restart(unclean=True)
    assert again.leadership.changed_count == 2_500
    assert again.leadership.end_offset == node.controller.metadata_log.end_offset + 2_501


def test_unusable_configs_are_reported_and_do_not_stop_the_start():
    node = Node()
    node.create("orders", 1, **{"retention.ms": "7"})
    record = ConfigRecord(resource_type=2, resource_name="orders", name="new.in.kafka", value="1")
    node.controller.metadata_log.append([record], NOW_MS)
    node.controller.metadata_log.flush()
    again = node.restart()
    (warning,) = again.controller.metadata_log.warnings
    assert warning.startswith("topic orders: new.in.kafka=1: ")
    assert again.controller.topic_configs.of(again.image.topics["orders"]).retention_ms == 7
    assert len(again.open_all()) == 1
