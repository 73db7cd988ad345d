"""Compiled readers agree with the walking reader on any bytes, or give up."""

import random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.handlers import HANDLERS
from protocol.errors import BadRequest, ProtocolError
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.produce import ProduceRequest
from protocol.msgpack.compiler import compile_decoder
from protocol.msgpack.dialect import HEAD_BYTES_MAX, MsgpackDialect
from protocol.msgpack.encoder import encoder
from protocol.msgpack.primitives import GIVES_UP, Irregular
from protocol.records import Record, build
from tests.support.message_fields import messages
from tests.support.msgpack_fuzz import inputs
from tests.support.served import SERVED
from tests.support.thorough import examples

NOW_MS = 1_700_000_000_000


class Walking(MsgpackDialect):
    """The dialect without its compiled readers."""

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> Any:
        return self._decode_any(frame)


class Compiled(MsgpackDialect):
    """The dialect with all of its readers compiled, and a count of the frames they read."""

    def __init__(self) -> None:
        super().__init__(SERVED, lambda: NOW_MS)
        self.given_up = 0
        for served in SERVED.values():
            self._make_decoder(served)

    def _decode_any(self, frame: memoryview, *, is_quick: bool = False) -> Any:
        self.given_up += 1
        return super()._decode_any(frame)


@pytest.fixture(scope="module")
def both() -> tuple[Compiled, Walking]:
    return Compiled(), Walking(SERVED, lambda: NOW_MS)


def outcome(dialect: MsgpackDialect, data: bytes) -> Any:
    """Return the outcome of a frame: the request, or the error with all its fields."""
    try:
        return dialect.decode_request(memoryview(bytearray(data)))
    except BadRequest as error:
        return (type(error), str(error), error.answer)
    except ProtocolError as error:
        return (type(error), str(error))


@pytest.mark.parametrize("row", HANDLERS, ids=lambda row: row.api_key.name)
@given(data=st.data())
@settings(max_examples=examples(15))
def test_fields_in_order_are_read_by_the_compiled_reader(row: Any, data: st.DataObject) -> None:
    message = data.draw(messages(row.request, row.max_version))
    packed = msgpack.packb(encoder(row.request, row.max_version)(message))
    decode = compile_decoder(row.request, row.max_version, lambda frame, start: refuse())
    decoded, flags, end = decode(packed, memoryview(packed), 0)
    assert (decoded, flags, end) == (message, {}, len(packed))


def refuse() -> Any:
    raise Irregular


def test_any_bytes_have_the_same_outcome_with_and_without_compiled_readers(both: Any) -> None:
    compiled, walking = both
    count = 6000
    compiled.given_up = 0
    for data in inputs(random.Random(7), count):
        assert outcome(compiled, data) == outcome(walking, data), data.hex()
    assert count // 10 < compiled.given_up < count * 9 // 10  # both readers are used


BATCH = bytes(build([Record(0, NOW_MS, b"k", b"v" * 100)]))


def produce(records: Any, **more: Any) -> list[Any]:
    data = [{"index": 0, "records": records}]
    topics = [{"topic_id": b"u" * 16, "partition_data": data}]
    return ["produce", 70_000, "me", {"acks": -1, "timeout_ms": 9, "topic_data": topics, **more}]


