"""Bytes that Apache Kafka 4.3's client library wrote: transactions.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)

TOPICS = [add_partitions_to_txn.AddPartitionsToTxnTopic(name="clicks", partitions=[3, 4])]
ADD_TO_ONE = add_partitions_to_txn.AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="t-0",
    v3_and_below_producer_id=1000,
    v3_and_below_producer_epoch=25,
    v3_and_below_topics=TOPICS,
)
ADD_TO_SOME = add_partitions_to_txn.AddPartitionsToTxnRequest(
    transactions=[
        add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id="t-0",
            producer_id=1000,
            producer_epoch=25,
            verify_only=True,
            topics=TOPICS,
        ),
        add_partitions_to_txn.AddPartitionsToTxnTransaction(
            transactional_id="t-1", producer_id=1001, producer_epoch=0
        ),
    ]
)
TOPIC_RESULTS = [
    add_partitions_to_txn.AddPartitionsToTxnTopicResult(
        name="clicks",
        results_by_partition=[
            add_partitions_to_txn.AddPartitionsToTxnPartitionResult(partition_index=3),
            add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
                partition_index=4, partition_error_code=120
            ),
        ],
    )
]
ADDED_TO_ONE = add_partitions_to_txn.AddPartitionsToTxnResponse(
    throttle_time_ms=7, results_by_topic_v3_and_below=TOPIC_RESULTS
)
ADDED_TO_SOME = add_partitions_to_txn.AddPartitionsToTxnResponse(
    throttle_time_ms=7,
    error_code=31,
    results_by_transaction=[
        add_partitions_to_txn.AddPartitionsToTxnResult(
            transactional_id="t-0", topic_results=TOPIC_RESULTS
        ),
        add_partitions_to_txn.AddPartitionsToTxnResult(transactional_id="t-1"),
    ],
)

ADD_OFFSETS = add_offsets_to_txn.AddOffsetsToTxnRequest(
    transactional_id="t-0", producer_id=1000, producer_epoch=25, group_id="readers"
)
OFFSETS_ADDED = add_offsets_to_txn.AddOffsetsToTxnResponse(throttle_time_ms=7, error_code=51)

COMMIT = end_txn.EndTxnRequest(
    transactional_id="t-0", producer_id=1000, producer_epoch=25, committed=True
)
ENDED = end_txn.EndTxnResponse(throttle_time_ms=7, producer_id=1000, producer_epoch=26)
NOT_ENDED = end_txn.EndTxnResponse(throttle_time_ms=7, error_code=48)


def markers(**later: object) -> write_txn_markers.WriteTxnMarkersRequest:
    return write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(
                producer_id=1000,
                producer_epoch=26,
                transaction_result=True,
                topics=[
                    write_txn_markers.WritableTxnMarkerTopic(name="clicks", partition_indexes=[3])
                ],
                coordinator_epoch=5,
                **later,
            )
        ]
    )


MARKERS_WRITTEN = write_txn_markers.WriteTxnMarkersResponse(
    markers=[
        write_txn_markers.WritableTxnMarkerResult(
            producer_id=1000,
            topics=[
                write_txn_markers.WritableTxnMarkerTopicResult(
                    name="clicks",
                    partitions=[
                        write_txn_markers.WritableTxnMarkerPartitionResult(partition_index=3),
                        write_txn_markers.WritableTxnMarkerPartitionResult(
                            partition_index=4, error_code=52
                        ),
                    ],
                )
            ],
        )
    ]
)


def offsets(epoch: dict[str, int], **later: object) -> txn_offset_commit.TxnOffsetCommitRequest:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="t-0",
        group_id="readers",
        producer_id=1000,
        producer_epoch=25,
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name="clicks",
                partitions=[
                    partition(
                        partition_index=3, committed_offset=99, committed_metadata="half", **epoch
                    ),
                    partition(partition_index=4, committed_offset=7, committed_metadata=None),
                ],
            )
        ],
        **later,
    )


OF_A_MEMBER = {"generation_id": 5, "member_id": "m-1", "group_instance_id": "one"}
OFFSETS_COMMITTED = txn_offset_commit.TxnOffsetCommitResponse(
    throttle_time_ms=7,
    topics=[
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            name="clicks",
            partitions=[
                txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=3),
                txn_offset_commit.TxnOffsetCommitResponsePartition(partition_index=4, error_code=3),
            ],
        )
    ],
)

DESCRIBED = describe_transactions.DescribeTransactionsResponse(
    throttle_time_ms=7,
    transaction_states=[
        describe_transactions.TransactionState(
            transactional_id="t-0",
            transaction_state="Ongoing",
            transaction_timeout_ms=60_000,
            transaction_start_time_ms=1_700_000_000_000,
            producer_id=1000,
            producer_epoch=25,
            topics=[describe_transactions.TopicData(topic="clicks", partitions=[3, 4])],
        ),
        describe_transactions.TransactionState(error_code=105, transactional_id="none"),
    ],
)


def listing(**later: object) -> list_transactions.ListTransactionsRequest:
    return list_transactions.ListTransactionsRequest(
        state_filters=["Ongoing", "Sleepy"], producer_id_filters=[1000, 1001], **later
    )


LISTED = list_transactions.ListTransactionsResponse(
    throttle_time_ms=7,
    unknown_state_filters=["Sleepy"],
    transaction_states=[
        list_transactions.TransactionState(
            transactional_id="t-0", producer_id=1000, transaction_state="Ongoing"
        )
    ],
)

GOLDEN = [
    (
        ADD_TO_SOME,
        5,
        (
            "0304742d3000000000000003e80019010207636c69636b73030000000300000004000004742d3100"
            "000000000003e9000000010000"
        ),
    ),
    (ADD_TO_ONE, 3, "04742d3000000000000003e800190207636c69636b730300000003000000040000"),
    (
        ADD_TO_ONE,
        0,
        "0003742d3000000000000003e80019000000010006636c69636b73000000020000000300000004",
    ),
    (
        ADDED_TO_SOME,
        5,
        ("00000007001f0304742d300207636c69636b73030000000300000000000004007800000004742d31010000"),
    ),
    (ADDED_TO_ONE, 3, "000000070207636c69636b730300000003000000000000040078000000"),
    (ADDED_TO_ONE, 0, "00000007000000010006636c69636b7300000002000000030000000000040078"),
    (ADD_OFFSETS, 4, "04742d3000000000000003e80019087265616465727300"),
    (ADD_OFFSETS, 0, "0003742d3000000000000003e80019000772656164657273"),
    (OFFSETS_ADDED, 4, "00000007003300"),
    (OFFSETS_ADDED, 0, "000000070033"),
    (COMMIT, 5, "04742d3000000000000003e800190100"),
    (COMMIT, 0, "0003742d3000000000000003e8001901"),
    (ENDED, 5, "00000007000000000000000003e8001a00"),
    (NOT_ENDED, 5, "000000070030ffffffffffffffffffff00"),
    (NOT_ENDED, 4, "00000007003000"),
    (NOT_ENDED, 0, "000000070030"),
    (
        markers(transaction_version=2),
        2,
        "0200000000000003e8001a010207636c69636b7302000000030000000005020000",
    ),
    (markers(), 1, "0200000000000003e8001a010207636c69636b73020000000300000000050000"),
    (MARKERS_WRITTEN, 2, "0200000000000003e80207636c69636b73030000000300000000000004003400000000"),
    (MARKERS_WRITTEN, 1, "0200000000000003e80207636c69636b73030000000300000000000004003400000000"),
    (
        offsets({"committed_leader_epoch": 4}, **OF_A_MEMBER),
        5,
        (
            "04742d30087265616465727300000000000003e8001900000005046d2d31046f6e650207636c6963"
            "6b7303000000030000000000000063000000040568616c6600000000040000000000000007ffffff"
            "ff00000000"
        ),
    ),
    (
        offsets({"committed_leader_epoch": 4}),
        2,
        (
            "0003742d3000077265616465727300000000000003e80019000000010006636c69636b7300000002"
            "00000003000000000000006300000004000468616c66000000040000000000000007ffffffffffff"
        ),
    ),
    (
        offsets({}),
        0,
        (
            "0003742d3000077265616465727300000000000003e80019000000010006636c69636b7300000002"
            "000000030000000000000063000468616c66000000040000000000000007ffff"
        ),
    ),
    (OFFSETS_COMMITTED, 5, "000000070207636c69636b730300000003000000000000040003000000"),
    (OFFSETS_COMMITTED, 0, "00000007000000010006636c69636b7300000002000000030000000000040003"),
    (
        describe_transactions.DescribeTransactionsRequest(transactional_ids=["t-0", "none"]),
        0,
        "0304742d30056e6f6e6500",
    ),
    (
        DESCRIBED,
        0,
        (
            "0000000703000004742d30084f6e676f696e670000ea600000018bcfe5680000000000000003e800"
            "190207636c69636b7303000000030000000400000069056e6f6e6501000000000000000000000000"
            "00000000000000000000010000"
        ),
    ),
    (
        listing(duration_filter=900_000, transactional_id_pattern="t-.*"),
        2,
        (
            "03084f6e676f696e6707536c656570790300000000000003e800000000000003e900000000000dbb"
            "a005742d2e2a00"
        ),
    ),
    (
        listing(duration_filter=900_000),
        1,
        ("03084f6e676f696e6707536c656570790300000000000003e800000000000003e900000000000dbba000"),
    ),
    (listing(), 0, "03084f6e676f696e6707536c656570790300000000000003e800000000000003e900"),
    (LISTED, 2, "0000000700000207536c656570790204742d3000000000000003e8084f6e676f696e670000"),
]
