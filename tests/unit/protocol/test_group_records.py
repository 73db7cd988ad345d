"""Records of `__consumer_offsets` against bytes of Apache Kafka 4.3's own coordinator."""

import pytest

from protocol import group_records as records
from protocol.errors import DecodeError
from protocol.group_records import UnknownRecord, decode, encode_key, encode_value
from protocol.kafka.codec import encode_message
from protocol.wire import message_spec
from tests.support.message_fields import each_version

CLICKS_ID = bytes([2]) * 16

OFFSET = records.OffsetCommitKey(group="readers", topic="clicks", partition=3)
CLASSIC = records.GroupMetadataKey(group="readers")
GROUP = records.ConsumerGroupMetadataKey(group_id="readers")
TOPICS = records.ConsumerGroupPartitionMetadataKey(group_id="readers")
MEMBER = records.ConsumerGroupMemberMetadataKey(group_id="readers", member_id="m-1")
TARGET = records.ConsumerGroupTargetAssignmentMetadataKey(group_id="readers")
TARGET_OF_MEMBER = records.ConsumerGroupTargetAssignmentMemberKey(
    group_id="readers", member_id="m-1"
)
HELD = records.ConsumerGroupCurrentMemberAssignmentKey(group_id="readers", member_id="m-1")
REGEX = records.ConsumerGroupRegularExpressionKey(group_id="readers", regular_expression="cl.*")


def offset(**later: object) -> records.OffsetCommitValue:
    return records.OffsetCommitValue(
        offset=99, metadata="half", commit_timestamp=1_700_000_000_000, **later
    )


def classic(member: dict[str, object], **later: object) -> records.GroupMetadataValue:
    return records.GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m-1",
        members=[
            records.MemberMetadata(
                member_id="m-1",
                client_id="c",
                client_host="/127.0.0.1",
                session_timeout=45_000,
                subscription=b"\x00\x03",
                assignment=b"\x00\x01",
                **member,
            )
        ],
        **later,
    )


def member(
    classic_member_metadata: records.ClassicMemberMetadata | None, **more: object
) -> records.ConsumerGroupMemberMetadataValue:
    return records.ConsumerGroupMemberMetadataValue(
        client_id="c",
        client_host="/127.0.0.1",
        subscribed_topic_names=["clicks"],
        rebalance_timeout_ms=300_000,
        classic_member_metadata=classic_member_metadata,
        **more,
    )


EMPTY_GROUP = records.GroupMetadataValue(
    protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=8
)
STATIC = {"rebalance_timeout": 300_000, "group_instance_id": "one"}

