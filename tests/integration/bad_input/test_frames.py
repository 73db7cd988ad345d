"""Streams that are not frames, and frames that are not requests.

The expectations come from Apache Kafka 4.3, which closes the connection in each of these cases; if
an answer is also acceptable, the test says so.
"""

import contextlib
import random
import struct
import time

import pytest

from tests.integration.bad_input.conftest import FRAME_DEADLINE_MS, HOSTILE
from tests.support.raw_batches import batch
from tests.support.raw_client import (
    API_VERSIONS,
    CREATE_TOPICS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    Closed,
    RawClient,
    Reader,
    array,
    fetch_body,
    frame,
    header,
    int8,
    int16,
    int32,
    int64,
    produce_body,
    string,
    topic_to_create,
)

CLOSED_WITHIN_S = 60.0


def flexible(api_key: int, version: int, body: bytes, tags: bytes = b"\0") -> bytes:
    """Return a whole frame with a header of version 2."""
    return frame(header(api_key, version, 7) + tags + body)


SIZES = {
    "-1": int32(-1),
    "-2^31": int32(-(2**31)),
    "2 GiB": int32(2**31 - 1),
    "one above the limit": int32(104_857_601),
    "the size 0": int32(0),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": bytes.fromhex("16030102000100 01fc0303") + bytes(506),
    "SSH": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "all ones": b"\xff" * 1000,
    "-1 after a good request": frame(header(API_VERSIONS, 0)) + int32(-1),
}


@pytest.mark.parametrize("name", SIZES)
def test_invalid_frame_sizes(connect, name):
    client = connect()
    client.send(SIZES[name])
    assert client.is_closed(CLOSED_WITHIN_S)


def test_a_request_before_a_bad_size_is_still_carried_out(connect, control):
    """acks=0, then garbage on the same connection, in one segment."""
    end = control.client.end_offset(HOSTILE)
    client = connect()
    good = frame(header(PRODUCE, 8) + produce_body(HOSTILE, batch(), acks=0))
    client.send(good + int32(-1))
    assert client.is_closed(CLOSED_WITHIN_S)
    assert control.client.end_offset(HOSTILE) == end + 1


