"""Frames to requests, responses to frames, and the answers to invalid frames."""

import random
import struct
from typing import Any

import msgpack
import pytest

from broker.runtime.steps import finished
from protocol.errors import (
    BadRequest,
    DecodeError,
    EncodeError,
    ErrorCode,
    ProtocolError,
    TakesLong,
)
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.msgpack.dialect import (
    ELEMENTS_MAX,
    QUICK_COPIED_BYTES_MAX,
    QUICK_ELEMENTS_MAX,
    MsgpackDialect,
)
from protocol.msgpack.record_maps import OPENED_BYTES_MAX
from protocol.records import Record, build, verify_produced
from tests.support.served import SERVED

NOW_MS = 1_700_000_000_000
TOPIC = b"u" * 16


@pytest.fixture
def dialect() -> MsgpackDialect:
    return MsgpackDialect(SERVED, lambda: NOW_MS)


def frame(value: Any) -> memoryview:
    return memoryview(bytearray(msgpack.packb(value)))


def unframed(buffers: Any) -> Any:
    data = b"".join(buffers)
    assert struct.unpack_from(">I", data)[0] == len(data) - 4
    return msgpack.unpackb(data[4:])


@pytest.mark.parametrize("api", ["metadata", 3])
def test_an_api_has_a_name_and_a_key(dialect: MsgpackDialect, api: Any) -> None:
    decoded = dialect.decode_request(frame([api, 7, "me", {}]))
    header = decoded.header
    assert (header.api_key, header.api_version, header.correlation_id) == (3, 13, 7)
    assert (header.client_id, header.copies_records) == ("me", True)
    assert decoded.body == MetadataRequest()


def test_an_answer_carries_the_correlation_id_and_a_map(dialect: MsgpackDialect) -> None:
    header = dialect.decode_request(frame(["metadata", -5, None, {}])).header
    response = MetadataResponse(cluster_id="c")
    correlation_id, body = unframed(dialect.encode_response(header, response))
    assert correlation_id == -5
    assert (body["cluster_id"], body["brokers"], body["controller_id"]) == ("c", [], -1)
    in_steps = finished(dialect.encode_in_steps(header, response))
    assert unframed(in_steps) == [-5, body]
    response.cluster_id = object()  # type: ignore[assignment]
    with pytest.raises(EncodeError, match="MetadataResponse"):
        dialect.encode_response(header, response)
    response.cluster_id = "next"  # the failed one must leave no bytes
    assert unframed(dialect.encode_response(header, response))[1]["cluster_id"] == "next"


@pytest.mark.parametrize("size", [0, 65_000, 66_000, 3_000_000])
def test_answers_of_any_size_follow_each_other(dialect: MsgpackDialect, size: int) -> None:
    decoded = fetch(dialect, raw=True)
    for data in (bytes(size), b"small", bytes(size)):
        assert partition_of(dialect, decoded, data)["records"] == data


ANSWERED = [
    (["nonsense", 9, None, {}], "nonsense: no such API is served"),
    ([999, 9, None, {}], "API key 999: no such API is served"),
    (["x" * 9999, 9, None, {}], "no such API is served"),
    (["metadata", 9], "metadata: found 2 values, expected [api, correlation_id, client_id, body]"),
    (["metadata", 9, None, {}, 1], "found 5 values"),
    (["metadata", 9, 5, {}], "metadata: found an integer, expected a str"),
    (["metadata", 9, None, []], "metadata: found an array, expected a map"),
    (["metadata", 9, None, {"topic": []}], "metadata: unknown field 'topic'"),
    (["metadata", 9, None, {"topics": [{"name": 5}]}], "topics.name: found an integer, expected"),
]


