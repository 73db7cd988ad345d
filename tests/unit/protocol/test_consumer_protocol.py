"""Subscriptions and assignments of consumers against bytes of Apache Kafka 4.3's client library."""

import pytest

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import DecodeError

OWNED = {"owned_partitions": [TopicPartition(topic="clicks", partitions=[3, 4])]}


def subscription(**later: object) -> ConsumerProtocolSubscription:
    return ConsumerProtocolSubscription(topics=["clicks", "views"], user_data=b"\x09", **later)


ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=[TopicPartition(topic="clicks", partitions=[3, 4])], user_data=b"\x09"
)

# Message, version, the bytes that follow the version.
GOLDEN = [
    (
        subscription(generation_id=5, rack_id="r", **OWNED),
        3,
        (
            "000000020006636c69636b73000576696577730000000109000000010006636c69636b7300000002"
            "000000030000000400000005000172"
        ),
    ),
    (
        ConsumerProtocolSubscription(topics=["clicks"]),
        3,
        "000000010006636c69636b73ffffffff00000000ffffffffffff",
    ),
    (
        subscription(generation_id=5, **OWNED),
        2,
        (
            "000000020006636c69636b73000576696577730000000109000000010006636c69636b7300000002"
            "000000030000000400000005"
        ),
    ),
    (
        subscription(**OWNED),
        1,
        (
            "000000020006636c69636b73000576696577730000000109000000010006636c69636b7300000002"
            "0000000300000004"
        ),
    ),
    (subscription(), 0, "000000020006636c69636b73000576696577730000000109"),
    (ASSIGNMENT, 3, "000000010006636c69636b730000000200000003000000040000000109"),
    (ConsumerProtocolAssignment(), 0, "00000000ffffffff"),
]


def of_version(version: int, golden: str) -> bytes:
    return version.to_bytes(2, "big", signed=True) + bytes.fromhex(golden)


@pytest.mark.parametrize(("message", "version", "golden"), GOLDEN)
def test_bytes_are_kafkas(
    message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int, golden: str
) -> None:
    data = of_version(version, golden)
    if isinstance(message, ConsumerProtocolSubscription):
        assert encode_subscription(message, version) == data
        assert decode_subscription(data) == message
    else:
        assert encode_assignment(message, version) == data
        assert decode_assignment(memoryview(data)) == message


def test_known_fields_of_later_versions_are_read() -> None:
    message, version, golden = GOLDEN[0]
    assert version == 3
    assert decode_subscription(of_version(7, golden + "00ff")) == message


BROKEN = [
    (b"", "0 bytes"),
    (b"\x00", "1 bytes"),
    (b"\xff\xff\x00\x00\x00\x00", "version -1"),
    (b"\x00\x00\x00\x00\x00\x01", "ConsumerProtocol"),
    (b"\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff", "ConsumerProtocol"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN)
def test_anything_else_is_refused(data: bytes, reason: str) -> None:
    for decode in (decode_subscription, decode_assignment):
        with pytest.raises(DecodeError, match=reason):
            decode(data)


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_topics_are_read_as_in_version_0_whatever_follows(version: int) -> None:
    beginning = encode_subscription(subscription(), 0)[2:]
    for behind in (b"", b"\xff\xff"):
        data = version.to_bytes(2, "big") + beginning + behind
        assert decode_subscribed_topics(data) == ["clicks", "views"]


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\x01\0\0\0\x01"])
def test_topics_that_are_not_there_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_subscribed_topics(data)
