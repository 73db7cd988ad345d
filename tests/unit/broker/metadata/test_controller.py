"""Topics and producer ids as records, images and directories; and crashes between."""

import pytest

from broker.metadata.topic_rules import TopicError
from protocol.errors import ErrorCode
from protocol.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from storage.errors import AppendFailed, LogFailed, UnknownPartition
from tests.support.metadata_node import LOG, NOW_MS, OUR_DIRECTORY, Node, create_topic, kafka_disk

# -- Topics ---------------------------------------------------------------------------------------


def test_a_created_topic_survives_a_restart():
    node = Node()
    topic = node.create(**{"retention.ms": "7", "cleanup.policy": "compact"})
    assert node.directories() == ["orders-0", "orders-1"]
    log = node.logs.logs["orders", 1]
    assert (log.topic_id, log.leader_epoch) == (topic.topic_id, 0)
    assert (log.config.retention_ms, log.config.cleanup_policy) == (7, ("compact",))
    again = node.restart()
    assert again.image.topics == {"orders": topic}
    assert [p.directories for p in topic.partitions] == [[OUR_DIRECTORY]] * 2
    assert [log.partition for log in again.open_all()] == [0, 1]


def test_records_are_in_kafkas_order():
    node = Node()
    written = []
    append = node.controller.metadata_log.append
    node.controller.metadata_log.append = lambda records, now, _batch, **how: (
        written.extend(records) or append(records, now, **how)
    )
    node.create(count=2, **{"segment.bytes": "2097152", "retention.ms": "7"})
    assert [type(record) for record in written] == [
        TopicRecord,
        ConfigRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    assert written[3] == PartitionRecord(
        partition_id=0,
        topic_id=node.image.topics["orders"].topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[OUR_DIRECTORY],
    )


def test_one_topic_or_its_error():
    node = Node(default_partition_count=3)
    topic, end_offset = create_topic(node.controller, "auto", NOW_MS)
    assert (len(topic.partitions), end_offset) == (3, 14)
    with pytest.raises(TopicError) as caught:
        create_topic(node.controller, "auto", NOW_MS)
    assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_failed_append_creates_no_topic():
    node = Node()
    node.controller.metadata_log.log.fail_next = AppendFailed(
        LOG, 421, OSError(28, "full"), rolled_back=True
    )
    with pytest.raises(LogFailed):
        create_topic(node.controller, "t", NOW_MS)
    assert node.image.topics == {}
    node.create("t")


def test_a_crash_before_the_directories_are_created():
    node = Node()
    create_topic(node.controller, "orders", NOW_MS, partition_count=3)
    node.controller.metadata_log.flush()
    again = node.restart()
    assert again.directories() == []
    assert [log.partition for log in again.open_all()] == [0, 1, 2]
    assert again.directories() == ["orders-0", "orders-1", "orders-2"]


def test_a_power_cut_before_the_topic_was_durable():
    node = Node()
    create_topic(node.controller, "orders", NOW_MS)
    assert node.restart().image.topics == {}


# -- Removal --------------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_after_a_restart():
    node = Node()
    node.create("orders", 2)
    node.create("kept", 1)
    topic, end_offset = node.controller.delete_topic("orders", NOW_MS)
    assert end_offset == node.controller.metadata_log.end_offset
    assert "orders" not in node.image.topics
    node.controller.metadata_log.flush()
    node.drop_logs(topic)
    assert [name.endswith("-delete") for name in node.directories()] == [False, True, True]
    assert list(node.restart().image.topics) == ["kept"]


def test_the_name_of_a_deleted_topic_is_taken_until_its_logs_are_dropped():
    node = Node()
    node.create("orders")
    topic, _end_offset = node.controller.delete_topic("orders", NOW_MS)
    with pytest.raises(TopicError, match="is not finished") as caught:
        create_topic(node.controller, "orders", NOW_MS)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    node.drop_logs(topic)
    assert node.create("orders").topic_id != topic.topic_id


@pytest.mark.parametrize("name", ["nosuch", "", "a/b", "__cluster_metadata"])
def test_an_unknown_topic(name):
    with pytest.raises(TopicError) as caught:
        Node().controller.delete_topic(name, NOW_MS)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_power_cut_before_the_removal_was_durable():
    node = Node()
    topic = node.create("orders")
    node.controller.delete_topic("orders", NOW_MS)
    again = node.restart()
    assert again.image.topics == {"orders": topic}
    assert again.directories() == ["orders-0", "orders-1"]


def test_a_crash_before_the_logs_were_dropped_leaves_strays():
    node = Node()
    node.create("orders")
    node.controller.delete_topic("orders", NOW_MS)
    node.controller.metadata_log.flush()
    again = node.restart()
    assert again.image.topics == {}
    assert again.open_all() == []
    assert again.directories() == ["orders-0", "orders-1"]


def test_deleting_nothing_writes_nothing():
    node = Node()
    assert node.controller.delete_topics([], NOW_MS) == 10


# -- Producer ids ---------------------------------------------------------------------------------


def test_producer_ids_are_never_assigned_twice():
    node = Node()
    first = node.controller.next_producer_id_block(NOW_MS)
    second = node.controller.next_producer_id_block(NOW_MS)
    assert (first.start, first.count, second.start) == (0, 1000, 1000)
    assert second.end_offset == node.controller.metadata_log.end_offset == first.end_offset + 1
    node.controller.metadata_log.flush()
    assert node.restart().controller.next_producer_id_block(NOW_MS).start == 2000


def test_producer_ids_continue_after_kafkas():
    assert Node(kafka_disk()).controller.next_producer_id_block(NOW_MS).start == 1000


def test_the_broker_epoch_is_that_of_kafkas_last_run():
    assert Node().controller.broker_epoch == -1
    assert Node(kafka_disk()).controller.broker_epoch == 101


def test_a_failed_append_assigns_no_ids():
    node = Node()
    node.controller.metadata_log.log.fail_next = AppendFailed(
        LOG, 421, OSError(28, "full"), rolled_back=True
    )
    with pytest.raises(LogFailed):
        node.controller.next_producer_id_block(NOW_MS)
    assert node.controller.next_producer_id_block(NOW_MS).start == 0


def test_the_fake_logs_refuse_the_same_calls_as_the_real_ones():
    with pytest.raises(UnknownPartition):
        Node().logs.delete_log("nosuch", 0)
    assert PartitionChangeRecord(partition_id=0, topic_id=b"T" * 16).leader == -2


# -- Large requests -------------------------------------------------------------------------------
