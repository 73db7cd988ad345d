"""Declarations of message classes: keys, version ranges and defaults."""

import pytest

from protocol.messages import create_topics, fetch, metadata, offset_for_leader_epoch, produce
from protocol.wire import ZERO_UUID, message_spec
from tests.support.message_fields import api_messages, fields_of

# The versions that Apache Kafka 4.3 serves.
SERVED = {
    "Produce": (0, 3, 13),
    "Fetch": (1, 4, 18),
    "ListOffsets": (2, 1, 11),
    "Metadata": (3, 0, 13),
    "OffsetCommit": (8, 2, 10),
    "OffsetFetch": (9, 1, 10),
    "FindCoordinator": (10, 0, 6),
    "JoinGroup": (11, 0, 9),
    "Heartbeat": (12, 0, 4),
    "LeaveGroup": (13, 0, 5),
    "SyncGroup": (14, 0, 5),
    "DescribeGroups": (15, 0, 6),
    "ListGroups": (16, 0, 5),
    "SaslHandshake": (17, 0, 1),
    "ApiVersions": (18, 0, 4),
    "CreateTopics": (19, 2, 7),
    "DeleteTopics": (20, 1, 6),
    "DeleteRecords": (21, 0, 2),
    "InitProducerId": (22, 0, 5),
    "OffsetForLeaderEpoch": (23, 2, 4),
    "AddPartitionsToTxn": (24, 0, 5),
    "AddOffsetsToTxn": (25, 0, 4),
    "EndTxn": (26, 0, 5),
    "WriteTxnMarkers": (27, 1, 2),
    "TxnOffsetCommit": (28, 0, 5),
    "DescribeAcls": (29, 1, 3),
    "CreateAcls": (30, 1, 3),
    "DeleteAcls": (31, 1, 3),
    "DescribeConfigs": (32, 1, 4),
    "AlterConfigs": (33, 0, 2),
    "DescribeLogDirs": (35, 1, 5),
    "SaslAuthenticate": (36, 0, 2),
    "CreatePartitions": (37, 0, 3),
    "DeleteGroups": (42, 0, 2),
    "ElectLeaders": (43, 0, 2),
    "IncrementalAlterConfigs": (44, 0, 1),
    "DescribeClientQuotas": (48, 0, 1),
    "AlterClientQuotas": (49, 0, 1),
    "AlterPartitionReassignments": (45, 0, 1),
    "ListPartitionReassignments": (46, 0, 0),
    "OffsetDelete": (47, 0, 0),
    "DescribeUserScramCredentials": (50, 0, 0),
    "AlterUserScramCredentials": (51, 0, 0),
    "DescribeQuorum": (55, 0, 2),
    "UpdateFeatures": (57, 0, 2),
    "DescribeCluster": (60, 0, 2),
    "DescribeProducers": (61, 0, 0),
    "UnregisterBroker": (64, 0, 0),
    "DescribeTransactions": (65, 0, 0),
    "ListTransactions": (66, 0, 2),
    "ConsumerGroupHeartbeat": (68, 0, 1),
    "ConsumerGroupDescribe": (69, 0, 1),
    "GetTelemetrySubscriptions": (71, 0, 0),
    "PushTelemetry": (72, 0, 0),
    "ListConfigResources": (74, 0, 1),
    "DescribeTopicPartitions": (75, 0, 0),
}


def test_keys_and_ranges_are_those_of_kafka() -> None:
    found = {}
    for cls in api_messages():
        spec = message_spec(cls)
        name = cls.__name__.removesuffix(spec.kind.capitalize())
        found.setdefault(name, set()).add((spec.api_key, spec.version_min, spec.version_max))
    assert found == {name: {versions} for name, versions in SERVED.items()}


# Defaults that differ from the zero of the type, which are easily forgotten.
DEFAULTS = [
    (metadata.MetadataRequest(), {"allow_auto_topic_creation": True, "topics": []}),
    (
        metadata.MetadataResponse(),
        {"controller_id": -1, "cluster_id": None, "cluster_authorized_operations": -(2**31)},
    ),
    (
        metadata.MetadataResponseTopic(),
        {"topic_authorized_operations": -(2**31), "topic_id": ZERO_UUID},
    ),
    (
        fetch.FetchRequest(max_wait_ms=0, min_bytes=0),
        {"max_bytes": 2**31 - 1, "session_epoch": -1, "replica_id": -1},
    ),
    (
        fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0),
        {
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "high_watermark": 2**63 - 1,
        },
    ),
    (
        fetch.PartitionData(partition_index=0, high_watermark=0),
        {
            "last_stable_offset": -1,
            "log_start_offset": -1,
            "preferred_read_replica": -1,
            "records": None,
        },
    ),
    (
        produce.PartitionProduceResponse(index=0),
        {"log_append_time_ms": -1, "log_start_offset": -1, "error_message": None},
    ),
    (create_topics.CreateTopicsRequest(), {"timeout_ms": 60_000}),
    (offset_for_leader_epoch.OffsetForLeaderEpochRequest(), {"replica_id": -2}),
]


@pytest.mark.parametrize(("message", "expected"), DEFAULTS)
def test_defaults_are_those_of_the_schema(message: object, expected: dict[str, object]) -> None:
    assert {name: getattr(message, name) for name in expected} == expected


def test_no_two_instances_share_a_list() -> None:
    for cls in api_messages():
        for field in fields_of(cls):
            if field.is_list and field.default is not None:
                assert field.default == []
    first, second = metadata.MetadataResponseTopic(), metadata.MetadataResponseTopic()
    assert first.partitions is not second.partitions
