"""Repeated requests: recognized by their bytes, and never confused."""

import random
from typing import Any

import msgpack
import pytest

from protocol.errors import ProtocolError
from protocol.msgpack import repetition
from protocol.msgpack.dialect import MsgpackDialect
from protocol.msgpack.repetition import Repetition
from tests.support.served import SERVED

TOPIC = b"u" * 16


class Counting(Repetition):
    """Counts the requests that were recognized."""

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0

    def read(self, data: bytes, frame: memoryview, position: int) -> Any:
        found = super().read(data, frame, position)
        self.hits += found is not None
        return found


def dialect(known: Repetition | None = None) -> MsgpackDialect:
    made = MsgpackDialect(SERVED, lambda: 0)
    if known is not None:
        made._repetition = known
    return made


def frame(records: Any, number: int = 1, client: str | None = "me", **more: Any) -> bytes:
    data = [{"index": 3, "records": records}]
    topics = [{"topic_id": TOPIC, "partition_data": data}]
    body = {"transactional_id": None, "acks": 1, "timeout_ms": 9, "topic_data": topics}
    packed: bytes = msgpack.packb(["produce", number, client, {**body, **more}])
    return packed


def outcome(of: MsgpackDialect, data: bytes) -> Any:
    try:
        return of.decode_request(memoryview(bytearray(data)))
    except ProtocolError as error:
        return type(error), str(error)


def learnt(data: bytes, known: Repetition) -> MsgpackDialect:
    """Return a dialect that has read `data` often enough to recognize it."""
    made = dialect(known)
    for _ in range(2):  # the first read creates the reader
        made.decode_request(memoryview(bytearray(data)))
    return made


@pytest.mark.parametrize("size", [0, 1, 100, 255, 256, 65_536, 200_000])
def test_the_same_request_with_other_records_is_recognized(size: int) -> None:
    known = Counting()
    knowing = learnt(frame(b"first"), known)
    data = frame(bytes(size), number=100_000)
    assert outcome(knowing, data) == outcome(dialect(), data)
    assert known.hits == 1


OTHERS = [
    ("another client", frame(b"x", client="you")),
    ("no client", frame(b"x", client=None)),
    ("a transactional id", frame(b"x", transactional_id="t")),
    ("other acks", frame(b"x", acks=-1)),
    ("records as maps", frame([{"value": b"v"}])),
    ("no records", frame(None)),
    ("a str", frame("text")),
    ("one field more behind", frame(b"x", other=b"records")),
    ("bytes behind", frame(b"x") + b"\0"),
    ("a bin that is cut", frame(b"x" * 50)[:-1]),
    ("an end before the bin", frame(b"x")[:-3]),
    ("the name in the client id", frame(b"x", client="\xa7records")),
]


@pytest.mark.parametrize(("name", "data"), OTHERS, ids=[name for name, _ in OTHERS])
def test_another_request_is_not_mistaken_for_it(name: str, data: bytes) -> None:
    known = Counting()
    knowing = learnt(frame(b"first"), known)
    assert outcome(knowing, data) == outcome(dialect(), data)
    assert known.hits == 0


def test_a_client_id_that_looks_like_records_is_not_learnt() -> None:
    """A client id can contain the field's name and the first byte of a bin."""
    known = Counting()
    client = "\N{SECTION SIGN}records\N{LATIN SMALL LETTER A WITH MACRON}"
    assert b"\xa7records\xc4" in client.encode()
    data = frame(b"x", client=client)
    knowing = learnt(data, known)
    for records in (b"", b"x", bytes(70)):
        again = frame(records, client=client)
        assert outcome(knowing, again) == outcome(dialect(), again)
    assert known.hits == 0


def test_changed_bytes_have_the_same_outcome_without_it() -> None:
    known = Counting()
    whole = frame(b"first")
    knowing, plain = learnt(whole, known), dialect()
    rng = random.Random(3)
    for _ in range(5000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 3)):
            data[rng.randrange(len(data))] = rng.choice((0xC4, 0xC5, 0xA7, rng.randrange(256)))
        plain._repetition._known.clear()
        assert outcome(knowing, bytes(data)) == outcome(plain, bytes(data)), data.hex()
    assert known.hits


def test_the_kept_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetition, "KEPT_COUNT_MAX", 5)
    known = Counting()
    knowing = dialect(known)
    for number in range(50):
        knowing.decode_request(memoryview(frame(b"x", client=f"c{number}")))
        assert len(known._known) <= 5
    knowing.decode_request(memoryview(frame(b"x", client="c" * 31, transactional_id="t" * 600)))
    assert all(len(key) <= repetition.KEPT_BYTES_MAX for key in known._known)


def test_each_request_is_a_new_object() -> None:
    knowing = learnt(frame(b"first"), Counting())
    first, second = (knowing.decode_request(memoryview(frame(b"x"))).body for _ in range(2))
    assert first == second
    assert first.topic_data[0] is not second.topic_data[0]
    assert first.topic_data[0].partition_data[0] is not second.topic_data[0].partition_data[0]
