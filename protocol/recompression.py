"""Storing a batch with another codec than its producer's: a topic's `compression.type`.

Only the block of records changes, and with it codec, length and CRC in the header. The
records are opened and checked on the way, as Kafka does with those that it packs anew
(LogValidator.validateMessagesAndAssignOffsetsCompressed), and may be asked to have keys.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from protocol.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    pack_header,
    verify_produced,
    write_crc,
)
from protocol.record_errors import RecordBatchTooLarge
from protocol.record_walks import Rest, check_body, no_rest

CODECS: Final = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


class Target(NamedTuple):
    """How batches are to be stored. `level` None: the codec has none, or its own default."""

    codec: int
    level: int | None = None


def recompress(
    batch: memoryview,
    target: Target | None,
    *,
    size_max: int,
    decompressed_max: int,
    keys_wanted: bool = False,
    rest: Rest = no_rest,
) -> memoryview:
    """Check the records of the one produced batch that `batch` must be, and pack it as `target`.

    `size_max` is max.message.bytes, for the batch as it came and as it is returned: itself, if it
    is packed so already, or for no target. `keys_wanted` and `rest` as in `protocol.record_walks`.
    Raises RecordError.
    """
    header = verify_produced(batch, size_max)
    records = decompress(header.codec, batch[HEADER_SIZE:], decompressed_max)
    check_body(header, records, keys_wanted=keys_wanted, rest=rest)
    if target is None or header.codec == target.codec:
        return batch
    packed = compress(target.codec, records, target.level)
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    if length + LOG_OVERHEAD > size_max:
        raise RecordBatchTooLarge(length + LOG_OVERHEAD, size_max)
    attributes = header.attributes & ~CODEC_MASK | target.codec
    made = header._replace(attributes=attributes, batch_length=length)
    whole = bytearray(pack_header(made)) + packed
    write_crc(whole, 0)
    return memoryview(whole)
