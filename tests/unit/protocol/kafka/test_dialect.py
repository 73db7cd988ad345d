"""Headers, their exceptions, and the errors that close a connection."""

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.runtime.steps import finished
from protocol.api_keys import ApiKey
from protocol.dialect import Dialect, RequestHeader
from protocol.errors import (
    DecodeError,
    ProtocolError,
    TakesLong,
    UnknownApiKey,
    UnsupportedVersion,
)
from protocol.kafka.codec import encode_message
from protocol.kafka.dialect import QUICK_BYTES_MAX, KafkaDialect
from protocol.kafka.primitives import ELEMENTS_MAX, uvarint
from protocol.kafka.produce_scan import QUICK_COUNT_MAX
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.served import Served
from tests.unit.protocol.kafka.strategies import MANY, messages

SERVED = {
    api.api_key: api
    for api in (
        Served(ApiKey.PRODUCE, 3, 13, ProduceRequest, ProduceResponse),
        Served(ApiKey.FETCH, 4, 18, FetchRequest, FetchResponse),
        Served(ApiKey.API_VERSIONS, 0, 4, ApiVersionsRequest, ApiVersionsResponse),
        Served(ApiKey.INIT_PRODUCER_ID, 0, 5, InitProducerIdRequest, InitProducerIdResponse),
    )
}
CLIENT = b"\x00\x03cli"


@pytest.fixture
def dialect() -> KafkaDialect:
    return KafkaDialect(SERVED)


def frame(
    api_key: int, version: int, body: bytes, client: bytes = CLIENT, tags: bytes = b""
) -> memoryview:
    return memoryview(bytearray(struct.pack(">hhi", api_key, version, 77) + client + tags + body))


def produce(version: int) -> ProduceRequest:
    topic = TopicProduceData(partition_data=[PartitionProduceData(index=1, records=b"batch")])
    if version < 13:
        topic.name = "t"
    return ProduceRequest(acks=-1, timeout_ms=5, topic_data=[topic])


def test_it_is_a_dialect(dialect: KafkaDialect) -> None:
    checked: Dialect = dialect
    assert checked is dialect


@pytest.mark.parametrize(
    ("client", "client_id"),
    [
        (CLIENT, "cli"),
        (b"\xff\xff", None),
        (b"\0\0", ""),
        (b"\0\2\xc3\xa4", "ä"),
        (b"\0\2a\xff", "a\ufffd"),
    ],
)
@pytest.mark.parametrize(("version", "tags"), [(3, b""), (8, b""), (9, b"\x00"), (13, b"\x00")])
def test_request(
    dialect: KafkaDialect, version: int, tags: bytes, client: bytes, client_id: str | None
) -> None:
    body = produce(version)
    decoded = dialect.decode_request(frame(0, version, encode_message(body, version), client, tags))
    assert decoded.header == RequestHeader(0, version, 77, client_id)
    assert decoded.body == body
    records = decoded.body.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    assert dialect.trailing_bytes_ignored == 0


def test_tags_of_a_request_header_are_skipped(dialect: KafkaDialect) -> None:
    wire = frame(0, 9, encode_message(produce(9), 9), tags=b"\x02\x00\x01a\xff\x01\x02bc")
    assert dialect.decode_request(wire).body == produce(9)


def test_the_tags_of_a_request_header_are_counted(dialect: KafkaDialect) -> None:
    def wire(count: int) -> memoryview:
        tags = uvarint(count) + b"".join(uvarint(tag) + b"\0" for tag in range(count))
        return frame(0, 9, encode_message(produce(9), 9), tags=tags)

    with pytest.raises(TakesLong):
        dialect.decode_request(wire(QUICK_BYTES_MAX))
    assert dialect.decode_request(wire(QUICK_BYTES_MAX), in_thread=True).body == produce(9)
    with pytest.raises(DecodeError, match="Tried to allocate a collection of size"):
        dialect.decode_request(wire(ELEMENTS_MAX + 1), in_thread=True)


