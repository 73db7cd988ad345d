"""Which batches of a topic are packed anew before they are appended, and as what.

`compression.type=producer`, the default, keeps every batch as it came, unopened: nobody asks here
then. Any other packs
those with another codec anew. That takes a thread: but for small plain batches, which cost the
loop less than handing them over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from config.topic import TopicConfig
from protocol.compression import GZIP, NONE, ZSTD
from protocol.recompression import CODECS, Target, recompress
from protocol.record_batch import CODEC_MASK, HEADER_SIZE, read_header

AS_PRODUCED: Final = "producer"
INLINE_BYTES_MAX: Final = 16 * 1024

Prepare = Callable[[], memoryview]


def target_of(config: TopicConfig) -> Target:
    """Return what a topic's batches are packed as."""
    codec = CODECS[config.compression_type]
    levels = {
        GZIP: None if config.compression_gzip_level < 0 else config.compression_gzip_level,
        ZSTD: config.compression_zstd_level,
    }
    return Target(codec, levels.get(codec))


def preparation(
    batch: memoryview, config: TopicConfig, decompressed_max: int
) -> tuple[Prepare | None, bool]:
    """Return what packs `batch` anew, None if that need not be, and whether the loop may do it.

    What is no batch is left to the append to refuse.
    """
    target = target_of(config)
    if len(batch) < HEADER_SIZE:
        return None, True
    codec = read_header(batch).attributes & CODEC_MASK
    if codec == target.codec:
        return None, True
    prepare = partial(
        recompress,
        batch,
        target,
        size_max=config.max_message_bytes,
        decompressed_max=decompressed_max,
    )
    return prepare, codec == NONE and len(batch) <= INLINE_BYTES_MAX
