"""What must be done with a batch before it is appended, and where.

Most batches are stored as they came, unopened: nobody asks here then. Opened, checked record by
record, and perhaps packed anew are

- those for a compacted topic, whose records must have keys;
- all, with `barnabas.validate.records`;
- those of another codec than the topic's `compression.type` (`producer`, the default, keeps all).

That takes a thread (`broker.partitions.record_work`) and a place in the partition's queue
(`broker.partitions.append_queue`): but for what is small and not packed, which costs the loop less
than handing it over. A request may have INLINE_BYTES_MAX of these, which are walked over in some
five milliseconds whatever they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.runtime.clock import let_others_run
from config.topic import TopicConfig
from protocol.compression import GZIP, NONE, ZSTD
from protocol.recompression import CODECS, Target, recompress
from protocol.record_batch import CODEC_MASK, HEADER_SIZE, read_header

AS_PRODUCED: Final = "producer"
COMPACT: Final = "compact"
INLINE_BYTES_MAX: Final = 16 * 1024

Prepare = Callable[[], memoryview]


def target_of(config: TopicConfig) -> Target | None:
    """Return what a topic's batches are packed as; None: as they came."""
    if config.compression_type == AS_PRODUCED:
        return None
    codec = CODECS[config.compression_type]
    levels = {
        GZIP: None if config.compression_gzip_level < 0 else config.compression_gzip_level,
        ZSTD: config.compression_zstd_level,
    }
    return Target(codec, levels.get(codec))


def preparation(
    batch: memoryview, config: TopicConfig, decompressed_max: int, *, validates: bool
) -> Prepare | None:
    """Return what makes of `batch` the one to append, None if that is `batch` as it is.

    `validates` says that every batch is to be opened. What is no batch is left to the append to
    refuse. What is returned raises RecordError.
    """
    if len(batch) < HEADER_SIZE:
        return None
    keys_wanted = COMPACT in config.cleanup_policy
    target = target_of(config)
    if not (keys_wanted or validates) and (target is None or _codec_of(batch) == target.codec):
        return None
    return partial(
        recompress,
        batch,
        target,
        size_max=config.max_message_bytes,
        decompressed_max=decompressed_max,
        keys_wanted=keys_wanted,
        rest=let_others_run,
    )


def is_quick(batch: memoryview, bytes_left: int) -> bool:
    """Whether the loop may go over the records of `batch`, having `bytes_left` to do so."""
    return len(batch) <= bytes_left and (len(batch) < HEADER_SIZE or _codec_of(batch) == NONE)


def _codec_of(batch: memoryview) -> int:
    return read_header(batch).attributes & CODEC_MASK
