"""Bytes that Apache Kafka 4.3's client library wrote: descriptions and deletion of groups.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    list_groups,
    offset_delete,
)

CLICKS_ID = bytes([2]) * 16


def described(**later: object) -> describe_groups.DescribeGroupsResponse:
    return describe_groups.DescribeGroupsResponse(
        groups=[
            describe_groups.DescribedGroup(
                group_id="readers",
                group_state="Stable",
                protocol_type="consumer",
                protocol_data="range",
                members=[
                    describe_groups.DescribedGroupMember(
                        member_id="m-1",
                        client_id="c",
                        client_host="/127.0.0.1",
                        member_metadata=b"\x00\x03",
                        member_assignment=b"\x00\x01",
                    )
                ],
            ),
            describe_groups.DescribedGroup(group_id="none", group_state="Dead", **later),
        ]
    )


def beat(**later: object) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m-1",
        member_epoch=5,
        instance_id="one",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["clicks"],
        server_assignor="uniform",
        topic_partitions=[
            consumer_group_heartbeat.TopicPartitions(topic_id=CLICKS_ID, partitions=[3, 4])
        ],
        **later,
    )


BEATEN = consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
    throttle_time_ms=7,
    member_id="m-1",
    member_epoch=6,
    heartbeat_interval_ms=5000,
    assignment=consumer_group_heartbeat.Assignment(
        topic_partitions=[
            consumer_group_heartbeat.TopicPartitions(topic_id=CLICKS_ID, partitions=[3, 4])
        ]
    ),
)


def consumers(**later: object) -> consumer_group_describe.ConsumerGroupDescribeResponse:
    held = consumer_group_describe.Assignment(
        topic_partitions=[
            consumer_group_describe.TopicPartitions(
                topic_id=CLICKS_ID, topic_name="clicks", partitions=[3]
            )
        ]
    )
    return consumer_group_describe.ConsumerGroupDescribeResponse(
        groups=[
            consumer_group_describe.DescribedGroup(
                group_id="readers",
                group_state="Stable",
                group_epoch=6,
                assignment_epoch=6,
                assignor_name="uniform",
                members=[
                    consumer_group_describe.Member(
                        member_id="m-1",
                        rack_id="r",
                        member_epoch=6,
                        client_id="c",
                        client_host="/127.0.0.1",
                        subscribed_topic_names=["clicks"],
                        subscribed_topic_regex="cl.*",
                        assignment=held,
                        **later,
                    )
                ],
                authorized_operations=328,
            ),
            consumer_group_describe.DescribedGroup(
                group_id="none", error_code=69, error_message="not found"
            ),
        ]
    )


DELETE_OFFSETS = offset_delete.OffsetDeleteRequest(
    group_id="readers",
    topics=[
        offset_delete.OffsetDeleteRequestTopic(
            name="clicks",
            partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=3)],
        )
    ],
)
OFFSETS_DELETED = offset_delete.OffsetDeleteResponse(
    throttle_time_ms=7,
    topics=[
        offset_delete.OffsetDeleteResponseTopic(
            name="clicks",
            partitions=[
                offset_delete.OffsetDeleteResponsePartition(partition_index=3, error_code=86)
            ],
        )
    ],
)

GOLDEN = [
    (
        describe_groups.DescribeGroupsRequest(
            groups=["readers", "none"], include_authorized_operations=True
        ),
        6,
        "030872656164657273056e6f6e650100",
    ),
    (
        describe_groups.DescribeGroupsRequest(groups=["readers", "none"]),
        0,
        "0000000200077265616465727300046e6f6e65",
    ),
    (
        described(error_code=69, error_message="not found", authorized_operations=328),
        6,
        (
            "0000000003000000087265616465727307537461626c6509636f6e73756d65720672616e67650204"
            "6d2d310002630b2f3132372e302e302e3103000303000100800000000000450a6e6f7420666f756e"
            "64056e6f6e650544656164010101000001480000"
        ),
    ),
    (
        described(),
        0,
        (
            "0000000200000007726561646572730006537461626c650008636f6e73756d6572000572616e6765"
            "0000000100036d2d31000163000a2f3132372e302e302e3100000002000300000002000100000004"
            "6e6f6e650004446561640000000000000000"
        ),
    ),
    (
        list_groups.ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"]),
        5,
        "0207537461626c650208636c617373696300",
    ),
    (list_groups.ListGroupsRequest(), 1, ""),
    (
        list_groups.ListGroupsResponse(
            throttle_time_ms=7,
            groups=[
                list_groups.ListedGroup(
                    group_id="readers",
                    protocol_type="consumer",
                    group_state="Stable",
                    group_type="Classic",
                )
            ],
        ),
        5,
        ("00000007000002087265616465727309636f6e73756d657207537461626c6508436c61737369630000"),
    ),
    (
        list_groups.ListGroupsResponse(
            error_code=15, groups=[list_groups.ListedGroup(group_id="readers")]
        ),
        0,
        "000f000000010007726561646572730000",
    ),
    (
        delete_groups.DeleteGroupsRequest(groups_names=["readers", "none"]),
        2,
        "030872656164657273056e6f6e6500",
    ),
    (
        delete_groups.DeleteGroupsRequest(groups_names=["readers", "none"]),
        0,
        "0000000200077265616465727300046e6f6e65",
    ),
    (
        delete_groups.DeleteGroupsResponse(
            throttle_time_ms=7,
            results=[
                delete_groups.DeletableGroupResult(group_id="readers", error_code=68),
                delete_groups.DeletableGroupResult(group_id="none"),
            ],
        ),
        2,
        "00000007030872656164657273004400056e6f6e6500000000",
    ),
    (
        delete_groups.DeleteGroupsResponse(
            results=[delete_groups.DeletableGroupResult(group_id="none", error_code=69)]
        ),
        0,
        "000000000000000100046e6f6e650045",
    ),
    (DELETE_OFFSETS, 0, "000772656164657273000000010006636c69636b730000000100000003"),
    (OFFSETS_DELETED, 0, "000000000007000000010006636c69636b7300000001000000030056"),
    (
        beat(subscribed_topic_regex="cl.*"),
        1,
        (
            "0872656164657273046d2d3100000005046f6e6500000493e00207636c69636b7305636c2e2a0875"
            "6e69666f726d02020202020202020202020202020202020300000003000000040000"
        ),
    ),
    (
        beat(),
        0,
        (
            "0872656164657273046d2d3100000005046f6e6500000493e00207636c69636b7308756e69666f72"
            "6d02020202020202020202020202020202020300000003000000040000"
        ),
    ),
    (
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="readers", member_id="m-1", member_epoch=-1
        ),
        1,
        "0872656164657273046d2d31ffffffff0000ffffffff0000000000",
    ),
    (
        BEATEN,
        1,
        (
            "00000007000000046d2d310000000600001388010202020202020202020202020202020202030000"
            "000300000004000000"
        ),
    ),
    (
        BEATEN,
        0,
        (
            "00000007000000046d2d310000000600001388010202020202020202020202020202020202030000"
            "000300000004000000"
        ),
    ),
    (
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(
            error_code=110, error_message="fenced"
        ),
        1,
        "00000000006e0766656e636564000000000000000000ff00",
    ),
    (
        consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=["readers", "none"], include_authorized_operations=True
        ),
        1,
        "030872656164657273056e6f6e650100",
    ),
    (
        consumers(member_type=consumer_group_describe.CONSUMER_MEMBER),
        1,
        (
            "0000000003000000087265616465727307537461626c65000000060000000608756e69666f726d02"
            "046d2d310002720000000602630b2f3132372e302e302e310207636c69636b7305636c2e2a020202"
            "020202020202020202020202020207636c69636b730200000003000001000100000001480000450a"
            "6e6f7420666f756e64056e6f6e650100000000000000000101800000000000"
        ),
    ),
    (
        consumers(),
        0,
        (
            "0000000003000000087265616465727307537461626c65000000060000000608756e69666f726d02"
            "046d2d310002720000000602630b2f3132372e302e302e310207636c69636b7305636c2e2a020202"
            "020202020202020202020202020207636c69636b7302000000030000010000000001480000450a6e"
            "6f7420666f756e64056e6f6e650100000000000000000101800000000000"
        ),
    ),
]
