"""The five codecs of record batches, with a bound on the decompressed size.

    0 none   1 gzip   2 snappy   3 lz4   4 zstd

gzip, lz4 and zstd are the usual framed streams. Snappy comes in xerial's framing (16 bytes of magic
and versions, then blocks of int32 size and raw snappy) or as one raw block; both are read, the
first is written. Kafka's Java reader requires lz4 frames with independent blocks, which the codec
library does not write, so this module writes the frame itself.

`decompress` never allocates more than `size_max` bytes of output. It does not trust the size that a
stream declares; the buffer grows only as far as the stream needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import cramjam

from pyspark_barnabas.wire.errors import BatchTooLarge, CorruptBatch

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_FIRST_GUESS_MIN = 4096
_FIRST_GUESS_RATIO = 4  # text compresses to a third or a quarter: most batches fit at once
_GROWTH = 4

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 * 1024  # SnappyOutputStream's default

# Magic, FLG: version 1 and independent blocks, BD: blocks of 64 KiB, and the header's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31  # set in the size of a block that is not compressed
_LZ4_END = b"\0\0\0\0"

_int32 = struct.Struct(">i")
_little_uint32 = struct.Struct("<I")


def decompress(codec: int, packed: memoryview, size_max: int) -> bytes | memoryview:
    """Return `packed` decompressed, at most `size_max` bytes.

    Raises CorruptBatch for an invalid stream, BatchTooLarge at the bound. Positions in both count
    from the start of `packed`.
    """
    if codec == NONE:
        return packed
    if codec == SNAPPY:
        return _decompress_snappy(packed, size_max)
    libraries: dict[int, Any] = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}
    if codec not in libraries:
        raise CorruptBatch(0, f"codec {codec} is none of 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
    return _decompress_stream(libraries[codec], NAMES[codec], packed, size_max)


def compress(codec: int, raw: bytes | bytearray) -> bytes | bytearray:
    """Return `raw` compressed as Kafka's clients compress the records of a batch."""
    if codec == NONE:
        return raw
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(raw, level=6))
    if codec == SNAPPY:
        return b"".join(_xerial_blocks(memoryview(raw)))
    if codec == LZ4:
        return b"".join(_lz4_blocks(memoryview(raw)))
    assert codec == ZSTD, codec
    return bytes(cramjam.zstd.compress(raw, level=3))


def _too_large(name: str, packed: memoryview, size_max: int) -> BatchTooLarge:
    return BatchTooLarge(
        0,
        f"{len(packed)} bytes of {name} decompress to more than {size_max} bytes, "
        "the bound on one batch; raise the option batchBytesMax if the batch is genuine",
    )


def _decompress_stream(library: Any, name: str, packed: memoryview, size_max: int) -> memoryview:
    capacity = max(_FIRST_GUESS_MIN, _FIRST_GUESS_RATIO * len(packed))
    while True:
        capacity = min(capacity, size_max)
        output = bytearray(capacity)
        try:
            size = library.decompress_into(packed, output)
        except cramjam.DecompressionError as error:
            # The library has one class for all errors; this text means that our buffer is full.
            if "write whole buffer" not in str(error):
                raise CorruptBatch(0, f"{name}: {error}") from None
        else:
            return memoryview(output)[:size]
        if capacity == size_max:
            raise _too_large(name, packed, size_max)
        capacity *= _GROWTH


def _decompress_snappy(packed: memoryview, size_max: int) -> bytes:
    blocks = []
    size_left = size_max
    for position, block in _snappy_blocks(packed):
        try:
            size = cramjam.snappy.decompress_raw_len(block)
            if size > size_left:
                raise _too_large("snappy", packed, size_max)
            output = bytearray(size)
            cramjam.snappy.decompress_raw_into(block, output)
        except cramjam.DecompressionError as error:
            raise CorruptBatch(position, f"snappy: {error}") from None
        size_left -= size
        blocks.append(output)
    return b"".join(blocks)


def _snappy_blocks(packed: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield (position, block) of xerial's framing; without framing, everything is one block."""
    if packed[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield 0, packed
        return
    position = len(_XERIAL_HEADER)
    while position < len(packed):
        if len(packed) - position < _int32.size:
            raise CorruptBatch(position, "snappy: the stream ends within a block's size")
        (block_bytes,) = _int32.unpack_from(packed, position)
        position += _int32.size
        if not 0 < block_bytes <= len(packed) - position:
            left = len(packed) - position
            raise CorruptBatch(position, f"snappy: a block of {block_bytes} bytes, {left} are left")
        yield position, packed[position : position + block_bytes]
        position += block_bytes


def _xerial_blocks(raw: memoryview) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for start in range(0, len(raw), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(raw[start : start + _XERIAL_BLOCK_BYTES]))
        yield _int32.pack(len(block)) + block


def _lz4_blocks(raw: memoryview) -> Iterator[bytes]:
    yield _LZ4_HEADER
    for start in range(0, len(raw), _LZ4_BLOCK_BYTES):
        whole = bytes(raw[start : start + _LZ4_BLOCK_BYTES])
        block = bytes(cramjam.lz4.compress_block(whole, store_size=False))
        if len(block) < len(whole):
            yield _little_uint32.pack(len(block)) + block
        else:
            yield _little_uint32.pack(len(whole) | _LZ4_STORED) + whole
    yield _LZ4_END