def test_a_large_request_is_for_a_thread_unless_it_has_records(dialect: KafkaDialect) -> None:
    topics = [FetchTopic(topic="t" * 200, partitions=[])] * (QUICK_BYTES_MAX // 200)
    body = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics)
    wire = frame(1, 4, encode_message(body, 4))
    with pytest.raises(TakesLong):
        dialect.decode_request(wire)
    assert dialect.decode_request(wire, in_thread=True).body == body
    large = produce(9)
    large.topic_data[0].partition_data[0].records = bytes(2 * QUICK_BYTES_MAX)
    assert dialect.decode_request(frame(0, 9, encode_message(large, 9), tags=b"\0")).body == large
    large.topic_data[0].partition_data *= 2 * QUICK_COUNT_MAX
    for part in large.topic_data[0].partition_data:
        part.records = bytes(50)
    many = frame(0, 9, encode_message(large, 9), tags=b"\0")
    with pytest.raises(TakesLong):
        dialect.decode_request(many)
    assert dialect.decode_request(many, in_thread=True).body == large


@pytest.mark.parametrize("version", [3, 9])
def test_bytes_after_a_body_are_counted_and_ignored(dialect: KafkaDialect, version: int) -> None:
    tags = b"\x00" if version == 9 else b""
    wire = frame(0, version, encode_message(produce(version), version) + b"tail", tags=tags)
    assert dialect.decode_request(wire).body == produce(version)
    assert dialect.trailing_bytes_ignored == 4


@pytest.mark.parametrize("api_key", [4, 8, 93, -1, 32767])
def test_unknown_api_key(dialect: KafkaDialect, api_key: int) -> None:
    with pytest.raises(UnknownApiKey, match=f"Unknown API key {api_key}"):
        dialect.decode_request(frame(api_key, 0, b""))


@pytest.mark.parametrize(
    ("api_key", "version"), [(0, 2), (0, 0), (0, 14), (1, 3), (22, 6), (0, -1)]
)
def test_unsupported_version(dialect: KafkaDialect, api_key: int, version: int) -> None:
    with pytest.raises(
        UnsupportedVersion,
        match=f"request api key {api_key} with version {version} which is not enabled",
    ):
        dialect.decode_request(frame(api_key, version, b""))


HOSTILE = [
    ("empty", b""),
    ("one byte", b"\x00"),
    ("nine bytes", struct.pack(">hhi", 0, 9, 1) + b"\x00"),
    ("client id beyond the end", struct.pack(">hhih", 0, 9, 1, 5) + b"abcd"),
    ("client id of -2", struct.pack(">hhih", 0, 9, 1, -2) + bytes(20)),
    ("no header tags", struct.pack(">hhih", 0, 9, 1, -1)),
    ("header tags beyond the end", struct.pack(">hhih", 0, 9, 1, -1) + b"\x7f\x00"),
    ("header tag twice", struct.pack(">hhih", 0, 9, 1, -1) + b"\x02\x01\x00\x01\x00" + bytes(20)),
    ("header varint too long", struct.pack(">hhih", 0, 9, 1, -1) + b"\xff" * 10),
    ("header tag without a size", struct.pack(">hhih", 0, 9, 1, -1) + b"\x01\x01"),
    ("no body", struct.pack(">hhih", 0, 3, 1, -1)),
]


@pytest.mark.parametrize(("name", "wire"), HOSTILE)
def test_hostile_frames(dialect: KafkaDialect, name: str, wire: bytes) -> None:
    with pytest.raises(DecodeError):
        dialect.decode_request(memoryview(wire))


@MANY
@given(
    api_key=st.sampled_from([0, 1, 18, 22, 40]),
    version=st.integers(-1, 20),
    rest=st.binary(max_size=80),
)
def test_any_frame_gives_a_request_or_a_protocol_error(
    api_key: int, version: int, rest: bytes
) -> None:
    wire = struct.pack(">hhih", api_key, version, 1, -1) + rest
    with suppress(ProtocolError):
        KafkaDialect(SERVED).decode_request(memoryview(wire))


