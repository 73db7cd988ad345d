"""What must be done with a batch before it is appended, and whether the loop may do it.

Most batches are stored as they came, unopened, and never reach this module. These are opened,
checked record by record, and recompressed if necessary:

- batches for a compacted topic, whose records must have keys;
- all batches, with `barnabas.validate.records`;
- batches with another codec than the topic's `compression.type` (`producer`, the default, keeps
  each batch's own).

A thread does that (`broker.runtime.record_work`), while the batch keeps its place in the
partition's queue (`broker.partitions.append_queue`). Small uncompressed batches are the exception:
they cost the loop less than handing them over. The loop walks over INLINE_BYTES_MAX of them per
request, in some five milliseconds whatever they hold.
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
    """Return the compression of a topic's batches; None: each keeps the producer's."""
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
    """Return a function that makes the batch to append from `batch`; None: append it as it is.

    With `validates`, every batch is opened. Bytes too short for a batch are appended as they are:
    the log refuses them. The function returned raises RecordError.
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
    """Whether the loop may walk over the records of `batch`, with `bytes_left` for this request."""
    return len(batch) <= bytes_left and (len(batch) < HEADER_SIZE or _codec_of(batch) == NONE)


def _codec_of(batch: memoryview) -> int:
    return read_header(batch).attributes & CODEC_MASK