@pytest.mark.parametrize(("request_", "reason"), ANSWERED, ids=[reason for _, reason in ANSWERED])
def test_a_bad_request_is_answered(dialect: MsgpackDialect, request_: Any, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        dialect.decode_request(frame(request_))
    correlation_id, body = unframed([caught.value.answer])
    assert correlation_id == caught.value.correlation_id == 9
    assert set(body) == {"error_code", "error_message"}
    assert body["error_code"] == ErrorCode.INVALID_REQUEST
    assert reason in body["error_message"]
    assert len(body["error_message"]) < 300


def test_a_request_that_is_cut_or_followed_by_bytes_is_answered(dialect: MsgpackDialect) -> None:
    whole = msgpack.packb(["metadata", 9, None, {"topics": None}])
    for end in range(11, len(whole)):  # from the end of the correlation id
        with pytest.raises(BadRequest):
            dialect.decode_request(memoryview(whole[:end]))
    with pytest.raises(BadRequest, match="1 bytes follow the request"):
        dialect.decode_request(memoryview(whole + b"\0"))


CLOSED = [
    ("nothing", b""),
    ("no array", msgpack.packb({"api": 1})),
    ("an API that is no name", msgpack.packb([None, 1, None, {}])),
    ("a correlation id that is no number", msgpack.packb(["metadata", "1", None, {}])),
    ("a correlation id of 64 bits", msgpack.packb(["metadata", 2**31, None, {}])),
    ("an end before the correlation id", msgpack.packb(["metadata", 300, None, {}])[:11]),
    ("4 GiB of values", b"\xdd\xff\xff\xff\xff"),
    ("HTTP", b"GET / HTTP/1.1\r\n\r\n"),
]


@pytest.mark.parametrize(("name", "data"), CLOSED, ids=[name for name, _ in CLOSED])
def test_without_a_correlation_id_there_is_no_answer(
    dialect: MsgpackDialect, name: str, data: bytes
) -> None:
    with pytest.raises(DecodeError, match=r"expected \[api|does not fit"):
        dialect.decode_request(memoryview(data))


def fetch(dialect: MsgpackDialect, **more: Any) -> Any:
    partition = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 100}
    topics = [{"topic_id": TOPIC, "partitions": [partition]}]
    body = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **more}
    return dialect.decode_request(frame(["fetch", 1, None, body]))


def fetched(records: bytes | None) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=3, records=records)
    topic = FetchableTopicResponse(topic_id=TOPIC, partitions=[partition])
    return FetchResponse(responses=[topic])


def partition_of(dialect: MsgpackDialect, decoded: Any, records: Any) -> Any:
    answer = dialect.encode_response(decoded.header, fetched(records))
    return unframed(answer)[1]["responses"][0]["partitions"][0]


def test_fetched_records_are_maps_from_the_requested_offset_on(dialect: MsgpackDialect) -> None:
    decoded = fetch(dialect)
    assert decoded.body.max_bytes == OPENED_BYTES_MAX
    data = build([Record(0, NOW_MS, None, b"%d" % n, (("h", None),)) for n in range(3)])
    partition = partition_of(dialect, decoded, data)
    assert [record["value"] for record in partition["records"]] == [b"1", b"2"]
    assert partition["records"][0]["headers"] == [["h", None]]
    assert (partition["next_offset"], partition["error_code"]) == (3, 0)
    for nothing in (None, b""):
        partition = partition_of(dialect, decoded, nothing)
        assert (partition["records"], partition["next_offset"]) == ([], 1)
    data[-1] ^= 1
    partition = partition_of(dialect, decoded, data)
    assert (partition["records"], partition["error_code"]) == ([], ErrorCode.CORRUPT_MESSAGE)


def test_raw_records_are_the_batches(dialect: MsgpackDialect) -> None:
    decoded = fetch(dialect, raw=True)
    assert decoded.body.max_bytes == 2**31 - 1
    partition = partition_of(dialect, decoded, memoryview(b"anything"))
    assert partition["records"] == b"anything"
    assert "next_offset" not in partition


def test_only_fetch_supports_raw(dialect: MsgpackDialect) -> None:
    with pytest.raises(BadRequest, match="unknown field 'raw'"):
        dialect.decode_request(frame(["metadata", 1, None, {"raw": True}]))


def test_any_bytes_raise_only_protocol_errors(dialect: MsgpackDialect) -> None:
    """Runs a few thousand of the inputs; manual runs try millions."""
    from tests.support.msgpack_fuzz import inputs

    for data in inputs(random.Random(5), 4000):
        answer = answer_to_bad(dialect, data)
        if answer:
            assert set(unframed([answer])[1]) == {"error_code", "error_message"}


def answer_to_bad(dialect: MsgpackDialect, data: bytes) -> bytes:
    """Return the dialect's own answer; b"" for a good request or one that closes."""
    try:
        dialect.decode_request(memoryview(bytearray(data)))
    except BadRequest as error:
        return error.answer
    except ProtocolError:
        pass
    return b""


def fetch_frame(**more: Any) -> memoryview:
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic_id": TOPIC, "partitions": [asked]}]
    more = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **more}
    return frame(["fetch", 1, None, more])


PLAIN = build([Record(0, NOW_MS, b"k", b"v")])
SLOW = [
    ("nothing", b"", False),
    ("little", bytes(PLAIN), False),
    ("little, in many batches", bytes(PLAIN * 50), False),
    ("much", bytes(build([Record(0, NOW_MS, None, bytes(20_000))])), True),
    ("packed", bytes(build([Record(0, NOW_MS, None, b"v")], codec=4)), True),
    ("packed behind plain", bytes(PLAIN + build([Record(0, NOW_MS, None, b"v")], codec=1)), True),
    ("of an older format", bytes(16) + b"\1" + bytes(60), True),
]