@MANY
@given(st.data())
def test_damaged_frames_give_a_request_or_a_protocol_error(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(sorted(SERVED.values(), key=lambda api: api.api_key)))
    version = data.draw(st.integers(api.min_version, api.max_version))
    body = encode_message(data.draw(messages(api.request, version)), version)
    wire = frame(api.api_key, version, body)
    for position in data.draw(st.lists(st.integers(8, len(wire) - 1), max_size=4)):
        wire[position] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        KafkaDialect(SERVED).decode_request(wire)


@pytest.mark.parametrize(
    ("api_key", "version", "response", "head"),
    [
        (0, 8, ProduceResponse(), b""),
        (0, 9, ProduceResponse(), b"\x00"),
        (1, 11, FetchResponse(), b""),
        (1, 12, FetchResponse(), b"\x00"),
        (18, 0, ApiVersionsResponse(), b""),
        (18, 3, ApiVersionsResponse(), b""),  # header v0, though its body is flexible
        (18, 4, ApiVersionsResponse(), b""),
    ],
)
def test_response(
    dialect: KafkaDialect, api_key: int, version: int, response: Any, head: bytes
) -> None:
    parts = dialect.encode_response(RequestHeader(api_key, version, 77, None), response)
    payload = struct.pack(">i", 77) + head + encode_message(response, version)
    assert b"".join(parts) == struct.pack(">i", len(payload)) + payload
    assert len(parts) == 1
    in_steps = finished(
        dialect.encode_in_steps(RequestHeader(api_key, version, 77, None), response)
    )
    assert in_steps == parts


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("is_last", [False, True])
def test_large_records_are_buffers_of_the_response(
    dialect: KafkaDialect, version: int, is_last: bool
) -> None:
    records = memoryview(bytes(5000))
    topic = FetchableTopicResponse(
        topic="t", partitions=[PartitionData(partition_index=0, high_watermark=1, records=records)]
    )
    if not is_last:
        topic.partitions.append(PartitionData(partition_index=1, high_watermark=1))
    parts = dialect.encode_response(
        RequestHeader(1, version, 77, None), FetchResponse(responses=[topic])
    )
    assert parts[1] is records
    assert all(len(part) for part in parts)
    whole = b"".join(parts)
    assert struct.unpack_from(">ii", whole) == (len(whole) - 4, 77)


# ApiVersions in a version that the broker does not serve (KIP-511).


@pytest.mark.parametrize(
    ("version", "tags"), [(5, b"\x00"), (99, b"\x00"), (32767, b"\x01\x00\x00"), (-1, b"")]
)
def test_api_versions_of_an_unknown_version_is_delivered_with_an_empty_body(
    dialect: KafkaDialect, version: int, tags: bytes
) -> None:
    decoded = dialect.decode_request(frame(18, version, b"\xff" * 9, tags=tags))
    assert decoded.header == RequestHeader(18, version, 77, "cli")
    assert decoded.body == ApiVersionsRequest()
    assert dialect.trailing_bytes_ignored == 0


@pytest.mark.parametrize("version", [5, 99, -1])
def test_its_answer_has_version_0(dialect: KafkaDialect, version: int) -> None:
    response = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )
    parts = dialect.encode_response(RequestHeader(18, version, 77, None), response)
    assert b"".join(parts) == struct.pack(">ii", 16, 77) + struct.pack(">hihhh", 35, 1, 18, 0, 4)


def test_unknown_versions_fill_no_table(dialect: KafkaDialect) -> None:
    for version in range(5, 500):
        dialect.decode_request(frame(18, version, b"", tags=b"\x00"))
        dialect.encode_response(RequestHeader(18, version, 1, None), ApiVersionsResponse())
    assert not dialect._decoders
    assert not dialect._encoders
