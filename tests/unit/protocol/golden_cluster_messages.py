"""Bytes that Apache Kafka 4.3's client library wrote: the cluster and its partitions.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    create_partitions,
    delete_records,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
)

CLICKS_ID = bytes([2]) * 16

CREATE_PARTITIONS = create_partitions.CreatePartitionsRequest(
    topics=[
        create_partitions.CreatePartitionsTopic(
            name="clicks",
            count=5,
            assignments=[
                create_partitions.CreatePartitionsAssignment(broker_ids=[1, 2]),
                create_partitions.CreatePartitionsAssignment(broker_ids=[2, 1]),
            ],
        ),
        create_partitions.CreatePartitionsTopic(name="views", count=2, assignments=None),
    ],
    timeout_ms=9000,
    validate_only=True,
)
PARTITIONS_CREATED = create_partitions.CreatePartitionsResponse(
    throttle_time_ms=7,
    results=[
        create_partitions.CreatePartitionsTopicResult(name="clicks"),
        create_partitions.CreatePartitionsTopicResult(
            name="views", error_code=37, error_message="few"
        ),
    ],
)
DELETE_RECORDS = delete_records.DeleteRecordsRequest(
    topics=[
        delete_records.DeleteRecordsTopic(
            name="clicks",
            partitions=[delete_records.DeleteRecordsPartition(partition_index=3, offset=-1)],
        )
    ],
    timeout_ms=9000,
)
RECORDS_DELETED = delete_records.DeleteRecordsResponse(
    throttle_time_ms=7,
    topics=[
        delete_records.DeleteRecordsTopicResult(
            name="clicks",
            partitions=[
                delete_records.DeleteRecordsPartitionResult(partition_index=3, low_watermark=99),
                delete_records.DeleteRecordsPartitionResult(
                    partition_index=4, low_watermark=-1, error_code=1
                ),
            ],
        )
    ],
)


def cluster(version: int) -> describe_cluster.DescribeClusterResponse:
    """Return a response with every field of that version."""
    return describe_cluster.DescribeClusterResponse(
        throttle_time_ms=7,
        cluster_id="abc",
        controller_id=1,
        brokers=[
            describe_cluster.DescribeClusterBroker(
                broker_id=1, host="localhost", port=9092, rack="r1", is_fenced=version >= 2
            )
        ],
        cluster_authorized_operations=3,
    )


TOPIC_PAGE = describe_topic_partitions.DescribeTopicPartitionsResponse(
    throttle_time_ms=7,
    topics=[
        describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
            name="clicks",
            topic_id=CLICKS_ID,
            partitions=[
                describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
                    partition_index=3,
                    leader_id=1,
                    leader_epoch=5,
                    replica_nodes=[1],
                    isr_nodes=[1],
                    eligible_leader_replicas=[],
                )
            ],
        )
    ],
    next_cursor=describe_topic_partitions.Cursor(topic_name="clicks", partition_index=4),
)
LAST_TOPIC_PAGE = describe_topic_partitions.DescribeTopicPartitionsResponse(
    topics=[
        describe_topic_partitions.DescribeTopicPartitionsResponseTopic(error_code=3, name="views")
    ]
)


def log_dirs(version: int) -> describe_log_dirs.DescribeLogDirsResponse:
    """Return a response with every field of that version."""
    result = describe_log_dirs.DescribeLogDirsResult(
        log_dir="/data",
        topics=[
            describe_log_dirs.DescribeLogDirsTopic(
                name="clicks",
                partitions=[
                    describe_log_dirs.DescribeLogDirsPartition(
                        partition_index=3, partition_size=1234, offset_lag=5
                    )
                ],
            )
        ],
    )
    if version >= 5:
        result.total_bytes, result.usable_bytes, result.is_cordoned = 1_000_000, 5_000, True
    return describe_log_dirs.DescribeLogDirsResponse(throttle_time_ms=7, results=[result])


PRODUCERS = describe_producers.DescribeProducersResponse(
    throttle_time_ms=7,
    topics=[
        describe_producers.TopicResponse(
            name="clicks",
            partitions=[
                describe_producers.PartitionResponse(
                    partition_index=3,
                    active_producers=[
                        describe_producers.ProducerState(
                            producer_id=1000,
                            producer_epoch=2,
                            last_sequence=41,
                            last_timestamp=1_700_000_000_000,
                            coordinator_epoch=-1,
                        )
                    ],
                ),
                describe_producers.PartitionResponse(
                    partition_index=4, error_code=3, error_message="unknown"
                ),
            ],
        )
    ],
)


def quorum(version: int) -> describe_quorum.DescribeQuorumResponse:
    """Return a response with every field of that version."""
    voter = describe_quorum.ReplicaState(replica_id=1, log_end_offset=100)
    partition = describe_quorum.PartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        high_watermark=99,
        current_voters=[voter],
    )
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    response = describe_quorum.DescribeQuorumResponse(topics=[topic])
    if version >= 2:
        voter.replica_directory_id = CLICKS_ID
        voter.last_caught_up_timestamp = 1_700_000_000_000
        partition.error_message = response.error_message = None
        listener = describe_quorum.Listener(name="CONTROLLER", host="localhost", port=59093)
        response.nodes = [describe_quorum.Node(node_id=1, listeners=[listener])]
    return response


GOLDEN = [
    (
        CREATE_PARTITIONS,
        3,
        (
            "0307636c69636b7300000005030300000001000000020003000000020000000100000676696577"
            "73000000020000000023280100"
        ),
    ),
    (
        CREATE_PARTITIONS,
        1,
        (
            "000000020006636c69636b73000000050000000200000002000000010000000200000002000000"
            "02000000010005766965777300000002ffffffff0000232801"
        ),
    ),
    (
        PARTITIONS_CREATED,
        3,
        "000000070307636c69636b73000000000676696577730025046665770000",
    ),
    (DELETE_RECORDS, 2, "0207636c69636b730200000003ffffffffffffffff00000000232800"),
    (DELETE_RECORDS, 1, "000000010006636c69636b730000000100000003ffffffffffffffff00002328"),
    (
        RECORDS_DELETED,
        2,
        (
            "000000070207636c69636b730300000003000000000000006300000000000004ffffffffffffff"
            "ff0001000000"
        ),
    ),
    (
        describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=True,
            endpoint_type=2,
            include_fenced_brokers=True,
        ),
        2,
        "01020100",
    ),
    (
        cluster(2),
        2,
        (
            "0000000700000001046162630000000102000000010a6c6f63616c686f73740000238403723101"
            "000000000300"
        ),
    ),
    (
        cluster(0),
        0,
        ("00000007000000046162630000000102000000010a6c6f63616c686f737400002384037231000000000300"),
    ),
    (
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name="clicks")],
            response_partition_limit=100,
            cursor=describe_topic_partitions.Cursor(topic_name="clicks", partition_index=3),
        ),
        0,
        "0207636c69636b7300000000640107636c69636b73000000030000",
    ),
    (
        TOPIC_PAGE,
        0,
        (
            "0000000702000007636c69636b7302020202020202020202020202020202000200000000000300"
            "00000100000005020000000102000000010100010080000000000107636c69636b730000000400"
            "00"
        ),
    ),
    (
        LAST_TOPIC_PAGE,
        0,
        ("000000000200030676696577730000000000000000000000000000000000018000000000ff00"),
    ),
    (
        describe_log_dirs.DescribeLogDirsRequest(
            topics=[describe_log_dirs.DescribableLogDirTopic(topic="clicks", partitions=[3, 4])]
        ),
        5,
        "0207636c69636b730300000003000000040000",
    ),
    (describe_log_dirs.DescribeLogDirsRequest(topics=None), 1, "ffffffff"),
    (
        log_dirs(5),
        5,
        (
            "000000070000020000062f646174610207636c69636b73020000000300000000000004d2000000"
            "000000000500000000000000000f42400000000000001388010000"
        ),
    ),
    (
        log_dirs(1),
        1,
        (
            "0000000700000001000000052f64617461000000010006636c69636b7300000001000000030000"
            "0000000004d2000000000000000500"
        ),
    ),
    (
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="clicks", partition_indexes=[3, 4])]
        ),
        0,
        "0207636c69636b730300000003000000040000",
    ),
    (
        PRODUCERS,
        0,
        (
            "000000070207636c69636b7303000000030000000200000000000003e800000002000000290000"
            "018bcfe56800ffffffffffffffffffffffff000000000004000308756e6b6e6f776e01000000"
        ),
    ),
    (
        describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.TopicToDescribe(
                    topic_name="__cluster_metadata",
                    partitions=[describe_quorum.PartitionToDescribe(partition_index=0)],
                )
            ]
        ),
        2,
        "02135f5f636c75737465725f6d657461646174610200000000000000",
    ),
    (
        quorum(2),
        2,
        (
            "00000002135f5f636c75737465725f6d6574616461746102000000000000000000000100000003"
            "00000000000000630200000001020202020202020202020202020202020000000000000064ffff"
            "ffffffffffff0000018bcfe56800000100000200000001020b434f4e54524f4c4c45520a6c6f63"
            "616c686f7374e6d5000000"
        ),
    ),
    (
        quorum(0),
        0,
        (
            "000002135f5f636c75737465725f6d657461646174610200000000000000000001000000030000"
            "00000000006302000000010000000000000064000100"
            "0000"
        ),
    ),
]