VARINT_TOO_LONG = b"\xff" * 10
UNREADABLE = {
    "one byte": frame(b"\0"),
    "three bytes": frame(b"\0\x12\0"),
    "half a header": frame(header(METADATA, 4)[:7]),
    "no client id": frame(header(METADATA, 4)[:8]),
    "client id beyond the frame": frame(header(METADATA, 4)[:8] + int16(32767)),
    "API key 999": frame(header(999, 0)),
    "API key -1": frame(header(-1, 0)),
    "API key of brokers (LeaderAndIsr)": frame(header(4, 0)),
    "Produce 2": frame(header(PRODUCE, 2) + int16(-1) + int32(1000) + array()),
    "Produce 99": frame(header(PRODUCE, 99)),
    "Fetch 3": frame(header(FETCH, 3) + fetch_body(HOSTILE, 0)),
    "Metadata 99": frame(header(METADATA, 99)),
    "Metadata -1": frame(header(METADATA, -1)),
    "Produce with null topics": frame(
        header(PRODUCE, 8) + string(None) + int16(-1) + int32(1000) + int32(-1)
    ),
    "Produce with -2 topics": frame(
        header(PRODUCE, 8) + string(None) + int16(-1) + int32(1000) + int32(-2)
    ),
    "2^31 - 1 topics": frame(header(METADATA, 4) + int32(2**31 - 1) + int8(0)),
    "a million topics in ten bytes": frame(header(METADATA, 4) + int32(10**6) + bytes(10)),
    "2^31 - 1 partitions": frame(
        header(LIST_OFFSETS, 1) + int32(-1) + array(string("t") + int32(2**31 - 1))
    ),
    "records of 2^31 - 1 bytes": frame(
        header(PRODUCE, 8) + produce_body(HOSTILE, b"")[:-4] + int32(2**31 - 1)
    ),
    # Kafka reads it as null, and never answers a null.
    "records of -2 bytes": frame(header(PRODUCE, 8) + produce_body(HOSTILE, b"")[:-4] + int32(-2)),
    "a topic name beyond the frame": frame(header(METADATA, 4) + int32(1) + int16(32767)),
    "a null topic name": frame(header(CREATE_TOPICS, 4) + array(int16(-1)) + bytes(20)),
    "compact array of 2^31 - 1": flexible(METADATA, 12, b"\x80\x80\x80\x80\x08" + bytes(3)),
    "varint of six bytes": flexible(METADATA, 12, b"\x80" * 5 + b"\1" + bytes(3)),
    "varint of ten bytes": flexible(METADATA, 12, VARINT_TOO_LONG + bytes(3)),
    "varint of ten bytes in the header": flexible(METADATA, 12, b"\1\0\0\0\0", VARINT_TOO_LONG),
    "header tag beyond the frame": flexible(METADATA, 12, b"\1\0\0\0\0", b"\1\0\xff\xff\x7f"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_frames_that_are_not_a_request_close_the_connection(connect, name):
    client = connect()
    client.send(UNREADABLE[name])
    with pytest.raises(Closed):
        client.receive_frame()


# Kafka accepts a negative size or missing bytes of a tag, and answers; a strict reader closes the
# connection. A broker must do one or the other.
DOUBTFUL = {
    "Metadata with -2 topics": frame(header(METADATA, 4) + int32(-2) + int8(0)),
    "client id of -2": frame(header(API_VERSIONS, 0)[:8] + int16(-2)),
    "bytes after the body": frame(header(METADATA, 4) + array() + int8(0) + b"xyz"),
    "compact array of 2^32 - 2": flexible(METADATA, 12, b"\xff\xff\xff\xff\x0f" + bytes(3)),
    "the same tag twice": flexible(METADATA, 12, b"\1\0\0\0\2\5\0\5\0"),
    "tags out of order": flexible(METADATA, 12, b"\1\0\0\0\2\5\0\4\0"),
    "tag of 2^31 bytes": flexible(METADATA, 12, b"\1\0\0\0\1\5\xff\xff\xff\xff\7"),
    "2^31 tags": flexible(METADATA, 12, b"\1\0\0\0\xff\xff\xff\xff\x0f"),
}


# Kafka replaces what is not UTF-8 with U+FFFD, and goes on.
NOT_UTF8 = {
    "client id": frame(header(API_VERSIONS, 0)[:8] + string(b"\xff\xfe\0")),
    "topic name": frame(header(METADATA, 4) + array(string(b"\xff\xfe")) + int8(0)),
    "topic name, flexible": flexible(METADATA, 12, b"\2" + bytes(16) + b"\3\xff\xfe\0\0\0\0"),
}


@pytest.mark.parametrize("name", NOT_UTF8)
def test_text_that_is_not_utf8_is_answered(connect, name):
    client = connect()
    client.send(NOT_UTF8[name] + frame(header(API_VERSIONS, 0, 8)))
    answer = client.receive_frame()
    assert answer[:4] in (int32(1), int32(7))
    assert name == "client id" or b"\xef\xbf\xbd\xef\xbf\xbd" in answer, answer
    assert client.receive_frame()[:4] == int32(8)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_doubtful_frames_are_answered_or_close(connect, name):
    client = connect()
    client.send(DOUBTFUL[name])
    try:
        assert client.receive_frame()[:4] in (int32(1), int32(7))
    except Closed:
        return
    client.send(frame(header(API_VERSIONS, 0, 8)))
    assert client.receive_frame()[:4] == int32(8)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_beyond_ours_is_answered_in_version_0(connect, version):
    """KIP-511: the client learns the supported versions and retries on the same connection."""
    client = connect()
    client.send(flexible(API_VERSIONS, version, b"\4raw\4" + b"0.1\0"))
    answer = Reader(client.receive_frame())
    assert (answer.number(4), answer.number(2)) == (7, 35)
    count = answer.number(4)
    rows = [(answer.number(2), answer.number(2), answer.number(2)) for _ in range(count)]
    assert (API_VERSIONS, 0, 4) in rows
    assert client.api_versions()[API_VERSIONS] == (0, 4)


VALID = {
    "ApiVersions 0": header(API_VERSIONS, 0),
    "ApiVersions 4": header(API_VERSIONS, 4) + b"\0" + b"\4raw\4" + b"0.1\0",
    "Metadata 4": header(METADATA, 4) + array(string(HOSTILE)) + int8(0),
    "Metadata 12": header(METADATA, 12) + b"\0" + b"\2" + bytes(16) + b"\x08hostile\0" + b"\0\0\0",
    "Produce 8": header(PRODUCE, 8) + produce_body(HOSTILE, batch()),
    "Produce 9": header(PRODUCE, 9)
    + b"\0\0"
    + int16(-1)
    + int32(1000)
    + b"\2\x08hostile\2"
    + int32(0)
    + bytes([len(batch()) + 1])
    + batch()
    + b"\0\0\0",
    "Fetch 4": header(FETCH, 4) + fetch_body(HOSTILE, 0),
    "Fetch 12": header(FETCH, 12)
    + b"\0"
    + struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1)
    + b"\2\x08hostile\2"
    + struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1 << 20)
    + b"\0\0\1\1\0",
    "ListOffsets 1": header(LIST_OFFSETS, 1)
    + int32(-1)
    + array(string(HOSTILE) + array(int32(0) + int64(-1))),
    "CreateTopics 4": header(CREATE_TOPICS, 4)
    + array(topic_to_create("not valid"))
    + int32(1000)
    + int8(1),
    "InitProducerId 1": header(INIT_PRODUCER_ID, 1) + string(None) + int32(1000),
}


