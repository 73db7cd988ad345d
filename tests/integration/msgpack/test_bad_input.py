"""Bad bytes on the msgpack port: an answer with the reason, or a closed connection; never harm."""

import contextlib
import random
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from tests.support.msgpack_client import MsgpackClient, produce_body
from tests.support.raw_client import Closed

GROWTH_BYTES_MAX = 48 << 20
INVALID_REQUEST = 42
TOPIC = bytes(16)


@pytest.fixture(autouse=True)
def unharmed(broker: Any) -> Iterator[None]:
    """Check after each test that old and new connections work and memory has not grown."""
    with MsgpackClient(broker.msgpack_port) as before:
        before.ask("describe_cluster", {})
        resident_bytes = broker.resident_bytes()
        yield
        assert before.ask("describe_cluster", {})["error_code"] == 0
        with MsgpackClient(broker.msgpack_port) as after:
            assert after.ask("describe_cluster", {})["error_code"] == 0
        assert broker.resident_bytes() - resident_bytes < GROWTH_BYTES_MAX


def repeated(name: str) -> bytes:
    pair = msgpack.packb(name) + b"\xc0"
    return msgpack.packb(["metadata", 5, None])[:1].replace(b"\x93", b"\x94") + (
        msgpack.packb("metadata") + b"\x05\xc0" + b"\x82" + pair * 2
    )


def deep(levels: int) -> bytes:
    head = b"\x94" + msgpack.packb("metadata") + b"\x05\xc0\x81" + msgpack.packb("topics")
    return head + b"\x91" * levels + b"\xc0"


def announced(head: bytes) -> bytes:
    """A body in which `head` announces far more than the frame holds."""
    return b"\x94" + msgpack.packb("metadata") + b"\x05\xc0\x81" + msgpack.packb("topics") + head


ANSWERED = [
    ("unknown API", msgpack.packb(["make_coffee", 5, None, {}]), "no such API"),
    ("unknown key", msgpack.packb([12345, 5, None, {}]), "no such API"),
    ("unknown field", msgpack.packb(["metadata", 5, None, {"topic": 1}]), "unknown field"),
    ("wrong type", msgpack.packb(["metadata", 5, None, {"topics": "t"}]), "expected an array"),
    ("no body", msgpack.packb(["metadata", 5, None]), "found 3 values"),
    ("a str for a body", msgpack.packb(["metadata", 5, None, "{}"]), "expected a map"),
    ("repeated key", repeated("topics"), "stands twice"),
    ("deep nesting", deep(1_000_000), "found an array, expected a map"),
    ("4 Gi elements", announced(b"\xdd\xff\xff\xff\xff"), "remain"),
    ("4 Gi pairs", announced(b"\xdf\xff\xff\xff\xff"), "expected an array"),
    ("4 GiB of str", announced(b"\x91\x81\xa4name\xdb\xff\xff\xff\xff"), "remain"),
    ("elements beyond the bound", announced(msgpack.packb([{}] * 70_000)), "more than one"),
    ("a number out of range", msgpack.packb(["produce", 5, None, {"acks": 2**40}]), "acks: found"),
    (
        "bad records",
        msgpack.packb(["produce", 5, None, produce_body(TOPIC, [7])]),
        "records: found",
    ),
]


@pytest.mark.parametrize(("name", "data", "reason"), ANSWERED, ids=[row[0] for row in ANSWERED])
def test_a_bad_request_is_answered_and_the_connection_goes_on(
    broker: Any, name: str, data: bytes, reason: str
) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        for _ in range(3):
            client.send(data)
            number, answer = client.receive()
            assert (number, answer["error_code"]) == (5, INVALID_REQUEST)
            assert reason in answer["error_message"]
        assert client.ask("metadata", {"topics": []})["topics"] == []


def test_answers_to_bad_requests_keep_their_order_among_good_ones(broker: Any) -> None:
    good = msgpack.packb(["metadata", 1, None, {"topics": []}])
    bad = msgpack.packb(["nonsense", 2, None, {}])
    with MsgpackClient(broker.msgpack_port) as client:
        frames = b"".join(struct.pack(">I", len(data)) + data for data in (good, bad) * 200)
        client.socket.sendall(frames)
        assert [client.receive()[0] for _ in range(400)] == [1, 2] * 200


CLOSED = [
    ("a size of 4 GiB", b"\xff\xff\xff\xff"),
    ("a size of 2 GiB", b"\x7f\xff\xff\xff"),
    ("an empty frame", bytes(4)),
    ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    ("a Kafka request", struct.pack(">ihhih", 10, 18, 0, 1, -1)),
    ("an array of 4 Gi", struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff"),
    ("nothing but heads", struct.pack(">I", 1000) + b"\xdd" * 1000),
]


@pytest.mark.parametrize(("name", "data"), CLOSED, ids=[name for name, _ in CLOSED])
def test_bytes_that_are_not_a_request_end_the_connection(
    broker: Any, name: str, data: bytes
) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        client.socket.sendall(data)
        with pytest.raises(Closed):
            client.receive()


def test_half_a_frame_is_closed_at_its_deadline_and_costs_what_was_sent(broker: Any) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        client.socket.sendall(struct.pack(">I", 100 << 20) + b"\x94" + bytes(1000))
        started = time.monotonic()
        with pytest.raises(Closed):
            client.receive()
        assert time.monotonic() - started < 60


def test_random_bytes_are_answered_or_end_the_connection(broker: Any) -> None:
    rng = random.Random(11)
    whole = msgpack.packb(["produce", 5, "c", produce_body(TOPIC, [{"value": b"v"}] * 5)])
    for _ in range(300):
        data = bytearray(whole) if rng.random() < 0.7 else bytearray(rng.randbytes(50))
        for _ in range(3):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with MsgpackClient(broker.msgpack_port, timeout_s=60) as client:
            client.send(bytes(data))
            client.socket.shutdown(socket.SHUT_WR)
            with contextlib.suppress(Closed):
                assert len(client.receive()) == 2
