"""The usual Fetch: read and answered as the compiled codecs do, and only where they agree."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.errors import ProtocolError
from protocol.kafka import usual_fetch
from protocol.kafka.codec import encode_message
from protocol.kafka.dialect import KafkaDialect
from protocol.kafka.primitives import uvarint
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from protocol.packed_pairs import PACKED_PAIR, PackedPairs
from tests.support.served import Served
from tests.unit.protocol.kafka.strategies import MANY, messages

SERVED = {ApiKey.FETCH: Served(ApiKey.FETCH, 4, 18, FetchRequest, FetchResponse)}
FLEXIBLE = range(12, 19)
ID = b"\x10" + b"u" * 15


def frame(
    *,
    version: int = 12,
    client: bytes | None = b"me",
    header_tags: bytes = b"\0",
    session: tuple[int, int] = (5, 6),
    topics: int = 1,
    name: bytes = b"topic",
    partitions: int = 1,
    offset: int = 1 << 40,
    tags: bytes = b"\0",
    topic_tags: bytes = b"\0",
    forgotten: bytes = b"\1",
    rack: bytes = b"",
    end_tags: bytes = b"\0",
) -> bytes:
    made = struct.pack(">hhih", 1, version, 7, -1 if client is None else len(client))
    made += (client or b"") + header_tags + (b"" if version >= 15 else struct.pack(">i", -1))
    made += struct.pack(">iiibii", 500, 1, 1 << 20, 1, *session) + uvarint(topics + 1)
    made += ID if version >= 13 else uvarint(len(name) + 1) + name
    made += uvarint(partitions + 1) + struct.pack(">iiqiqi", 3, 4, offset, 2, -1, 1 << 19)
    made += tags + topic_tags + forgotten + uvarint(len(rack) + 1) + rack + end_tags
    return bytes(made)


def outcome(data: bytes) -> Any:
    try:
        return KafkaDialect(SERVED).decode_request(memoryview(bytearray(data)))
    except ProtocolError as error:
        return type(error), str(error)


def by_decoder(data: bytes) -> Any:
    """Return the outcome of decoding field by field."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("protocol.kafka.usual_fetch.decoded", lambda *_: None)
        return outcome(data)


def is_usual(data: bytes, version: int, client: bytes = b"me") -> bool:
    return usual_fetch.decoded(memoryview(data), version, len(client)) is not None


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("client", [b"me", b"", b"c" * 300])
def test_a_usual_fetch_is_read_as_the_decoder_reads_it(version: int, client: bytes) -> None:
    data = frame(version=version, client=client)
    assert is_usual(data, version, client)
    assert outcome(data) == by_decoder(data)


