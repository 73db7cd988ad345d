"""Bytes that Apache Kafka 4.3's client library wrote: group membership and offsets.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)

CLICKS_ID = bytes([2]) * 16

COORDINATOR_FOUND = find_coordinator.FindCoordinatorResponse(
    throttle_time_ms=7,
    coordinators=[
        find_coordinator.Coordinator(
            key="readers", node_id=1, host="localhost", port=9092, error_message=None
        ),
        find_coordinator.Coordinator(
            key="", node_id=-1, host="", port=-1, error_code=24, error_message="empty"
        ),
    ],
)
OFFSET_COMMITTED = offset_commit.OffsetCommitResponse(
    throttle_time_ms=7,
    topics=[
        offset_commit.OffsetCommitResponseTopic(
            topic_id=CLICKS_ID,
            partitions=[
                offset_commit.OffsetCommitResponsePartition(partition_index=3, error_code=28)
            ],
        )
    ],
)


def commit(version: int, **earlier: object) -> offset_commit.OffsetCommitRequest:
    topic = {"topic_id": CLICKS_ID} if version >= 10 else {"name": "clicks"}
    epoch = {"committed_leader_epoch": 4} if version >= 6 else {}
    return offset_commit.OffsetCommitRequest(
        group_id="readers",
        generation_id_or_member_epoch=5,
        member_id="m-1",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                **topic,
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=3, committed_offset=99, committed_metadata=None, **epoch
                    )
                ],
            )
        ],
        **earlier,
    )


def fetch(version: int) -> offset_fetch.OffsetFetchRequest:
    topic = {"topic_id": CLICKS_ID} if version >= 10 else {"name": "clicks"}
    member = {"member_id": "m-1", "member_epoch": 5} if version >= 9 else {}
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id="readers",
                topics=[offset_fetch.OffsetFetchRequestTopics(**topic, partition_indexes=[3, 4])],
                **member,
            ),
            offset_fetch.OffsetFetchRequestGroup(group_id="others", topics=None),
        ],
        require_stable=True,
    )


def fetched(version: int) -> offset_fetch.OffsetFetchResponse:
    topic = {"topic_id": CLICKS_ID} if version >= 10 else {"name": "clicks"}
    return offset_fetch.OffsetFetchResponse(
        throttle_time_ms=7,
        groups=[
            offset_fetch.OffsetFetchResponseGroup(
                group_id="readers",
                topics=[
                    offset_fetch.OffsetFetchResponseTopics(
                        **topic,
                        partitions=[
                            offset_fetch.OffsetFetchResponsePartitions(
                                partition_index=3,
                                committed_offset=99,
                                committed_leader_epoch=4,
                                metadata="half",
                            ),
                            offset_fetch.OffsetFetchResponsePartitions(
                                partition_index=4, committed_offset=-1, error_code=88
                            ),
                        ],
                    )
                ],
            ),
            offset_fetch.OffsetFetchResponseGroup(group_id="others", error_code=69),
        ],
    )


def join(**later: object) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id="readers",
        session_timeout_ms=45_000,
        member_id="m-1",
        protocol_type="consumer",
        protocols=[
            join_group.JoinGroupRequestProtocol(name="range", metadata=b"\x00\x03"),
            join_group.JoinGroupRequestProtocol(name="roundrobin"),
        ],
        **later,
    )


def joined(**later: object) -> join_group.JoinGroupResponse:
    return join_group.JoinGroupResponse(
        generation_id=5,
        leader="m-1",
        member_id="m-1",
        members=[join_group.JoinGroupResponseMember(member_id="m-1", metadata=b"\x00\x03")],
        **later,
    )


def sync(**later: object) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(
        group_id="readers",
        generation_id=5,
        member_id="m-1",
        assignments=[
            sync_group.SyncGroupRequestAssignment(member_id="m-1", assignment=b"\x00\x01")
        ],
        **later,
    )


GOLDEN = [
    (
        find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]),
        6,
        "01030261026200",
    ),
    (find_coordinator.FindCoordinatorRequest(key="readers"), 0, "000772656164657273"),
    (
        COORDINATOR_FOUND,
        6,
        (
            "00000007030872656164657273000000010a6c6f63616c686f7374000023840000000001ffffffff"
            "01ffffffff001806656d7074790000"
        ),
    ),
    (
        find_coordinator.FindCoordinatorResponse(
            error_message=None, node_id=1, host="localhost", port=9092
        ),
        3,
        "00000000000000000000010a6c6f63616c686f73740000238400",
    ),
    (
        find_coordinator.FindCoordinatorResponse(
            error_code=15, error_message="", node_id=-1, port=-1
        ),
        0,
        "000fffffffff0000ffffffff",
    ),
    (
        commit(10, group_instance_id="one"),
        10,
        (
            "087265616465727300000005046d2d31046f6e650202020202020202020202020202020202020000"
            "000300000000000000630000000400000000"
        ),
    ),
    (
        commit(9),
        9,
        (
            "087265616465727300000005046d2d31000207636c69636b73020000000300000000000000630000"
            "000400000000"
        ),
    ),
    (
        commit(6),
        6,
        (
            "0007726561646572730000000500036d2d31000000010006636c69636b7300000001000000030000"
            "00000000006300000004ffff"
        ),
    ),
    (
        commit(4, retention_time_ms=86_400_000),
        4,
        (
            "0007726561646572730000000500036d2d310000000005265c00000000010006636c69636b730000"
            "0001000000030000000000000063ffff"
        ),
    ),
    (
        commit(2),
        2,
        (
            "0007726561646572730000000500036d2d31ffffffffffffffff000000010006636c69636b730000"
            "0001000000030000000000000063ffff"
        ),
    ),
    (OFFSET_COMMITTED, 10, "0000000702020202020202020202020202020202020200000003001c000000"),
    (
        offset_commit.OffsetCommitResponse(
            topics=[
                offset_commit.OffsetCommitResponseTopic(
                    name="clicks",
                    partitions=[offset_commit.OffsetCommitResponsePartition(partition_index=3)],
                )
            ]
        ),
        2,
        "000000010006636c69636b7300000001000000030000",
    ),
    (
        fetch(10),
        10,
        (
            "030872656164657273046d2d31000000050202020202020202020202020202020202030000000300"
            "0000040000076f746865727300ffffffff00000100"
        ),
    ),
    (
        fetch(9),
        9,
        (
            "030872656164657273046d2d31000000050207636c69636b730300000003000000040000076f7468"
            "65727300ffffffff00000100"
        ),
    ),
    (fetch(8), 8, "0308726561646572730207636c69636b730300000003000000040000076f746865727300000100"),
    (
        offset_fetch.OffsetFetchRequest(
            group_id="readers",
            topics=[offset_fetch.OffsetFetchRequestTopic(name="clicks", partition_indexes=[3, 4])],
        ),
        1,
        "000772656164657273000000010006636c69636b73000000020000000300000004",
    ),
    (
        offset_fetch.OffsetFetchRequest(group_id="readers", topics=None, require_stable=True),
        7,
        "0872656164657273000100",
    ),
    (
        fetched(10),
        10,
        (
            "00000007030872656164657273020202020202020202020202020202020203000000030000000000"
            "000063000000040568616c6600000000000004ffffffffffffffffffffffff010058000000000007"
            "6f74686572730100450000"
        ),
    ),
    (
        fetched(9),
        9,
        (
            "000000070308726561646572730207636c69636b7303000000030000000000000063000000040568"
            "616c6600000000000004ffffffffffffffffffffffff0100580000000000076f7468657273010045"
            "0000"
        ),
    ),
    (
        offset_fetch.OffsetFetchResponse(
            topics=[
                offset_fetch.OffsetFetchResponseTopic(
                    name="clicks",
                    partitions=[
                        offset_fetch.OffsetFetchResponsePartition(
                            partition_index=3, committed_offset=99, committed_leader_epoch=4
                        )
                    ],
                )
            ],
            error_code=16,
        ),
        5,
        ("00000000000000010006636c69636b730000000100000003000000000000006300000004000000000010"),
    ),
    (
        offset_fetch.OffsetFetchResponse(
            topics=[
                offset_fetch.OffsetFetchResponseTopic(
                    name="clicks",
                    partitions=[
                        offset_fetch.OffsetFetchResponsePartition(
                            partition_index=3, committed_offset=-1, metadata=None
                        )
                    ],
                )
            ],
        ),
        1,
        "000000010006636c69636b730000000100000003ffffffffffffffffffff0000",
    ),
    (
        join(rebalance_timeout_ms=300_000, group_instance_id="one", reason="new"),
        9,
        (
            "08726561646572730000afc8000493e0046d2d31046f6e6509636f6e73756d6572030672616e6765"
            "030003000b726f756e64726f62696e0100046e657700"
        ),
    ),
    (
        join(rebalance_timeout_ms=300_000),
        4,
        (
            "0007726561646572730000afc8000493e000036d2d310008636f6e73756d65720000000200057261"
            "6e6765000000020003000a726f756e64726f62696e00000000"
        ),
    ),
    (
        join(),
        0,
        (
            "0007726561646572730000afc800036d2d310008636f6e73756d657200000002000572616e676500"
            "0000020003000a726f756e64726f62696e00000000"
        ),
    ),
    (
        joined(
            throttle_time_ms=7,
            protocol_type="consumer",
            protocol_name="range",
            skip_assignment=True,
        ),
        9,
        (
            "0000000700000000000509636f6e73756d65720672616e6765046d2d3101046d2d3102046d2d3100"
            "0300030000"
        ),
    ),
    (
        joined(protocol_name=None),
        7,
        "000000000000000000050000046d2d31046d2d3102046d2d31000300030000",
    ),
    (
        joined(protocol_name="range"),
        0,
        "000000000005000572616e676500036d2d3100036d2d310000000100036d2d31000000020003",
    ),
    (
        heartbeat.HeartbeatRequest(
            group_id="readers", generation_id=5, member_id="m-1", group_instance_id="one"
        ),
        4,
        "087265616465727300000005046d2d31046f6e6500",
    ),
    (
        heartbeat.HeartbeatRequest(group_id="readers", generation_id=5, member_id="m-1"),
        0,
        "0007726561646572730000000500036d2d31",
    ),
    (heartbeat.HeartbeatResponse(throttle_time_ms=7, error_code=27), 4, "00000007001b00"),
    (heartbeat.HeartbeatResponse(error_code=27), 0, "001b"),
    (
        leave_group.LeaveGroupRequest(
            group_id="readers",
            members=[
                leave_group.MemberIdentity(member_id="m-1", reason="done"),
                leave_group.MemberIdentity(member_id="", group_instance_id="one"),
            ],
        ),
        5,
        "087265616465727303046d2d310005646f6e650001046f6e65000000",
    ),
    (
        leave_group.LeaveGroupRequest(group_id="readers", member_id="m-1"),
        2,
        "00077265616465727300036d2d31",
    ),
    (
        leave_group.LeaveGroupResponse(
            members=[
                leave_group.MemberResponse(member_id="m-1", group_instance_id=None),
                leave_group.MemberResponse(member_id="", group_instance_id="one", error_code=25),
            ]
        ),
        5,
        "00000000000003046d2d310000000001046f6e6500190000",
    ),
    (leave_group.LeaveGroupResponse(error_code=25), 0, "0019"),
    (
        sync(group_instance_id="one", protocol_type="consumer", protocol_name="range"),
        5,
        (
            "087265616465727300000005046d2d31046f6e6509636f6e73756d65720672616e676502046d2d31"
            "0300010000"
        ),
    ),
    (sync(), 0, "0007726561646572730000000500036d2d310000000100036d2d31000000020001"),
    (
        sync_group.SyncGroupResponse(
            throttle_time_ms=7,
            protocol_type="consumer",
            protocol_name="range",
            assignment=b"\x00\x01",
        ),
        5,
        "00000007000009636f6e73756d65720672616e676503000100",
    ),
    (sync_group.SyncGroupResponse(error_code=27), 0, "001b00000000"),
]
