"""Whether batches that are about to be sent follow each other: a look at their headers.

The bytes that this process wrote, or has checked once, are trusted (`storage.segments.soundness`).
A bit may flip in them all the same, and in a field that no CRC covers no client would notice. So
what was read for an answer is looked at once more, without another read: base offsets, lengths,
magic and leader epochs must fit. A look yields a doubt at most. Whether there is damage, and where,
is found by checking the file anew.

A look is short: BATCHES_MAX batches at 0.15 µs. Mapped bytes are never looked at (design.md, I17).
"""

from __future__ import annotations

import struct
from typing import Final

from protocol.legacy_batches import verify_any
from protocol.record_batch import BATCH_LENGTH_MIN, LOG_OVERHEAD, MAGIC, Buffer
from protocol.record_errors import RecordError
from storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs

BATCHES_MAX: Final = 64

# Base offset, batch length, leader epoch, magic, (CRC and attributes,) last offset delta.
_unpack = struct.Struct(">qiib6xi").unpack_from


def is_in_order(
    data: Buffer, start_offset: int, end_offset: int, holes_below: int, epochs: LeaderEpochs
) -> bool:
    """Whether the batches in `data`, read for `start_offset`, fit each other and the log.

    The first must hold that offset, each must begin where the one before ends, and none may end
    behind `end_offset`. Below `holes_below` compaction has left holes: there offsets only rise.
    Nothing is looked at behind a message of magic 0 or 1.
    """
    size, at, due = len(data), 0, start_offset
    epoch_before = epochs.epoch_of(start_offset)
    for _ in range(BATCHES_MAX):
        try:
            base_offset, length, epoch, magic, delta = _unpack(data, at)
        except struct.error:
            return _is_old_message(data, at)
        if magic != MAGIC:
            return _is_old_message(data, at)
        following = base_offset + delta + 1
        if base_offset != due and (
            due >= holes_below if base_offset > due else at or following <= due
        ):
            return False
        if epoch != epoch_before and epoch != UNDEFINED_EPOCH:
            if epochs.epoch_of(base_offset) not in (epoch, UNDEFINED_EPOCH):
                return False
            epoch_before = epoch
        if length < BATCH_LENGTH_MIN or delta < 0 or following > end_offset:
            return False
        at += length + LOG_OVERHEAD
        if at >= size:
            return bool(at == size)
        due = following
    return True


def _is_old_message(data: Buffer, at: int) -> bool:
    try:
        header = verify_any(data, at)
    except RecordError:
        return False
    return header.magic != MAGIC
