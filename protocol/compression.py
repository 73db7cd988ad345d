"""The five codecs of record batches, with a bound on the decompressed size.

    0 none   1 gzip   2 snappy   3 lz4   4 zstd

gzip, lz4 and zstd are the common framed streams. Snappy travels in two shapes: the framing of
the Java clients (xerial: 16 bytes of magic and versions, then blocks of int32 size and raw
snappy) and one raw block, as librdkafka sends it. Both are read, the first is written. Kafka's Java
reader needs lz4 frames with independent blocks, which the codec library does not write, so this
module writes the frame, with the header of Kafka's own writer.

Bound: `decompress` never asks for more than `size_max` bytes of output. The size that a stream
announces is only a hint: the buffer begins small and grows while the stream needs it. The result is
copied out in pieces, so the peak is three times its size. A library call may also hold a window of
its own: zstd up to 128 MiB of address space, libzstd's default.

The codec library, cramjam, releases the GIL while it works, so all of this may run in a pool
thread. It is imported on first use: a broker that never opens a batch does not load it.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import Any, Final

from protocol.record_batch import CODEC_MAX, Buffer
from protocol.record_errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
assert ZSTD == CODEC_MAX

NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_MAPPED_MIN = 1 << 20
_COPIED_BYTES = 1 << 20
_FIRST_GUESS_MIN = 4096
_FIRST_GUESS_RATIO = 4  # text packs to a third or a quarter: most batches fit at once
_GROWTH = 4  # a stream that does not fit begins anew: at most a third is done twice

_GZIP_LEVEL = 6  # the defaults of Kafka's compression.gzip.level and compression.zstd.level
_ZSTD_LEVEL = 3

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = _XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 * 1024  # SnappyOutputStream's default

# Magic, FLG: version 1 and independent blocks, BD: blocks of 64 KiB, and the header's checksum,
# which for this header is always the same.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31  # set in the size of a block that is not compressed
_LZ4_END = b"\0\0\0\0"

_int32 = struct.Struct(">i")
_little_uint32 = struct.Struct("<I")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed as Kafka's clients compress the records of a batch.

    `level` is that of gzip or zstd, in Kafka's numbers; None is the codec's default there.
    The library has only one level of lz4.
    """
    if codec == NONE:
        return bytes(data)
    import cramjam

    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None else level))
    if codec == SNAPPY:
        return _compress_snappy(cramjam, data)
    if codec == LZ4:
        return _compress_lz4(cramjam, data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    raise UnsupportedCompression(codec)


def decompress(codec: int, data: Buffer, size_max: int) -> bytes:
    """Return `data` decompressed, at most `size_max` bytes.

    Raises DecompressedTooLarge at the bound, CorruptBatch for what is no stream of this codec
    (its position counts from the start of `data`, and is 0 where the library does not tell) and
    UnsupportedCompression for a codec id that Kafka does not define.
    """
    if codec == NONE:
        if len(data) > size_max:
            raise DecompressedTooLarge(codec, len(data), size_max)
        return _copied(memoryview(data))
    if not NONE < codec <= CODEC_MAX:
        raise UnsupportedCompression(codec)
    import cramjam

    if codec == SNAPPY:
        return _decompress_snappy(cramjam, data, size_max)
    library = (None, cramjam.gzip, None, cramjam.lz4, cramjam.zstd)[codec]
    return _decompress_stream(cramjam, library, codec, data, size_max)


def _decompress_stream(
    cramjam: Any, library: Any, codec: int, data: Buffer, size_max: int
) -> bytes:
    capacity = max(_FIRST_GUESS_MIN, _FIRST_GUESS_RATIO * len(data))
    while True:
        capacity = min(capacity, size_max)
        output = _room(capacity)
        try:
            size = library.decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if not _is_output_full(error):
                raise CorruptBatch(0, f"{NAMES[codec]}: {error}") from None
        else:
            return _copied(memoryview(output)[:size])
        if capacity == size_max:
            raise DecompressedTooLarge(codec, len(data), size_max)
        capacity *= _GROWTH


def _room(size: int) -> bytearray | mmap.mmap:
    """Return memory to decompress into.

    A bytearray is filled with zeros by a thread that holds the interpreter: 38 ms for 64 MiB.
    Mapped pages come as the library, which lets others run, touches them.
    """
    return bytearray(size) if size < _MAPPED_MIN else mmap.mmap(-1, size)


def _copied(view: memoryview) -> bytes:
    """Return a copy without holding up other threads: one of 64 MiB takes 50 ms.

    They may run between two pieces, and while those are joined (bytes.join lets them, from 1 MiB).
    """
    if len(view) <= _COPIED_BYTES:
        return bytes(view)
    return b"".join(
        [bytes(view[at : at + _COPIED_BYTES]) for at in range(0, len(view), _COPIED_BYTES)]
    )


def _is_output_full(error: Exception) -> bool:
    """Whether the library stopped at the end of our buffer; it has one class for all its errors."""
    return "write whole buffer" in str(error)


def _compress_snappy(cramjam: Any, data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view) or 1, _XERIAL_BLOCK_BYTES):  # nothing is one empty block
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(cramjam: Any, data: Buffer, size_max: int) -> bytes:
    view = memoryview(data)
    blocks = []
    size_left = size_max
    for position, packed in _snappy_blocks(view):
        block = _decompress_snappy_block(cramjam, packed, position, size_left)
        if block is None:
            raise DecompressedTooLarge(SNAPPY, len(view), size_max)
        size_left -= len(block)
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _snappy_blocks(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield (position, block) of xerial's framing; what has no framing is one block.

    Streams may follow one another, as the Java library reads them: no block has the size that a
    header would be.
    """
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield 0, view
        return
    position = 0
    while position < len(view):
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            if len(view) - position < len(_XERIAL_HEADER):
                raise CorruptBatch(position, "snappy: the stream ends inside its header")
            position += len(_XERIAL_HEADER)
            continue
        if len(view) - position < _int32.size:
            raise CorruptBatch(position, "snappy: the stream ends inside a block's size")
        (block_bytes,) = _int32.unpack_from(view, position)
        position += _int32.size
        if not 0 < block_bytes <= len(view) - position:
            raise CorruptBatch(
                position,
                f"snappy: a block of {block_bytes} bytes, but {len(view) - position} are left",
            )
        yield position, view[position : position + block_bytes]
        position += block_bytes


def _decompress_snappy_block(
    cramjam: Any, block: memoryview, position: int, size_max: int
) -> bytes | None:
    """Unpack one raw block; None if the size at its head, looked at first, is beyond the bound."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > size_max:
            return None
        output = _room(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(position, str(error)) from None
    return _copied(memoryview(output)[:size])


def _compress_lz4(cramjam: Any, data: Buffer) -> bytes:
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        raw = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(block) < len(raw):
            parts += (_little_uint32.pack(len(block)), block)
        else:
            parts += (_little_uint32.pack(len(raw) | _LZ4_STORED), bytes(raw))
    parts.append(_LZ4_END)
    return b"".join(parts)