COMPILED = [
    ("a bin", produce(BATCH)),
    ("nil", produce(None)),
    ("a large bin", produce(bytes(300))),
    ("a bin behind what is copied", produce(bytes(2 * HEAD_BYTES_MAX))),
    ("records", produce([{"key": b"k", "value": b"v"}, {"headers": [["h", None]]}])),
    ("a key for the API", [0, *produce(BATCH)[1:]]),
    ("a negative correlation id", ["metadata", -70_000, None, {}]),
    ("raw", ["fetch", 1, "c", {"max_wait_ms": 1, "min_bytes": 70_000, "raw": True}]),
    ("twenty elements", ["metadata", 1, "c", {"topics": [{"name": "t" * 40}] * 20}]),
]
WALKED = [
    ("another order", produce(BATCH, transactional_id=None)),
    ("a str for a bin", produce("text")),
    ("many records", produce([{"value": bytes(1000)}] * 40)),
    ("a long client id", ["metadata", 1, "c" * 40, {}]),
    ("an unknown field", produce(BATCH, other=1)),
    ("a number out of range", ["produce", 1, None, {"acks": 2**16, "timeout_ms": 1}]),
    ("a boolean for a number", ["produce", 1, None, {"acks": True, "timeout_ms": 1}]),
    ("a short uuid", ["fetch", 1, None, {"max_wait_ms": 1, "topics": [{"topic_id": b"u"}]}]),
    ("a missing field", ["produce", 1, None, {"acks": 1}]),
    ("an array of few that announces many", ["metadata", 1, None, {"topics": [{}] * 70_000}]),
]


@pytest.mark.parametrize(("name", "request_"), COMPILED, ids=[name for name, _ in COMPILED])
def test_usual_requests_are_read_by_the_compiled_readers(
    both: Any, name: str, request_: Any
) -> None:
    compiled, walking = both
    compiled.given_up = 0
    data = msgpack.packb(request_)
    assert outcome(compiled, data) == outcome(walking, data)
    assert compiled.given_up == 0


@pytest.mark.parametrize(("name", "request_"), WALKED, ids=[name for name, _ in WALKED])
def test_unusual_requests_are_left_to_the_walking_reader(
    both: Any, name: str, request_: Any
) -> None:
    compiled, walking = both
    compiled.given_up = 0
    data = msgpack.packb(request_)
    assert outcome(compiled, data) == outcome(walking, data)
    assert compiled.given_up == 1


@pytest.mark.parametrize(("name", "request_"), COMPILED, ids=[name for name, _ in COMPILED])
def test_a_frame_cut_or_changed_anywhere_has_the_same_outcome(
    both: Any, name: str, request_: Any
) -> None:
    compiled, walking = both
    whole = msgpack.packb(request_)[:400]
    for position in range(len(whole)):
        changed = bytearray(whole)
        for byte in (0x00, 0x7F, 0x82, 0x91, 0xA4, 0xC0, 0xC3, 0xC4, 0xCD, 0xDA, 0xDD, 0xFF):
            changed[position] = byte
            assert outcome(compiled, bytes(changed)) == outcome(walking, bytes(changed)), (
                changed.hex()
            )
        assert outcome(compiled, whole[:position]) == outcome(walking, whole[:position])


def test_a_repeated_field_is_found_by_the_walking_reader(both: Any) -> None:
    compiled, _ = both
    pair = msgpack.packb("acks") + b"\x01"
    head = b"\x94" + msgpack.packb("produce") + b"\x05\xc0"
    with pytest.raises(BadRequest, match="field 'acks' stands twice"):
        compiled.decode_request(memoryview(head + b"\x82" + pair * 2))


def test_a_compiled_reader_gives_up_without_a_reason() -> None:
    decode = compile_decoder(CreateTopicsRequest, 7, lambda frame, start: refuse())
    for data in (b"", b"\xc0", b"\x81", b"\x81\xa6topics\xdd\xff\xff\xff\xff", b"\xdf\xff"):
        with pytest.raises(GIVES_UP):
            decode(data, memoryview(data), 0)


def test_records_are_a_view_of_the_frame() -> None:
    (_, _, _, body) = produce(BATCH)
    packed = bytearray(msgpack.packb(body))
    decode = compile_decoder(ProduceRequest, 13, lambda frame, start: refuse())
    request, _, _ = decode(bytes(packed), memoryview(packed), 0)
    records = request.topic_data[0].partition_data[0].records
    records[0] = 1  # the broker stamps in place
    assert packed.count(b"\x01" + BATCH[1:]) == 1