# Key, value, version of the value, bytes of the key, bytes of the value.
GOLDEN = [
    (
        OFFSET,
        offset(leader_epoch=4, topic_id=CLICKS_ID),
        4,
        "00010007726561646572730006636c69636b7300000003",
        (
            "00040000000000000063000000040568616c660000018bcfe5680001001002020202020202020202"
            "020202020202"
        ),
    ),
    (
        OFFSET,
        offset(leader_epoch=4),
        4,
        "00010007726561646572730006636c69636b7300000003",
        "00040000000000000063000000040568616c660000018bcfe5680000",
    ),
    (
        OFFSET,
        offset(leader_epoch=4),
        3,
        "00010007726561646572730006636c69636b7300000003",
        "0003000000000000006300000004000468616c660000018bcfe56800",
    ),
    (
        OFFSET,
        offset(),
        2,
        "00010007726561646572730006636c69636b7300000003",
        "00020000000000000063000468616c660000018bcfe56800",
    ),
    (
        OFFSET,
        offset(expire_timestamp=1_800_000_000_000),
        1,
        "00010007726561646572730006636c69636b7300000003",
        "00010000000000000063000468616c660000018bcfe56800000001a3185c5000",
    ),
    (
        OFFSET,
        offset(),
        0,
        "00010007726561646572730006636c69636b7300000003",
        "00000000000000000063000468616c660000018bcfe56800",
    ),
    (
        CLASSIC,
        classic(STATIC, current_state_timestamp=8),
        4,
        "0002000772656164657273",
        (
            "000409636f6e73756d6572000000050672616e6765046d2d31000000000000000802046d2d31046f"
            "6e6502630b2f3132372e302e302e31000493e00000afc80300030300010000"
        ),
    ),
    (
        CLASSIC,
        classic(STATIC, current_state_timestamp=8),
        3,
        "0002000772656164657273",
        (
            "00030008636f6e73756d657200000005000572616e676500036d2d31000000000000000800000001"
            "00036d2d3100036f6e65000163000a2f3132372e302e302e31000493e00000afc800000002000300"
            "0000020001"
        ),
    ),
    (
        CLASSIC,
        EMPTY_GROUP,
        3,
        "0002000772656164657273",
        "0003000000000000ffffffff000000000000000800000000",
    ),
    (
        CLASSIC,
        classic({"rebalance_timeout": 1}, current_state_timestamp=8),
        2,
        "0002000772656164657273",
        (
            "00020008636f6e73756d657200000005000572616e676500036d2d31000000000000000800000001"
            "00036d2d31000163000a2f3132372e302e302e31000000010000afc8000000020003000000020001"
        ),
    ),
    (
        CLASSIC,
        classic({"rebalance_timeout": 1}),
        1,
        "0002000772656164657273",
        (
            "00010008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163"
            "000a2f3132372e302e302e31000000010000afc8000000020003000000020001"
        ),
    ),
    (
        CLASSIC,
        classic({}),
        0,
        "0002000772656164657273",
        (
            "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163"
            "000a2f3132372e302e302e310000afc8000000020003000000020001"
        ),
    ),
    (
        GROUP,
        records.ConsumerGroupMetadataValue(epoch=6, metadata_hash=-2),
        0,
        "0003000772656164657273",
        "000000000006010008fffffffffffffffe",
    ),
    (
        GROUP,
        records.ConsumerGroupMetadataValue(epoch=6),
        0,
        "0003000772656164657273",
        "00000000000600",
    ),
    (
        TOPICS,
        records.ConsumerGroupPartitionMetadataValue(
            topics=[
                records.TopicMetadata(
                    topic_id=CLICKS_ID,
                    topic_name="clicks",
                    num_partitions=2,
                    partition_metadata=[records.PartitionMetadata(partition=1, racks=["r"])],
                )
            ]
        ),
        0,
        "0004000772656164657273",
        ("0000020202020202020202020202020202020207636c69636b73000000020200000001020272000000"),
    ),
    (
        MEMBER,
        member(None, instance_id="one", rack_id="r", server_assignor="range"),
        0,
        "000500077265616465727300036d2d31",
        (
            "0000046f6e65027202630b2f3132372e302e302e310207636c69636b7300000493e00672616e6765"
            "01000100"
        ),
    ),
    (
        MEMBER,
        member(None, subscribed_topic_regex="cl.*"),
        0,
        "000500077265616465727300036d2d31",
        "0000000002630b2f3132372e302e302e310207636c69636b7305636c2e2a000493e00001000100",
    ),
    (
        MEMBER,
        member(records.ClassicMemberMetadata()),
        0,
        "000500077265616465727300036d2d31",
        "0000000002630b2f3132372e302e302e310207636c69636b7300000493e00000",
    ),
    (
        MEMBER,
        member(
            records.ClassicMemberMetadata(
                session_timeout_ms=45_000,
                supported_protocols=[
                    records.ClassicProtocol(name="range", metadata=b"\x00\x03"),
                ],
            )
        ),
        0,
        "000500077265616465727300036d2d31",
        (
            "0000000002630b2f3132372e302e302e310207636c69636b7300000493e000010011010000afc802"
            "0672616e67650300030000"
        ),
    ),
    (
        TARGET,
        records.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=6, assignment_timestamp=8
        ),
        0,
        "0006000772656164657273",
        "0000000000060100080000000000000008",
    ),
    (
        TARGET,
        records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=6),
        0,
        "0006000772656164657273",
        "00000000000600",
    ),
    (
        TARGET_OF_MEMBER,
        records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[records.TargetPartitions(topic_id=CLICKS_ID, partitions=[3, 4])]
        ),
        0,
        "000700077265616465727300036d2d31",
        "000002020202020202020202020202020202020300000003000000040000",
    ),
    (
        HELD,
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=6,
            previous_member_epoch=5,
            state=records.MemberState.UNREVOKED_PARTITIONS,
            assigned_partitions=[
                records.CurrentPartitions(
                    topic_id=CLICKS_ID, partitions=[3, 4], assignment_epochs=[5, 6]
                )
            ],
            partitions_pending_revocation=[
                records.CurrentPartitions(topic_id=CLICKS_ID, partitions=[1]),
                records.CurrentPartitions(
                    topic_id=CLICKS_ID, partitions=[2], assignment_epochs=None
                ),
            ],
        ),
        0,
        "000800077265616465727300036d2d31",
        (
            "00000000000600000005010202020202020202020202020202020202030000000300000004010009"
            "03000000050000000603020202020202020202020202020202020200000001000202020202020202"
            "020202020202020202000000020100010000"
        ),
    ),
    (
        REGEX,
        records.ConsumerGroupRegularExpressionValue(topics=["clicks"], version=7, timestamp=8),
        0,
        "00100007726561646572730004636c2e2a",
        "00000207636c69636b730000000000000007000000000000000800",
    ),
]

