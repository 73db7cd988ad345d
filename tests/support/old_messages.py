"""Messages of magic 0 and 1, and segments as an old Kafka wrote them."""

import struct
import zlib
from collections.abc import Sequence

from protocol.compression import compress
from protocol.records import Record, build

GZIP, SNAPPY, LZ4 = 1, 2, 3


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    timestamp: int = -1,
    key: bytes | None = None,
    attributes: int = 0,
) -> bytes:
    """Return one message; magic 0 has no `timestamp`."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", timestamp) if magic else b""
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(
    base_offset: int, timestamps: Sequence[int], *, magic: int, codec: int, append_time: int = -1
) -> bytes:
    """Return a compressed message with one inner message per timestamp."""
    inner = b"".join(
        message(
            base_offset + n if magic == 0 else n, b"inner %d" % n, magic=magic, timestamp=time,
            key=b"k%d" % n,
        )
        for n, time in enumerate(timestamps)
    )  # fmt: skip
    return message(
        base_offset + len(timestamps) - 1,
        compress(codec, inner),
        magic=magic,
        timestamp=max(timestamps) if append_time < 0 else append_time,
        attributes=codec | (8 if append_time >= 0 else 0),
    )


def new_batch(base_offset: int, timestamps: Sequence[int], leader_epoch: int = 0) -> bytes:
    """Return a batch of magic 2."""
    records = [Record(0, time, b"key", b"new") for time in timestamps]
    return bytes(build(records, base_offset=base_offset, leader_epoch=leader_epoch))


def segments(now_ms: int) -> dict[int, list[bytes]]:
    """Return base offset -> the batches of the segment, oldest first; ends at offset 30."""
    at = now_ms
    return {
        0: [
            message(0, b"zero", magic=0, key=b"a"),
            message(1, None, magic=0),
            wrapper(2, [-1, -1, -1], magic=0, codec=GZIP),
            message(5, b"one", timestamp=at + 5),
            wrapper(6, [at + 6, at + 9, at + 7], magic=1, codec=SNAPPY),
            new_batch(9, [at + 10, at + 8]),
        ],
        11: [
            wrapper(11, [at + 11, at + 20, at + 12], magic=1, codec=LZ4),
            wrapper(14, [at + 1, at + 2], magic=1, codec=GZIP, append_time=at + 21),
            message(16, b"", timestamp=at + 22),
        ],
        17: [new_batch(17, [at + 23]), new_batch(18, [at + 24, at + 25])],
        20: [
            *(message(n, b"x" * 400, timestamp=at + 10 + n) for n in range(20, 28)),
            message(28, None, magic=0),
            message(29, None, timestamp=at + 40),
        ],
    }


END_OFFSET = 30
