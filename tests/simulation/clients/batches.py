"""The batches that producers send: good ones, records as maps, and bad ones with their codes.

A bad batch is bad in one way that the broker must see by itself, in any topic: it looks at the
header, the length and the CRC of every batch, but opens few.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.record_batch import CONTROL, TRANSACTIONAL, write_crc
from protocol.records import Record
from protocol.records import build as build_batch

CORRUPT, TOO_LARGE, LIST_TOO_LARGE, BAD_TIME, BAD_CODEC, INVALID = 2, 10, 18, 32, 76, 87
NO_TRANSACTION: Final = 53
HEADERS: Final = ((), (), (), (("a", b"1"),), (("", None), ("é", b"")))
NO_TIME: Final = -1
FAR_MS: Final = 1_000 * 86_400_000  # also for a clock that has jumped
WITHOUT_KEY_MAX: Final = 150
_ATTRIBUTES, _DELTA, _COUNT, _MAGIC, _LENGTH = 21, 23, 57, 16, 8


def records_of(chance: random.Random, values: list[bytes], now_ms: int) -> list[Record]:
    """Return records; the key of each is what its value begins with. Times may be out of order."""
    base = now_ms - chance.choice((0, 0, 3, 500))
    step = chance.choice((0, 0, 1, -1))
    return [
        Record(
            number,
            base + step * number,
            value.partition(b":")[0],
            None if value.endswith(b":") else value,
            chance.choice(HEADERS),
        )
        for number, value in enumerate(values)
    ]


def build_untimed(values: list[bytes]) -> bytes:
    """Return a good batch whose records have no timestamps."""
    return bytes(
        build_batch(
            [
                Record(number, NO_TIME, value.partition(b":")[0], value)
                for number, value in enumerate(values)
            ]
        )
    )


def build_mistimed(
    chance: random.Random, values: list[bytes], now_ms: int
) -> tuple[bytes, frozenset[int]]:
    """Return a batch whose records are far from now."""
    far_ms = now_ms + chance.choice((-FAR_MS, FAR_MS))
    return build(chance, values, far_ms), frozenset({BAD_TIME})


def build_without_keys(chance: random.Random) -> tuple[bytes, frozenset[int]]:
    """Return a batch that no compacted topic may take."""
    count = chance.choice((1, 3, WITHOUT_KEY_MAX))
    records = [Record(number, NO_TIME, None, b"x") for number in range(count)]
    return bytes(build_batch(records)), frozenset({INVALID})


def build(
    chance: random.Random, values: list[bytes], now_ms: int, codec: int = 0, **producer: int
) -> bytes:
    """Return a good batch."""
    return bytes(build_batch(records_of(chance, values, now_ms), codec=codec, **producer))


def maps(chance: random.Random, values: list[bytes], now_ms: int) -> list[dict[str, Any]]:
    """Return records as maps; some leave out the time, which the broker then gives."""
    has_time = chance.random() < 0.7
    made = []
    for record in records_of(chance, values, now_ms):
        fields: dict[str, Any] = {"key": record.key, "value": record.value}
        if has_time:
            fields["timestamp"] = record.timestamp
        if record.headers:
            fields["headers"] = [list(pair) for pair in record.headers]
        made.append(fields)
    return made


def build_bad(
    chance: random.Random, values: list[bytes], now_ms: int
) -> tuple[bytes, frozenset[int]]:
    """Return a batch that is bad in one way, and the codes that may refuse it."""
    spoil, codes = chance.choice(_BAD)
    return spoil(bytearray(build(chance, values, now_ms))), frozenset(codes)


def _changed(position: int, layout: str, change: Callable[[int], int]) -> Callable[[Any], bytes]:
    """Return what changes a field and makes the CRC right again."""

    def spoil(batch: bytearray) -> bytes:
        (value,) = struct.unpack_from(layout, batch, position)
        struct.pack_into(layout, batch, position, change(value))
        write_crc(batch, 0)
        return bytes(batch)

    return spoil


def _flipped(batch: bytearray) -> bytes:
    batch[-1] ^= 1
    return bytes(batch)


def _resized(batch: bytearray) -> bytes:
    struct.pack_into(">i", batch, _LENGTH, 5)
    return bytes(batch)


_BAD: Final[tuple[tuple[Callable[[Any], bytes], tuple[int, ...]], ...]] = (
    (_flipped, (CORRUPT, TOO_LARGE)),
    (_resized, (CORRUPT,)),
    (lambda batch: bytes(batch[:-1]), (CORRUPT, INVALID)),
    (lambda batch: bytes(batch[:40]), (CORRUPT, INVALID)),
    (lambda batch: b"", (CORRUPT, INVALID)),
    (lambda batch: bytes(batch + batch), (INVALID,)),
    (_changed(_COUNT, ">i", lambda count: count + 1), (INVALID, TOO_LARGE)),
    (_changed(_COUNT, ">i", lambda count: 0), (INVALID, TOO_LARGE)),
    (_changed(_DELTA, ">i", lambda delta: delta + 3), (INVALID, TOO_LARGE)),
    (_changed(_DELTA, ">i", lambda delta: -1), (CORRUPT, INVALID, TOO_LARGE)),
    (_changed(_MAGIC, ">b", lambda magic: 1), (INVALID,)),
    (_changed(_MAGIC, ">b", lambda magic: 3), (CORRUPT,)),
    (_changed(_ATTRIBUTES, ">h", lambda bits: bits | 7), (BAD_CODEC, TOO_LARGE)),
    (_changed(_ATTRIBUTES, ">h", lambda bits: bits | CONTROL), (INVALID, TOO_LARGE)),
    (
        _changed(_ATTRIBUTES, ">h", lambda bits: bits | TRANSACTIONAL),
        (NO_TRANSACTION, INVALID, TOO_LARGE),
    ),
    (_changed(0, ">q", lambda offset: 3), (INVALID,)),
)
