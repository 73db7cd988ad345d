"""The requests of transactions, over `tests.faults.wire`: one function for each request.

TV1 uses the versions of librdkafka and older Java clients, TV2 (KIP-890) flexible ones. The
definitions are Kafka's (InitProducerIdRequest.json and so on). Bytes are written by hand, so a
defect of the product's codecs cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.faults.group_wire import NO_TAGS, NULL
from tests.faults.wire import Connection
from tests.support.committed_records import Batch, batches_of, committed_in
from tests.support.history_checker import Key
from tests.support.raw_client import (
    FETCH,
    FETCH_VERSION,
    INIT_PRODUCER_ID,
    LATEST,
    LIST_OFFSETS,
    PRODUCE,
    PRODUCE_VERSION,
    Reader,
    array,
    int8,
    int16,
    int32,
    int64,
    listed_offset,
    sized,
    string,
)

FIND_COORDINATOR, OFFSET_FETCH = 10, 9
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
TRANSACTION = 1  # the key type of FindCoordinator
IMPLICIT_PRODUCE = 12  # adds its partitions to the transaction
END_VERSION = 5  # of TV2


class Producer(NamedTuple):
    """Whom a request names. `is_tv2`: in which versions it is sent."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_tv2: bool

    def body(self) -> bytes:
        """The fields that most requests begin with, in versions that are not flexible."""
        return string(self.transactional_id) + int64(self.producer_id) + int16(self.epoch)


class Committed(NamedTuple):
    """An answer to a reader of committed records."""

    error: int
    high_watermark: int
    last_stable_offset: int
    batches: list[Batch]
    records: list[tuple[int, bytes]]  # committed, from the offset on that was asked for


