"""Which Produce requests name much, in every version."""

import pytest

from protocol.kafka import produce_scan
from protocol.kafka.codec import encode_message
from protocol.kafka.primitives import uvarint
from protocol.kafka.produce_scan import FLEXIBLE_SINCE, names_many
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

MANY = 20
_PLACES = ("header", "partition", "topic", "body")
VERSIONS = range(3, 14)


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_scan, "QUICK_COUNT_MAX", MANY)


def _header_tags(version: int) -> bytes:
    return b"\0" if version >= FLEXIBLE_SINCE else b""


def body(version: int, *counts: int, records: bytes | None = b"r" * 70) -> bytes:
    """Return a request for topics with so many partitions each, behind its client id."""
    return _header_tags(version) + bytes(
        encode_message(
            ProduceRequest(
                transactional_id="tx" if version % 2 else None,
                acks=-1,
                timeout_ms=7,
                topic_data=[
                    TopicProduceData(
                        name=f"topic-{number}" if version < 13 else "",
                        topic_id=bytes([number % 256]) * 16 if version >= 13 else bytes(16),
                        partition_data=[
                            PartitionProduceData(index=index, records=records)
                            for index in range(count)
                        ],
                    )
                    for number, count in enumerate(counts)
                ],
            ),
            version,
        )
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [None, b"", b"r" * 300])
@pytest.mark.parametrize(
    ("counts", "is_many"),
    [
        ((), False),
        ((1,), False),
        ((MANY - 1,), False),
        ((MANY + 1,), True),
        ((1, 1, 1), False),
        ((3, MANY - 6, 0), False),
        ((3, 0, MANY - 5), True),
        ((MANY + 1, 1), True),
        ((0,) * MANY, False),
        ((0,) * (MANY + 1), True),
    ],
)
def test_topics_and_partitions_are_counted(
    version: int, records: bytes | None, counts: tuple[int, ...], is_many: bool
) -> None:
    data = b"header" + body(version, *counts, records=records)
    assert names_many(memoryview(data), 6, version) == is_many


@pytest.mark.parametrize("version", [3, 9, 13])
def test_what_cannot_be_read_is_left_to_the_decoder(version: int) -> None:
    whole = body(version, 2, 3)
    for end in range(len(whole)):
        assert not names_many(memoryview(whole[:end]), 0, version)
    for byte in (0x7F, 0x80, 0xFF):
        for position in range(len(whole)):
            damaged = bytearray(whole)
            damaged[position] = byte
            names_many(memoryview(damaged), 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_transactional", [False, True])
def test_the_bytes_of_names_are_counted(
    version: int, is_transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_scan, "QUICK_NAME_BYTES_MAX", 100)
    for size, is_many in ((50, False), (51, True)):
        named = ProduceRequest(
            transactional_id="x" * size if is_transactional else None,
            acks=1,
            timeout_ms=7,
            topic_data=[
                TopicProduceData(name="t" * size if version < 13 else "", partition_data=[])
                for _ in range(1 if is_transactional else 2)
            ],
        )
        if is_transactional and version >= 13:
            named.transactional_id = "x" * 2 * size
        data = _header_tags(version) + bytes(encode_message(named, version))
        expected = is_many and (is_transactional or version < 13)
        assert names_many(memoryview(data), 0, version) == expected


@pytest.mark.parametrize("place", _PLACES)
def test_tagged_fields_are_counted(place: str) -> None:
    for count, is_many in ((MANY - 2, False), (MANY - 1, True)):
        tags = uvarint(count) + b"".join(uvarint(tag) + b"\0" for tag in range(count))
        at = {name: tags if name == place else b"\0" for name in _PLACES}
        data = b"".join(
            (
                at["header"],
                b"\0\0\1\0\0\0\7",  # no transactional id, acks, timeout
                b"\2\2t\2\0\0\0\0\0",  # one topic, t, with one partition, without records
                at["partition"],
                at["topic"],
                at["body"],
            )
        )
        assert names_many(memoryview(data), 0, FLEXIBLE_SINCE) == is_many
