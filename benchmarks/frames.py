"""Raw Kafka bytes for the load client: requests built once, answers checked at fixed positions.

Independent of the product on purpose: the product must not be measured with its own code.
Produce and Fetch are spoken at version 12, the newest that names topics by name; both are flexible
versions (request header 2, response header 1). The other requests use their newest version without
tagged fields. One topic and one partition a request, so an answer's layout is known in advance and
checking it costs two comparisons. Source of the layouts: the message definitions of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import crc32c

CLIENT_ID = b"bench"
PRODUCE, FETCH, LIST_OFFSETS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 18, 19, 20
ACKS_ALL = -1
# base offset, batch length, leader epoch, magic, crc | attributes, last offset delta, base and max
# timestamp, producer id, producer epoch, base sequence, record count
BATCH_HEAD = struct.Struct(">qiibI")
BATCH_BODY = struct.Struct(">hiqqqhii")
BATCH_HEADER_SIZE = BATCH_HEAD.size + BATCH_BODY.size
assert BATCH_HEADER_SIZE == 61


class LoadError(Exception):
    """The broker answered with something other than success; the text carries the bytes."""


def varint(value: int) -> bytes:
    """Zigzag varint, as inside records."""
    return unsigned((value << 1) ^ (value >> 63))


def unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    out.append(value)
    return bytes(out)


def read_unsigned(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return (value, next position) of an unsigned varint."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def record_batch(values: list[bytes], timestamp_ms: int) -> bytes:
    """One uncompressed batch of key-less records, without a producer id."""
    records = bytearray()
    for delta, value in enumerate(values):
        body = b"\x00\x00" + varint(delta) + b"\x01" + varint(len(value)) + value + b"\x00"
        records += varint(len(body)) + body
    count = len(values)
    body = BATCH_BODY.pack(0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    body += records
    length = len(body) + BATCH_HEAD.size - 12
    return BATCH_HEAD.pack(0, length, -1, 2, crc32c.crc32c(body)) + body


def filled_batch(value_size: int, batch_size: int, timestamp_ms: int) -> tuple[bytes, int]:
    """The largest batch of equal records that is at most `batch_size` bytes, and its count."""
    noise = bytes((7 * position) % 251 for position in range(value_size))
    room = batch_size - BATCH_HEADER_SIZE
    count = max(1, room // (value_size + 10))
    batch = record_batch([noise] * count, timestamp_ms)
    while len(larger := record_batch([noise] * (count + 1), timestamp_ms)) <= batch_size:
        batch, count = larger, count + 1
    return batch, count


def framed(key: int, version: int, body: bytes, *, flexible: bool) -> bytes:
    header = struct.pack(">hhih", key, version, 1, len(CLIENT_ID)) + CLIENT_ID
    header += b"\x00" if flexible else b""
    return struct.pack(">i", len(header) + len(body)) + header + body


def compact(text: bytes) -> bytes:
    return unsigned(len(text) + 1) + text


def _string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _topic(name_or_id: str | bytes) -> bytes:
    return compact(name_or_id.encode()) if isinstance(name_or_id, str) else name_or_id


def produce(topic: str | bytes, partition: int, batch: bytes, acks: int) -> bytes:
    """A Produce request, version 12 for a name, 13 for an id."""
    body = b"\x00" + struct.pack(">hi", acks, 30_000)
    body += b"\x02" + _topic(topic) + b"\x02" + struct.pack(">i", partition)
    body += unsigned(len(batch) + 1) + batch + b"\x00\x00\x00"
    return framed(PRODUCE, 12 if isinstance(topic, str) else 13, body, flexible=True)


def produced_layout(topic: str | bytes) -> tuple[int, int]:
    """Size of a successful Produce answer with its prefix, and the position of its error code."""
    error_at = 4 + 4 + 1 + 1 + len(_topic(topic)) + 1 + 4
    return error_at + 2 + 8 + 8 + 8 + 1 + 1 + 1 + 1 + 4 + 1, error_at


def fetch(
    topic: str, partition: int, offset: int, size_max: int, wait_ms: int
) -> tuple[bytearray, int]:
    """A Fetch request, version 12, without a session; and where its offset stands, to patch it."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, 0, -1)
    body += b"\x02" + compact(topic.encode()) + b"\x02" + struct.pack(">ii", partition, -1)
    tail = (
        struct.pack(">qiqi", offset, -1, -1, size_max) + b"\x00\x00" + b"\x01" + b"\x01" + b"\x00"
    )
    frame = bytearray(framed(FETCH, 12, body + tail, flexible=True))
    return frame, len(frame) - len(tail)


def fetched(answer: memoryview, topic: str) -> tuple[int, int]:
    """Check a Fetch answer (with its prefix) and return position and size of its records.

    Raises LoadError when an error code is not 0.
    """
    error_at = 4 + 4 + 1 + 4
    partition_error_at = error_at + 2 + 4 + 1 + len(compact(topic.encode())) + 1 + 4
    if any(answer[error_at : error_at + 2]):
        raise LoadError(f"Fetch failed as a whole: {bytes(answer[:64]).hex()}")
    if any(answer[partition_error_at : partition_error_at + 2]):
        raise LoadError(f"Fetch of {topic} failed: {bytes(answer[:96]).hex()}")
    position = partition_error_at + 2 + 8 + 8 + 8
    aborted, position = read_unsigned(answer, position)
    if aborted > 1:
        raise LoadError(f"Fetch of {topic} tells of aborted transactions; none were begun")
    size, position = read_unsigned(answer, position + 4)
    return position, max(0, size - 1)


def list_offsets(topic: str, partition: int, timestamp_ms: int) -> bytes:
    """A ListOffsets request, version 5: the first offset at or after a timestamp."""
    body = struct.pack(">ibi", -1, 0, 1) + _string(topic.encode())
    body += struct.pack(">iiiq", 1, partition, -1, timestamp_ms)
    return framed(LIST_OFFSETS, 5, body, flexible=False)


def listed_offset(answer: bytes, topic: str) -> int:
    """The offset of a ListOffsets answer for one partition; raises LoadError for an error."""
    at = 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4
    error, _, offset = struct.unpack_from(">hqq", answer, at)
    if error:
        raise LoadError(f"ListOffsets of {topic} failed: {answer[:64].hex()}")
    return int(offset)


def api_versions() -> bytes:
    """An ApiVersions request, version 0: the first thing a broker answers."""
    return framed(API_VERSIONS, 0, b"", flexible=False)


def create_topic(topic: str, partitions: int, configs: Mapping[str, str]) -> bytes:
    """A CreateTopics request, version 4."""
    body = struct.pack(">i", 1) + _string(topic.encode())
    body += struct.pack(">ihi", partitions, 1, 0) + struct.pack(">i", len(configs))
    for name, value in configs.items():
        body += _string(name.encode()) + _string(value.encode())
    return framed(CREATE_TOPICS, 4, body + struct.pack(">ib", 30_000, 0), flexible=False)


def delete_topic(topic: str) -> bytes:
    """A DeleteTopics request, version 3."""
    body = struct.pack(">i", 1) + _string(topic.encode()) + struct.pack(">i", 30_000)
    return framed(DELETE_TOPICS, 3, body, flexible=False)


def topic_error(answer: bytes, topic: str) -> int:
    """The error code of a CreateTopics or DeleteTopics answer for its one topic."""
    at = 4 + 4 + 4 + 4 + 2 + len(topic)
    return int(struct.unpack_from(">h", answer, at)[0])
