"""Messages against bytes that the client library of Apache Kafka 4.3 wrote for the same values.

The table has the newest version of every message, and older ones that differ. The property tests
compare all versions with other programs; these bytes are Kafka's own.
"""

import pytest

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages import (
    api_versions,
    create_topics,
    delete_topics,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from protocol.wire import message_spec
from tests.support.message_fields import api_messages
from tests.unit.protocol import (
    golden_administration_messages,
    golden_cluster_messages,
    golden_config_messages,
    golden_group_descriptions,
    golden_group_messages,
    golden_quota_messages,
    golden_security_messages,
    golden_telemetry_messages,
    golden_transaction_messages,
    golden_user_messages,
)

CLICKS_ID = bytes([2]) * 16

API_KEYS = [
    api_versions.ApiVersion(api_key=0, min_version=0, max_version=13),
    api_versions.ApiVersion(api_key=18, min_version=0, max_version=4),
]
PRODUCE = produce.ProduceRequest(
    acks=-1,
    timeout_ms=30_000,
    topic_data=[
        produce.TopicProduceData(
            topic_id=CLICKS_ID,
            partition_data=[produce.PartitionProduceData(index=3, records=b"batch")],
        )
    ],
)
PRODUCE_BY_NAME = produce.ProduceRequest(
    acks=-1,
    timeout_ms=30_000,
    topic_data=[
        produce.TopicProduceData(
            name="clicks",
            partition_data=[produce.PartitionProduceData(index=3, records=b"batch")],
        )
    ],
)
FETCHED = fetch.PartitionData(
    partition_index=3,
    high_watermark=120,
    last_stable_offset=110,
    log_start_offset=5,
    aborted_transactions=None,
    records=b"batch",
)
FETCHED_V4 = fetch.PartitionData(
    partition_index=3,
    high_watermark=120,
    last_stable_offset=110,
    aborted_transactions=None,
    records=b"batch",
)
DIVERGED = fetch.PartitionData(
    partition_index=4,
    error_code=74,
    high_watermark=-1,
    diverging_epoch=fetch.EpochEndOffset(epoch=3, end_offset=50),
    current_leader=fetch.LeaderIdAndEpoch(leader_id=2, leader_epoch=4),
    snapshot_id=fetch.SnapshotId(end_offset=40, epoch=2),
    aborted_transactions=[fetch.AbortedTransaction(producer_id=1000, first_offset=7)],
)

GOLDEN = [
    (
        api_versions.ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7"),
        4,
        "056b63617404312e3700",
    ),
    (
        api_versions.ApiVersionsResponse(
            api_keys=API_KEYS,
            throttle_time_ms=7,
            supported_features=[
                api_versions.SupportedFeatureKey(name="group.version", min_version=0, max_version=1)
            ],
            finalized_features_epoch=0,
            finalized_features=[
                api_versions.FinalizedFeatureKey(
                    name="metadata.version", max_version_level=30, min_version_level=30
                )
            ],
        ),
        4,
        (
            "00000300000000000d000012000000040000000007030014020e67726f75702e76657273696f6e00"
            "0000010001080000000000000000021702116d657461646174612e76657273696f6e001e001e00"
        ),
    ),
    (
        api_versions.ApiVersionsResponse(error_code=35, api_keys=API_KEYS),
        0,
        "00230000000200000000000d001200000004",
    ),
    (metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13, "00000000"),
    (
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(topic_id=bytes([1]) * 16, name=None)],
            include_topic_authorized_operations=True,
        ),
        12,
        "02010101010101010101010101010101010000010100",
    ),
    (
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="clicks")]),
        0,
        "000000010006636c69636b73",
    ),
    (
        metadata.MetadataResponse(
            brokers=[metadata.MetadataResponseBroker(node_id=1, host="localhost", port=9092)],
            cluster_id="abc",
            controller_id=1,
            topics=[
                metadata.MetadataResponseTopic(
                    name="clicks",
                    topic_id=CLICKS_ID,
                    partitions=[
                        metadata.MetadataResponsePartition(
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=5,
                            replica_nodes=[1],
                            isr_nodes=[1],
                        )
                    ],
                ),
                metadata.MetadataResponseTopic(error_code=100, name=None, topic_id=bytes([3]) * 16),
            ],
        ),
        13,
        (
            "0000000002000000010a6c6f63616c686f7374000023840000046162630000000103000007636c69"
            "636b7302020202020202020202020202020202000200000000000000000001000000050200000001"
            "02000000010100800000000000640003030303030303030303030303030303000180000000000000"
            "00"
        ),
    ),
    (PRODUCE, 13, "00ffff0000753002020202020202020202020202020202020200000003066261746368000000"),
    (PRODUCE_BY_NAME, 12, "00ffff000075300207636c69636b730200000003066261746368000000"),
    (
        PRODUCE_BY_NAME,
        3,
        "ffffffff00007530000000010006636c69636b730000000100000003000000056261746368",
    ),
    (
        produce.ProduceResponse(
            responses=[
                produce.TopicProduceResponse(
                    topic_id=CLICKS_ID,
                    partition_responses=[
                        produce.PartitionProduceResponse(
                            index=3, base_offset=99, log_start_offset=0
                        ),
                        produce.PartitionProduceResponse(
                            index=4,
                            error_code=6,
                            base_offset=-1,
                            record_errors=[produce.BatchIndexAndErrorMessage(batch_index=1)],
                            error_message="moved",
                            current_leader=produce.LeaderIdAndEpoch(leader_id=2, leader_epoch=8),
                        ),
                    ],
                )
            ],
            node_endpoints=[produce.NodeEndpoint(node_id=2, host="b", port=9093)],
        ),
        13,
        (
            "0202020202020202020202020202020202030000000300000000000000000063ffffffffffffffff"
            "0000000000000000010000000000040006ffffffffffffffffffffffffffffffffffffffffffffff"
            "ff02000000010000066d6f766564010009000000020000000800000000000001000d020000000202"
            "62000023850000"
        ),
    ),
    (
        fetch.FetchRequest(
            cluster_id="abc",
            replica_state=fetch.ReplicaState(replica_id=5, replica_epoch=6),
            max_wait_ms=500,
            min_bytes=1,
            session_id=4,
            session_epoch=2,
            topics=[
                fetch.FetchTopic(
                    topic_id=CLICKS_ID,
                    partitions=[
                        fetch.FetchPartition(
                            partition=3,
                            fetch_offset=99,
                            partition_max_bytes=2**20,
                            replica_directory_id=bytes([7]) * 16,
                            high_watermark=90,
                        ),
                        fetch.FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1),
                    ],
                )
            ],
            forgotten_topics_data=[
                fetch.ForgottenTopic(topic_id=bytes([9]) * 16, partitions=[1, 2])
            ],
            rack_id="r1",
        ),
        18,
        (
            "000001f4000000017fffffff00000000040000000202020202020202020202020202020202020300"
            "000003ffffffff0000000000000063ffffffffffffffffffffffff00100000020010070707070707"
            "070707070707070707070108000000000000005a00000004ffffffff0000000000000000ffffffff"
            "ffffffffffffffff0000000100000209090909090909090909090909090909030000000100000002"
            "0003723102000404616263010d00000005000000000000000600"
        ),
    ),
    (
        fetch.FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            topics=[
                fetch.FetchTopic(
                    topic="clicks",
                    partitions=[
                        fetch.FetchPartition(
                            partition=3, fetch_offset=99, partition_max_bytes=2**20
                        )
                    ],
                )
            ],
        ),
        4,
        (
            "ffffffff000001f4000000017fffffff00000000010006636c69636b730000000100000003000000"
            "000000006300100000"
        ),
    ),
    (
        fetch.FetchResponse(
            responses=[
                fetch.FetchableTopicResponse(topic_id=CLICKS_ID, partitions=[FETCHED, DIVERGED])
            ],
            node_endpoints=[fetch.NodeEndpoint(node_id=2, host="b", port=9093, rack="r1")],
        ),
        18,
        (
            "00000000000000000000020202020202020202020202020202020203000000030000000000000000"
            "0078000000000000006e000000000000000500ffffffff0662617463680000000004004affffffff"
            "ffffffffffffffffffffffffffffffffffffffff0200000000000003e8000000000000000700ffff"
            "ffff0003000d000000030000000000000032000109000000020000000400020d0000000000000028"
            "00000002000001000f020000000202620000238503723100"
        ),
    ),
    (
        fetch.FetchResponse(
            responses=[fetch.FetchableTopicResponse(topic="clicks", partitions=[FETCHED_V4])]
        ),
        4,
        (
            "00000000000000010006636c69636b73000000010000000300000000000000000078000000000000"
            "006effffffff000000056261746368"
        ),
    ),
    (
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name="clicks",
                    partitions=[list_offsets.ListOffsetsPartition(partition_index=3, timestamp=-3)],
                )
            ],
            timeout_ms=9000,
        ),
        11,
        "ffffffff010207636c69636b730200000003fffffffffffffffffffffffd00000000232800",
    ),
    (
        list_offsets.ListOffsetsResponse(
            topics=[
                list_offsets.ListOffsetsTopicResponse(
                    name="clicks",
                    partitions=[
                        list_offsets.ListOffsetsPartitionResponse(
                            partition_index=3,
                            timestamp=1_700_000_000_000,
                            offset=41,
                            leader_epoch=2,
                        )
                    ],
                )
            ]
        ),
        11,
        ("000000000207636c69636b73020000000300000000018bcfe56800000000000000002900000002000000"),
    ),
    (
        init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=2**31 - 1
        ),
        5,
        "007fffffffffffffffffffffffffff00",
    ),
    (
        init_producer_id.InitProducerIdResponse(producer_id=1000),
        5,
        "00000000000000000000000003e8000000",
    ),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="clicks",
                    partitions=[
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=3, leader_epoch=1
                        )
                    ],
                )
            ]
        ),
        4,
        "fffffffe0207636c69636b730200000003ffffffff00000001000000",
    ),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochResponse(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopicResult(
                    topic="clicks",
                    partitions=[
                        offset_for_leader_epoch.EpochEndOffset(
                            partition=3, leader_epoch=1, end_offset=17
                        )
                    ],
                )
            ]
        ),
        4,
        "000000000207636c69636b7302000000000003000000010000000000000011000000",
    ),
    (
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name="clicks",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
                    ],
                    configs=[create_topics.CreatableTopicConfig(name="retention.ms", value=None)],
                )
            ],
            validate_only=True,
        ),
        7,
        (
            "0207636c69636b73ffffffffffff0200000000020000000100020d726574656e74696f6e2e6d7300"
            "00000000ea600100"
        ),
    ),
    (
        create_topics.CreateTopicsResponse(
            topics=[
                create_topics.CreatableTopicResult(
                    name="clicks",
                    topic_id=CLICKS_ID,
                    error_message=None,
                    num_partitions=16,
                    replication_factor=1,
                    configs=[
                        create_topics.CreatableTopicConfigs(
                            name="retention.ms", value="1", config_source=1
                        )
                    ],
                ),
                create_topics.CreatableTopicResult(
                    name="hidden", error_message=None, topic_config_error_code=29, configs=None
                ),
            ]
        ),
        7,
        (
            "000000000307636c69636b7302020202020202020202020202020202000000000000100001020d72"
            "6574656e74696f6e2e6d73023100010000000768696464656e000000000000000000000000000000"
            "00000000ffffffffffff00010002001d00"
        ),
    ),
    (
        delete_topics.DeleteTopicsRequest(
            topics=[
                delete_topics.DeleteTopicState(topic_id=CLICKS_ID),
                delete_topics.DeleteTopicState(name="clicks"),
            ],
            timeout_ms=5000,
        ),
        6,
        (
            "0300020202020202020202020202020202020007636c69636b730000000000000000000000000000"
            "0000000000138800"
        ),
    ),
    (
        delete_topics.DeleteTopicsRequest(topic_names=["clicks"], timeout_ms=5000),
        5,
        "0207636c69636b730000138800",
    ),
    (
        delete_topics.DeleteTopicsResponse(
            responses=[
                delete_topics.DeletableTopicResult(
                    name=None, topic_id=CLICKS_ID, error_code=100, error_message="unknown"
                )
            ]
        ),
        6,
        "00000000020002020202020202020202020202020202006408756e6b6e6f776e0000",
    ),
]

GOLDEN += golden_cluster_messages.GOLDEN
GOLDEN += golden_config_messages.GOLDEN
GOLDEN += golden_telemetry_messages.GOLDEN
GOLDEN += golden_administration_messages.GOLDEN
GOLDEN += golden_group_messages.GOLDEN
GOLDEN += golden_security_messages.GOLDEN
GOLDEN += golden_group_descriptions.GOLDEN
GOLDEN += golden_transaction_messages.GOLDEN
GOLDEN += golden_user_messages.GOLDEN
GOLDEN += golden_quota_messages.GOLDEN


@pytest.mark.parametrize(("message", "version", "golden"), GOLDEN)
def test_bytes_are_kafkas(message: object, version: int, golden: str) -> None:
    data = bytes.fromhex(golden)
    assert encode_message(message, version).hex() == golden
    assert decode_message(type(message), version, data) == (message, len(data))


def test_the_newest_version_of_every_message_is_in_the_table() -> None:
    newest = {(cls, message_spec(cls).version_max) for cls in api_messages()}
    assert newest <= {(type(message), version) for message, version, _ in GOLDEN}