WRITTEN = [
    row
    for row in GOLDEN
    if row[2]
    == {
        records.OffsetCommitValue: 1 if row[1] == offset(expire_timestamp=18 * 10**11) else 4,
        records.GroupMetadataValue: 3,
    }.get(type(row[1]), 0)
]


@pytest.mark.parametrize(("key", "value", "version", "key_hex", "value_hex"), GOLDEN)
def test_kafkas_bytes_are_read(
    key: object, value: object, version: int, key_hex: str, value_hex: str
) -> None:
    assert decode(bytes.fromhex(key_hex), bytes.fromhex(value_hex)) == (key, value)
    assert decode(bytes.fromhex(key_hex), None) == (key, None)
    assert encode_message(value, version).hex() == value_hex[4:]


@pytest.mark.parametrize(("key", "value", "version", "key_hex", "value_hex"), WRITTEN)
def test_written_bytes_and_versions_are_kafkas(
    key: object, value: object, version: int, key_hex: str, value_hex: str
) -> None:
    assert encode_key(key).hex() == key_hex
    written = encode_value(value)
    assert written is not None
    assert written.hex() == value_hex
    assert int(value_hex[:4], 16) == version


def test_every_class_and_version_is_in_the_table() -> None:
    values = tuple(value for _, value in records.RECORDS.values())
    assert set(each_version(values)) == {(type(row[1]), row[2]) for row in GOLDEN}
    assert {key for key, _ in records.RECORDS.values()} == {type(row[0]) for row in GOLDEN}
    assert {type(row[1]) for row in WRITTEN} == set(values)


def test_keys_and_values_have_the_type_for_an_api_key() -> None:
    for record_type, classes in records.RECORDS.items():
        assert [message_spec(cls).api_key for cls in classes] == [record_type] * 2


def test_a_tombstone_has_no_value() -> None:
    assert encode_value(None) is None


def test_the_oldest_offset_key_is_read_like_the_later_one() -> None:
    assert decode(b"\x00\x00" + encode_key(OFFSET)[2:], None) == (OFFSET, None)


@pytest.mark.parametrize("record_type", [-1, 9, 10, 15, 17, 23, 2**15 - 1])
def test_other_types_are_skipped(record_type: int) -> None:
    key = record_type.to_bytes(2, "big", signed=True) + b"anything"
    assert decode(key, b"") == UnknownRecord(record_type)


KEY = encode_key(GROUP)
BROKEN = [
    (b"", None, "key of 0 bytes"),
    (b"\x00", None, "key of 1 bytes"),
    (KEY[:-1], None, "ConsumerGroupMetadataKey"),
    (KEY + b"\x00", None, "1 bytes are left"),
    (KEY, b"", "value of 0 bytes"),
    (KEY, b"\x00\x00\x00\x00\x00\x06", "ConsumerGroupMetadataValue"),
    (KEY, b"\x00\x00\x00\x00\x00\x06\x00\x00", "1 bytes are left"),
    (KEY, b"\x00\x01\x00\x00\x00\x06\x00", "version 1, known are 0 to 0"),
    (KEY, b"\xff\xff\x00\x00\x00\x06\x00", "version -1, known are 0 to 0"),
]


@pytest.mark.parametrize(("key", "value", "reason"), BROKEN)
def test_an_invalid_record_is_refused(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(key, value)