@pytest.mark.parametrize(("name", "records", "is_slow"), SLOW, ids=[row[0] for row in SLOW])
def test_an_answer_needs_a_thread_if_opening_its_batches_takes_long(
    dialect: MsgpackDialect, name: str, records: bytes, is_slow: bool
) -> None:
    header = dialect.decode_request(fetch_frame()).header
    assert header.opens_records
    assert header.wants_thread(fetched(records)) is is_slow
    raw = dialect.decode_request(fetch_frame(raw=True)).header
    assert not raw.opens_records
    assert not dialect.decode_request(frame(["metadata", 7, "me", {}])).header.opens_records


@pytest.mark.parametrize("topic_count", [1, 1_500])
def test_an_answer_for_very_many_partitions_needs_a_thread(
    dialect: MsgpackDialect, topic_count: int
) -> None:
    response = fetched(b"")
    (topic,) = response.responses
    topic.partitions *= 1_500 // topic_count
    response.responses *= topic_count
    header = dialect.decode_request(fetch_frame()).header
    assert header.wants_thread(response)
    dialect.encode_response(header, response)
    assert header.is_in_thread
    del response.responses[100:], topic.partitions[100:]
    assert not dialect.decode_request(fetch_frame()).header.wants_thread(response)


def test_a_thread_encodes_without_blocking_the_loop() -> None:
    rests: list[int] = []
    dialect = MsgpackDialect(SERVED, lambda: NOW_MS, lambda: rests.append(1))
    records = bytes(build([Record(0, NOW_MS, b"k", b"v")] * 3_000))
    header = dialect.decode_request(fetch_frame()).header
    response = fetched(records)
    assert header.wants_thread(response)
    packer = dialect._packer
    _, body = unframed(dialect.encode_response(header, response))
    assert len(body["responses"][0]["partitions"][0]["records"]) == 3_000
    assert (len(rests), dialect._packer is packer, header.refused_count()) == (6, True, 0)
    many = build([Record(0, NOW_MS, None, None, (("", None),) * 70_000)])
    header = dialect.decode_request(fetch_frame()).header
    assert header.wants_thread(fetched(bytes(many)))
    dialect.encode_response(header, fetched(bytes(many)))
    assert header.refused_count() == 1


def of_records(count: int) -> memoryview:
    data = [{"index": 0, "records": [{"value": b"v"}] * count}]
    topics = [{"topic_id": TOPIC, "partition_data": data}]
    return frame(["produce", 9, None, {"acks": 1, "timeout_ms": 1, "topic_data": topics}])


def test_a_long_list_of_records_is_decoded_in_a_thread() -> None:
    rests: list[int] = []
    dialect = MsgpackDialect(SERVED, lambda: NOW_MS, lambda: rests.append(1))
    for count in (1, QUICK_ELEMENTS_MAX - 10):
        assert dialect.decode_request(of_records(count)).header.correlation_id == 9
    assert rests == []
    for count in (QUICK_ELEMENTS_MAX + 1, 20_000):
        with pytest.raises(TakesLong, match=f"{count} elements"):
            dialect.decode_request(of_records(count))
        body = dialect.decode_request(of_records(count), in_thread=True).body
        batch = body.topic_data[0].partition_data[0].records
        assert verify_produced(batch, 1 << 24).record_count == count
    assert len(rests) > 20_000 // 512
    with pytest.raises(BadRequest, match="more than one request may have"):
        dialect.decode_request(of_records(ELEMENTS_MAX), in_thread=True)


def test_a_large_value_is_copied_in_a_thread_and_large_batches_are_not_copied() -> None:
    dialect = MsgpackDialect(SERVED, lambda: NOW_MS)

    def sent(*values: object) -> memoryview:
        data = [{"index": index, "records": value} for index, value in enumerate(values)]
        topics = [{"topic_id": TOPIC, "partition_data": data}]
        return frame(["produce", 9, None, {"acks": 1, "timeout_ms": 1, "topic_data": topics}])

    large = sent([{"value": bytes(QUICK_COPIED_BYTES_MAX + 1)}])
    with pytest.raises(TakesLong):
        dialect.decode_request(large)
    (data,) = dialect.decode_request(large, in_thread=True).body.topic_data[0].partition_data
    assert verify_produced(data.records, 1 << 24).record_count == 1
    whole = bytes(QUICK_COPIED_BYTES_MAX)
    assert dialect.decode_request(sent(whole, whole)).header.correlation_id == 9
