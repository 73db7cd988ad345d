"""Which partition a record goes to: by key as in Java's client, else in turn.

A key goes to the same partition whichever client sends it: Kafka's BuiltInPartitioner takes murmur2
(32 bits, seed 0x9747b28c) of the key's bytes, without its sign bit, modulo the partition count. All
keys of a RecordBatch are hashed together, one four-byte word of all of them at a time.

Records without a key change partition every `_RUN` records. This depends only on their number
within the task, so a task that is rerun sends each record where it went before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SEED = np.uint32(0x9747B28C)
_FACTOR = np.uint32(0x5BD1E995)
_SHIFT = np.uint32(24)
_RUN = 500


def murmur2(keys: Any) -> npt.NDArray[np.uint32]:
    """Return the hash of each key of a pyarrow BinaryArray (a null counts as empty)."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    content = keys.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    data = np.append(data, np.zeros(4, np.uint8))
    starts, sizes = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    found = _SEED ^ sizes.astype(np.uint32)
    words = sizes // 4
    with np.errstate(over="ignore"):
        for index in range(int(words.max(initial=0))):
            rows = np.flatnonzero(words > index)
            mixed = _word(data, starts[rows] + 4 * index, 4) * _FACTOR
            mixed ^= mixed >> _SHIFT
            found[rows] = (found[rows] * _FACTOR) ^ (mixed * _FACTOR)
        for left in (1, 2, 3):
            rows = np.flatnonzero(sizes % 4 == left)
            found[rows] = (
                found[rows] ^ _word(data, starts[rows] + 4 * words[rows], left)
            ) * _FACTOR
        found ^= found >> np.uint32(13)
        found *= _FACTOR
    return found ^ (found >> np.uint32(15))


def _word(
    data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.uint32]:
    word = data[positions].astype(np.uint32)
    for index in range(1, size):
        word |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return word


class Partitioner:
    """Chooses partitions for the rows of one task; counts the records without a key."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._without_key = 0

    def choose(self, keys: Any, count: int) -> npt.NDArray[np.int64]:
        """Return the partition, 0 to `count` - 1, of each key of a pyarrow BinaryArray."""
        chosen = ((murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int64)
        if keys.null_count:
            rows = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
            numbers = self._without_key + np.arange(len(rows))
            chosen[rows] = (self._task + numbers // _RUN) % count
            self._without_key += len(rows)
        return chosen
