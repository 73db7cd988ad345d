"""The usual Produce: recognized by its bytes, never confused, and answered as by the encoder."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.kafka import usual_produce
from protocol.kafka.codec import encode_message
from protocol.kafka.dialect import KafkaDialect
from protocol.kafka.primitives import uvarint
from protocol.kafka.usual_produce import UsualProduces, encoded
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.served import Served
from tests.unit.protocol.kafka.strategies import MANY, messages

SERVED = {ApiKey.PRODUCE: Served(ApiKey.PRODUCE, 3, 13, ProduceRequest, ProduceResponse)}
FLEXIBLE = (9, 10, 12, 13)
ID = b"\x10" + b"u" * 15


class Counting(UsualProduces):
    """Counts the requests that were recognized."""

    def __init__(self) -> None:
        super().__init__()
        self.hits = 0

    def read(self, frame: memoryview, version: int, client_id_size: int) -> Any:
        found = super().read(frame, version, client_id_size)
        self.hits += found is not None
        return found


class Forgetful(UsualProduces):
    """Learns nothing: all is decoded field by field."""

    def learn(self, *_: Any) -> None:
        pass


def dialect(usual: UsualProduces | None = None) -> KafkaDialect:
    made = KafkaDialect(SERVED)
    made._usual = Forgetful() if usual is None else usual
    return made


def frame(
    records: bytes | None = b"batch",
    *,
    version: int = 12,
    number: int = 1,
    client: bytes | None = b"me",
    header_tags: bytes = b"\0",
    transactional_id: bytes = b"\0",
    acks: int = 1,
    timeout_ms: int = 9,
    topics: int = 1,
    name: bytes = b"topic",
    partitions: int = 1,
    index: int = 3,
    size: bytes | None = None,
    tags: bytes = bytes(3),
) -> bytes:
    made = struct.pack(">hhih", 0, version, number, -1 if client is None else len(client))
    made += (client or b"") + header_tags + transactional_id
    made += struct.pack(">hi", acks, timeout_ms) + uvarint(topics + 1)
    made += ID if version >= 13 else uvarint(len(name) + 1) + name
    made += uvarint(partitions + 1) + struct.pack(">i", index)
    stored = 0 if records is None else len(records) + 1
    return bytes(made + (size or uvarint(stored)) + (records or b"") + tags)


def outcome(of: KafkaDialect, data: bytes) -> Any:
    try:
        return of.decode_request(memoryview(bytearray(data)))
    except ProtocolError as error:
        return type(error), str(error)


def learnt(data: bytes, usual: UsualProduces) -> KafkaDialect:
    made = dialect(usual)
    outcome(made, data)
    return made


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("size", [0, 1, 100, 126, 127, 128, 16_382, 16_383, 70_000, 2_100_000])
def test_the_same_request_with_other_records_is_recognized(version: int, size: int) -> None:
    usual = Counting()
    knowing = learnt(frame(version=version), usual)
    data = frame(bytes(size), version=version, number=100_000, index=7)
    assert outcome(knowing, data) == outcome(dialect(), data)
    assert usual.hits == 1


def test_its_records_are_a_view_of_the_frame() -> None:
    knowing = learnt(frame(), UsualProduces())
    data = bytearray(frame(b"other"))
    (topic,) = knowing.decode_request(memoryview(data)).body.topic_data
    records = topic.partition_data[0].records
    assert records.obj is data
    assert not records.readonly


def astray() -> bytes:
    """Return a request whose tagged fields have the look of the fields before its records.

    Read as if it had none, its records would begin later by the tagged fields at its end.
    """
    header = b"\1\7\x14" + bytes([1] * 6 + [33] + [1] * 13)
    records = bytearray(b"R" * 60)
    records[4] = 61
    return frame(bytes(records), header_tags=header, tags=bytes(2) + b"\1\7\3" + bytes(3))


OTHERS = {
    "another client": frame(client=b"you"),
    "no client": frame(client=None),
    "an empty client": frame(client=b""),
    "tags in the header": frame(header_tags=b"\1\7\1x"),
    "tags that lead astray": frame(header_tags=b"\1\7\12" + b"\xfa" * 10),
    "tags that lead to no number": frame(header_tags=b"\1\7\12" + bytes(7) + b"\xff" * 3),
    "tags that look like fields": astray(),
    "a transactional id": frame(transactional_id=b"\3tx"),
    "other acks": frame(acks=-1),
    "another timeout": frame(timeout_ms=10),
    "another topic": frame(name=b"other"),
    "a longer topic": frame(name=b"o" * 200),
    "no topics": frame(topics=0, tags=b""),
    "two partitions": frame(
        partitions=2, tags=b"\0" + struct.pack(">i", 4) + b"\6other" + bytes(3)
    ),
    "no records": frame(None),
    "a size in more bytes than it needs": frame(b"batch", size=b"\x86\0"),
    "a size that is too large": frame(b"batch", size=b"\x87"),
    "a size that is too small": frame(b"batch", size=b"\x85"),
    "an endless size": frame(b"\xff" * 5, size=b"\xff"),
    "tags of the partition": frame(tags=b"\1\7\1x" + bytes(2)),
    "tags of the topic": frame(tags=b"\0\1\7\1x\0"),
    "tags of the request": frame(tags=bytes(2) + b"\1\7\1x"),
    "tags that end early": frame(tags=bytes(2)),
    "bytes behind": frame() + b"\0",
    "an old version": frame(version=8),
    "ids": frame(version=13),
    "a version to come": frame(version=14),
}


@pytest.mark.parametrize("first", OTHERS)
@pytest.mark.parametrize("second", OTHERS)
def test_no_other_is_confused(first: str, second: str) -> None:
    knowing = learnt(frame(), UsualProduces())
    outcome(knowing, OTHERS[first])
    for data in (OTHERS[second], frame(b"more"), OTHERS[first]):
        assert outcome(knowing, data) == outcome(dialect(), data)


def test_what_is_cut_or_damaged_is_not_confused() -> None:
    knowing = dialect(UsualProduces())
    chance = random.Random(1)
    for version in FLEXIBLE:
        good = frame(bytes(150), version=version)
        outcome(knowing, good)
        for end in range(len(good)):
            assert outcome(knowing, good[:end]) == outcome(dialect(), good[:end])
        for _ in range(1_000):
            data = bytearray(good)
            data[chance.randrange(4, len(data))] = chance.randrange(256)
            assert outcome(knowing, bytes(data)) == outcome(dialect(), bytes(data))


def test_a_version_that_is_not_served_is_refused_however_well_known_it_looks() -> None:
    knowing = learnt(frame(version=13), UsualProduces())
    with pytest.raises(UnsupportedVersion):
        knowing.decode_request(memoryview(bytearray(frame(version=14))))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual_produce, "KEPT_COUNT_MAX", 2)
    usual = Counting()
    knowing = dialect(usual)
    for name in (b"a", b"b", b"c"):
        outcome(knowing, frame(name=name))
        assert len(usual._by_name) <= 2
    outcome(knowing, frame(name=b"long" * 200))
    assert all(len(known) <= usual_produce.KEPT_BYTES_MAX for known in usual._by_name)
    outcome(knowing, frame(name=b"c"))
    assert usual.hits == 1


@pytest.mark.parametrize("version", [3, 8, *FLEXIBLE])
@MANY
@given(data=st.data())
def test_any_request_is_read_as_field_by_field(version: int, data: st.DataObject) -> None:
    body = encode_message(data.draw(messages(ProduceRequest, version)), version)
    tags = b"\0" if version >= 9 else b""
    made = struct.pack(">hhih", 0, version, 5, 2) + b"me" + tags + body
    knowing = learnt(made, UsualProduces())
    assert outcome(knowing, made) == outcome(dialect(), made)


# Answers.


def answer(**fields: Any) -> ProduceResponse:
    one = PartitionProduceResponse(**{"index": 2, "base_offset": 1 << 40, **fields})
    return ProduceResponse(
        responses=[TopicProduceResponse(name="topic", topic_id=ID, partition_responses=[one])]
    )


def by_encoder(version: int, response: ProduceResponse, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Return the frame as the compiled encoder writes it."""
    with monkeypatch.context() as patch:
        patch.setattr("protocol.kafka.usual_produce.encoded", lambda *_: None)
        header = RequestHeader(0, version, 77, None)
        return b"".join(dialect().encode_response(header, response))


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize(
    "fields", [{}, {"log_append_time_ms": 5, "log_start_offset": 9}, {"error_code": 56}]
)
def test_a_usual_answer_is_what_the_encoder_writes(
    version: int, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    response = answer(**fields)
    response.throttle_time_ms = 12
    usual = encoded(RequestHeader(0, version, 77, None), response)
    assert usual == by_encoder(version, response, monkeypatch)


def two_topics() -> ProduceResponse:
    made = answer()
    made.responses *= 2
    return made


def two_partitions() -> ProduceResponse:
    made = answer()
    made.responses[0].partition_responses *= 2
    return made


def named(name: str) -> ProduceResponse:
    made = answer()
    made.responses[0].name = name
    return made


ERROR = BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")
UNUSUAL = {
    "a message": answer(error_message="why"),
    "record errors": answer(record_errors=[ERROR]),
    "a leader": answer(current_leader=LeaderIdAndEpoch(leader_id=1)),
    "endpoints": ProduceResponse(
        responses=answer().responses, node_endpoints=[NodeEndpoint(node_id=1, host="h", port=2)]
    ),
    "no topics": ProduceResponse(),
    "two topics": two_topics(),
    "two partitions": two_partitions(),
    "a long name": named("n" * 127),
    "a field out of range": answer(base_offset=1 << 63),
    "a name that is none": named("\ud800"),
}


@pytest.mark.parametrize("response", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_the_encoder(response: ProduceResponse) -> None:
    assert encoded(RequestHeader(0, 12, 77, None), response) is None


def test_an_old_version_is_left_to_the_encoder() -> None:
    assert encoded(RequestHeader(0, 8, 77, None), answer()) is None


@pytest.mark.parametrize("version", [8, *FLEXIBLE])
@MANY
@given(data=st.data())
def test_any_answer_is_as_the_encoder_writes_it(version: int, data: st.DataObject) -> None:
    response = data.draw(messages(ProduceResponse, version))
    usual = encoded(RequestHeader(0, version, 77, None), response)
    with pytest.MonkeyPatch.context() as patch:
        assert usual in (None, by_encoder(version, response, patch))