def _unsigned(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_unsigned(answer: Reader) -> int:
    number = shift = 0
    while True:
        (byte,) = answer.take(1)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
        shift += 7


def _compact(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return _unsigned(len(raw) + 1) + raw


def _compact_array(*items: bytes) -> bytes:
    return _unsigned(len(items) + 1) + b"".join(items)


def _read_compact(answer: Reader) -> bytes:
    return answer.take(max(_read_unsigned(answer) - 1, 0))


def _skip_tags(answer: Reader) -> None:
    for _ in range(_read_unsigned(answer)):
        _read_unsigned(answer)
        answer.take(_read_unsigned(answer))


def _by_topic(places: Mapping[Key, bytes]) -> dict[str, list[bytes]]:
    topics: dict[str, list[bytes]] = {}
    for (topic, _), data in places.items():
        topics.setdefault(topic, []).append(data)
    return topics


async def find_coordinator(connection: Connection, transactional_id: str) -> int:
    """Ask for the coordinator; the first who does creates its topic."""
    body = string(transactional_id) + int8(TRANSACTION)
    answer = await connection.call(FIND_COORDINATOR, 1, body)
    answer.number(4)
    return answer.number(2)


async def init_producer_id(
    connection: Connection, transactional_id: str, timeout_ms: int
) -> tuple[int, int, int]:
    """Become the id's producer: (error, producer id, epoch)."""
    body = NO_TAGS + _compact(transactional_id) + int32(timeout_ms) + int64(-1) + int16(-1)
    answer = await connection.call(INIT_PRODUCER_ID, 4, body + NO_TAGS)
    answer.take(1 + 4)
    return answer.number(2), answer.number(8), answer.number(2)


async def add_partitions(connection: Connection, producer: Producer, keys: list[Key]) -> set[int]:
    """Add partitions to the transaction (TV1); return the errors."""
    topics = _by_topic({key: int32(key[1]) for key in keys})
    items = [string(topic) + array(*numbers) for topic, numbers in topics.items()]
    answer = await connection.call(ADD_PARTITIONS_TO_TXN, 1, producer.body() + array(*items))
    answer.number(4)
    errors = set()
    for _ in range(answer.number(4)):
        answer.string()
        for _ in range(answer.number(4)):
            answer.number(4)
            errors.add(answer.number(2))
    return errors


async def add_offsets(connection: Connection, producer: Producer, group: str) -> int:
    """Add the partition of a group's offsets to the transaction (TV1); return the error."""
    answer = await connection.call(ADD_OFFSETS_TO_TXN, 1, producer.body() + string(group))
    answer.number(4)
    return answer.number(2)


async def produce(
    connection: Connection, producer: Producer, batches: Mapping[Key, bytes], acks: int
) -> dict[Key, tuple[int, int]]:
    """Send a batch to each of some partitions: (error, base offset) of each."""
    if not producer.is_tv2:
        parts = _by_topic({key: int32(key[1]) + sized(data) for key, data in batches.items()})
        items = [string(topic) + array(*rows) for topic, rows in parts.items()]
        body = string(producer.transactional_id) + int16(acks) + int32(10_000) + array(*items)
        return _produced(await connection.call(PRODUCE, PRODUCE_VERSION, body))
    parts = _by_topic(
        {key: int32(key[1]) + _compact(data) + NO_TAGS for key, data in batches.items()}
    )
    items = [_compact(topic) + _compact_array(*rows) + NO_TAGS for topic, rows in parts.items()]
    body = NO_TAGS + _compact(producer.transactional_id) + int16(acks) + int32(10_000)
    body += _compact_array(*items) + NO_TAGS
    answer = await connection.call(PRODUCE, IMPLICIT_PRODUCE, body)
    return _produced_flexibly(answer)


def _produced(answer: Reader) -> dict[Key, tuple[int, int]]:
    found = {}
    for _ in range(answer.number(4)):
        topic = answer.string() or ""
        for _ in range(answer.number(4)):
            number = answer.number(4)
            found[topic, number] = answer.number(2), answer.number(8)
            answer.take(16)
            for _ in range(answer.number(4)):
                answer.number(4)
                answer.string()
            answer.string()
    return found


def _produced_flexibly(answer: Reader) -> dict[Key, tuple[int, int]]:
    found = {}
    answer.take(1)
    for _ in range(_read_unsigned(answer) - 1):
        topic = _read_compact(answer).decode()
        for _ in range(_read_unsigned(answer) - 1):
            number = answer.number(4)
            found[topic, number] = answer.number(2), answer.number(8)
            answer.take(16)
            for _ in range(_read_unsigned(answer) - 1):
                answer.number(4)
                _read_compact(answer)
                _skip_tags(answer)
            _read_compact(answer)
            _skip_tags(answer)
        _skip_tags(answer)
    return found


async def commit_offset(
    connection: Connection, producer: Producer, group: str, key: Key, offset: int
) -> int:
    """Commit a group's offset in the transaction, with its digits as metadata; the error."""
    topic, number = key
    if not producer.is_tv2:
        row = int32(number) + int64(offset) + int32(-1) + string(str(offset))
        body = string(producer.transactional_id) + string(group)
        body += int64(producer.producer_id) + int16(producer.epoch)
        answer = await connection.call(
            TXN_OFFSET_COMMIT, 2, body + array(string(topic) + array(row))
        )
        answer.number(4)
        assert answer.number(4) == 1
        answer.string()
        assert (answer.number(4), answer.number(4)) == (1, number)
        return answer.number(2)
    row = int32(number) + int64(offset) + int32(-1) + _compact(str(offset)) + NO_TAGS
    body = NO_TAGS + _compact(producer.transactional_id) + _compact(group)
    body += int64(producer.producer_id) + int16(producer.epoch) + int32(-1) + _compact("") + NULL
    body += _compact_array(_compact(topic) + _compact_array(row) + NO_TAGS) + NO_TAGS
    answer = await connection.call(TXN_OFFSET_COMMIT, 5, body)
    answer.take(1 + 4)
    assert _read_unsigned(answer) == 2
    _read_compact(answer)
    assert (_read_unsigned(answer), answer.number(4)) == (2, number)
    return answer.number(2)


def end_body(producer: Producer, *, is_commit: bool) -> tuple[int, bytes]:
    """Return version and body of an EndTxn."""
    if not producer.is_tv2:
        return 1, producer.body() + int8(is_commit)
    body = NO_TAGS + _compact(producer.transactional_id) + int64(producer.producer_id)
    return END_VERSION, body + int16(producer.epoch) + int8(is_commit) + NO_TAGS


def ended(answer: Reader, version: int) -> tuple[int, int, int]:
    """Read the answer to an EndTxn: (error, next producer id, next epoch)."""
    if version < END_VERSION:
        answer.number(4)
        return answer.number(2), -1, -1
    answer.take(1 + 4)
    return answer.number(2), answer.number(8), answer.number(2)


async def committed_offset(connection: Connection, group: str, key: Key) -> tuple[int, int]:
    """(error, offset) of a group, stable ones only: 88 while a transaction has pending ones."""
    topic = _compact(key[0]) + _compact_array(int32(key[1])) + NO_TAGS
    body = NO_TAGS + _compact(group) + _compact_array(topic) + int8(1) + NO_TAGS
    answer = await connection.call(OFFSET_FETCH, 7, body)
    answer.take(1 + 4)
    error, offset = 0, -1
    for _ in range(_read_unsigned(answer) - 1):
        _read_compact(answer)
        for _ in range(_read_unsigned(answer) - 1):
            answer.number(4)
            offset, _ = answer.number(8), answer.number(4)
            _read_compact(answer)
            error = answer.number(2)
            _skip_tags(answer)
        _skip_tags(answer)
    return answer.number(2) or error, offset


async def fetch_committed(
    connection: Connection, key: Key, offset: int, *, wait_ms: int = 0, size_max: int = 1 << 20
) -> Committed:
    """Fetch committed records of one partition."""
    part = array(int32(key[1]) + int64(offset) + int32(size_max))
    body = int32(-1) + int32(wait_ms) + int32(1) + int32(size_max) + int8(1)
    answer = await connection.call(FETCH, FETCH_VERSION, body + array(string(key[0]) + part))
    answer.number(4)
    assert answer.number(4) == 1
    answer.string()
    assert (answer.number(4), answer.number(4)) == (1, key[1])
    error, high_watermark, stable = answer.number(2), answer.number(8), answer.number(8)
    aborted = [(answer.number(8), answer.number(8)) for _ in range(max(answer.number(4), 0))]
    batches = list(batches_of(answer.sized()))
    records = [one for one in committed_in(batches, aborted) if one[0] >= offset]
    return Committed(error, high_watermark, stable, batches, records)


async def stable_end(connection: Connection, key: Key) -> int:
    """The last stable offset of a partition, or -1."""
    body = int32(-1) + int8(1) + array(string(key[0]) + array(int32(key[1]) + int64(LATEST)))
    answer = await connection.call(LIST_OFFSETS, 2, body)
    answer.number(4)
    return listed_offset(answer, key[1])[1]