OTHERS = {
    "no client": frame(client=None),
    "a client that is no UTF-8": frame(client=b"\xff"),
    "a client of a negative size": frame(client=None).replace(b"\xff\xff", b"\xa5\0", 1),
    "tags in the header": frame(header_tags=b"\1\7\1x"),
    "no topics": frame(topics=0),
    "two topics": frame(topics=2),
    "a long name": frame(name=b"n" * 200),
    "no name": frame(name=b""),
    "a name that is no UTF-8": frame(name=b"a\xff"),
    "two partitions": frame(partitions=2),
    "tags of the partition": frame(tags=b"\1\7\1x"),
    "a directory": frame(version=17, tags=b"\1\0\x10" + ID),
    "tags of the topic": frame(topic_tags=b"\1\7\1x"),
    "a forgotten topic": frame(forgotten=b"\2\2f\2\0\0\0\1\0"),
    "a rack": frame(rack=b"rack"),
    "a cluster": frame(end_tags=b"\1\0\3\2cl"),
    "a replica": frame(version=15, end_tags=b"\1\1\x0d" + bytes(13)),
    "bytes behind": frame() + b"\0",
    "cut": frame()[:-1],
    "an old version": frame(version=11),
    "a version to come": frame(version=19),
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_others_are_read_as_the_decoder_reads_them(data: bytes) -> None:
    assert outcome(data) == by_decoder(data)


def test_what_is_cut_or_damaged_is_read_as_the_decoder_reads_it() -> None:
    chance = random.Random(1)
    for version in FLEXIBLE:
        good = frame(version=version)
        for end in range(len(good)):
            assert outcome(good[:end]) == by_decoder(good[:end])
        for _ in range(200):
            data = bytearray(good)
            data[chance.randrange(4, len(data))] = chance.choice((0, 1, 2, 3, 127, 128, 255))
            assert outcome(bytes(data)) == by_decoder(bytes(data))


@pytest.mark.parametrize("version", [4, 11, 12, 13, 15, 18])
@MANY
@given(data=st.data())
def test_any_request_is_read_as_the_decoder_reads_it(version: int, data: st.DataObject) -> None:
    body = encode_message(data.draw(messages(FetchRequest, version)), version)
    tags = b"\0" if version >= 12 else b""
    made = struct.pack(">hhih", 1, version, 5, 2) + b"me" + tags + body
    assert outcome(made) == by_decoder(made)


# Answers.


def answer(**fields: Any) -> FetchResponse:
    one = PartitionData(
        **{"partition_index": 2, "high_watermark": 1 << 40, "records": b"batch", **fields}
    )
    topic = FetchableTopicResponse(topic="topic", topic_id=ID, partitions=[one])
    return FetchResponse(responses=[topic], session_id=9, throttle_time_ms=12)


def by_encoder(version: int, response: FetchResponse) -> bytes:
    """Return the frame as the compiled encoder writes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("protocol.kafka.usual_fetch.encoded", lambda *_: None)
        header = RequestHeader(1, version, 77, None)
        return b"".join(KafkaDialect(SERVED).encode_response(header, response))


RECORDS = [None, b"", bytes(1022), bytes(1023), bytes(1024), bytearray(20_000), bytes(2_100_000)]


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("records", RECORDS, ids=lambda one: str(one and len(one)))
@pytest.mark.parametrize("aborted", [None, []])
def test_a_usual_answer_is_what_the_encoder_writes(
    version: int, records: bytes | None, aborted: Any
) -> None:
    response = answer(records=records, aborted_transactions=aborted, error_code=1)
    parts = usual_fetch.encoded(RequestHeader(1, version, 77, None), response)
    assert parts is not None
    assert b"".join(parts) == by_encoder(version, response)


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize("records", RECORDS, ids=lambda one: str(one and len(one)))
@pytest.mark.parametrize("count", [1, 126, 127, 500, 20_000])
def test_aborted_transactions_are_named_as_the_encoder_names_them(
    version: int, records: bytes | None, count: int
) -> None:
    pairs = b"".join(PACKED_PAIR.pack(number, 3 * number) for number in range(count))
    response = answer(records=records, aborted_transactions=PackedPairs(made, pairs))
    parts = usual_fetch.encoded(RequestHeader(1, version, 77, None), response)
    assert parts is not None
    assert b"".join(parts) == by_encoder(version, response)


def made(producer_id: int, first_offset: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def test_large_records_are_not_copied() -> None:
    records = memoryview(bytes(5_000))
    parts = usual_fetch.encoded(RequestHeader(1, 12, 77, None), answer(records=records))
    assert parts is not None
    assert parts[1] is records


def changed(response: FetchResponse, **fields: Any) -> FetchResponse:
    for name, value in fields.items():
        setattr(response, name, value)
    return response


def named(name: str) -> FetchResponse:
    made = answer()
    made.responses[0].topic = name
    return made


UNUSUAL = {
    "aborted transactions": answer(
        aborted_transactions=[AbortedTransaction(producer_id=1, first_offset=2)]
    ),
    "a diverging epoch": answer(diverging_epoch=EpochEndOffset()),
    "a leader": answer(current_leader=LeaderIdAndEpoch()),
    "a snapshot": answer(snapshot_id=SnapshotId()),
    "endpoints": changed(answer(), node_endpoints=[NodeEndpoint(node_id=1, host="h", port=2)]),
    "no topics": FetchResponse(),
    "two topics": changed(answer(), responses=answer().responses * 2),
    "no partitions": changed(answer(), responses=[FetchableTopicResponse(topic="topic")]),
    "a long name": named("n" * 127),
    "a name that is none": named("\ud800"),
    "a field out of range": answer(high_watermark=1 << 63),
}


@pytest.mark.parametrize("response", UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_is_left_to_the_encoder(response: FetchResponse) -> None:
    assert usual_fetch.encoded(RequestHeader(1, 12, 77, None), response) is None


@pytest.mark.parametrize("version", [11, *FLEXIBLE])
@MANY
@given(data=st.data())
def test_any_answer_is_as_the_encoder_writes_it(version: int, data: st.DataObject) -> None:
    response = data.draw(messages(FetchResponse, version))
    parts = usual_fetch.encoded(RequestHeader(1, version, 77, None), response)
    assert parts is None or b"".join(parts) == by_encoder(version, response)