@pytest.mark.parametrize("name", VALID)
def test_the_whole_requests_are_good(connect, name):
    """The requests that are cut and altered below are answered when they are left intact."""
    client = connect()
    client.send(frame(VALID[name]))
    assert client.receive_frame()[:4] == int32(1)


@pytest.mark.parametrize("name", VALID)
def test_requests_cut_anywhere(connect, name):
    """As many bytes as the size field says, but fewer than the request needs."""
    payload = VALID[name]
    for end in range(0, len(payload), 1 + len(payload) // 40):
        client = connect()
        client.send(frame(payload[:end]))
        if end > 8 and payload[1] == API_VERSIONS:
            continue  # any body is valid, as its version may be unknown
        with pytest.raises(Closed):
            client.receive_frame()
        client.close()


@pytest.mark.parametrize("name", VALID)
def test_requests_that_end_with_the_stream(connect, name):
    """The size field announces more bytes than ever arrive."""
    data = frame(VALID[name])
    for end in range(1, len(data), 1 + len(data) // 20):
        client = connect()
        client.send(data[:end])
        client.close()


@pytest.mark.parametrize("name", VALID)
def test_requests_with_changed_bytes(connect, name):
    """Whatever a changed byte makes of a request, the broker answers or closes the connection."""
    choose = random.Random(name)
    payload = VALID[name]
    client = connect()
    for _ in range(150):
        bent = bytearray(payload)
        for _ in range(choose.randrange(1, 4)):
            place = choose.randrange(4, len(bent))
            bent[place] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
        try:
            client.send(frame(bent))
            acks_zero = payload[1] == PRODUCE and b"\0\0" in bent[10:20]
            if not acks_zero:
                client.receive_frame()
        except (Closed, TimeoutError):
            client.close()
            client = connect()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("framed", [False, True])
def test_random_bytes(connect, seed, framed):
    choose = random.Random(seed)
    for _ in range(40):
        noise = choose.randbytes(choose.choice((1, 4, 10, 100, 1000, 100_000)))
        client = connect()
        try:
            client.send(frame(noise) if framed else noise)
            if framed:
                with pytest.raises(Closed):
                    client.receive_frame()
        except Closed:
            pass
        client.close()


def test_many_requests_in_one_segment_are_answered_in_order(connect):
    client = connect()
    client.send(b"".join(frame(header(API_VERSIONS, 0, number)) for number in range(300)))
    assert [client.receive_frame()[:4] for _ in range(300)] == [int32(n) for n in range(300)]


def test_a_request_of_single_bytes_is_answered(connect):
    client = connect()
    for byte in frame(VALID["Produce 8"]):
        client.send(bytes([byte]))
    assert client.receive_frame()[:4] == int32(1)


@pytest.mark.parametrize("begun", [b"\0", b"\0\0\0\x20", frame(VALID["Metadata 4"])[:-1]])
def test_an_unfinished_frame_is_closed_at_its_deadline(connect, begun):
    client = connect()
    client.send(begun)
    started = time.monotonic()
    assert client.is_closed(FRAME_DEADLINE_MS / 1000 + CLOSED_WITHIN_S)
    assert time.monotonic() - started > FRAME_DEADLINE_MS / 1000 * 0.8


def test_one_byte_a_second_does_not_extend_the_deadline(connect):
    """Kafka's idle timer restarts with every byte, so Kafka would keep the connection for ever."""
    client = connect()
    client.socket.settimeout(0.4)
    started = time.monotonic()
    with pytest.raises(Closed):
        drip(client, frame(VALID["Produce 8"]))
    assert time.monotonic() - started < FRAME_DEADLINE_MS / 1000 + CLOSED_WITHIN_S


def drip(client: RawClient, data: bytes) -> None:
    """Send one byte at a time, and wait for an answer after each for the socket's timeout."""
    for byte in data:
        client.send(bytes([byte]))
        with contextlib.suppress(TimeoutError):
            client.receive_frame()


def test_an_idle_connection_is_not_a_half_frame(connect):
    """Between frames only connections.max.idle.ms applies, not the deadline."""
    client = connect()
    client.api_versions()
    time.sleep(FRAME_DEADLINE_MS / 1000 + 1)
    assert client.api_versions()
