"""Whether batches that are about to be sent follow each other: a look at their headers.

The bytes that this process wrote, or has checked once, are trusted (`storage.segments.soundness`).
A bit may flip in them all the same, and in a field that no CRC covers no client would notice. So
what was read for an answer is looked at once more, without another read: base offsets, lengths,
magic and leader epochs must fit. A look yields a doubt at most. Whether there is damage, and where,
is found by checking the file anew.

A look is short: BATCHES_MAX batches at 0.15 µs. It also tells where whole batches end in what a
reader got that reads on, without a look-up (`Log.read_on`). Mapped bytes are never looked at
(design.md, I17).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.legacy_batches import verify_any
from protocol.record_batch import BATCH_LENGTH_MIN, LOG_OVERHEAD, MAGIC, Buffer
from protocol.record_errors import RecordError
from storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs

BATCHES_MAX: Final = 64

# Base offset, batch length, leader epoch, magic, (CRC and attributes,) last offset delta.
_unpack = struct.Struct(">qiib6xi").unpack_from


class Look(NamedTuple):
    """What a look has found: batches that fit, how many bytes, and the offset after them."""

    size: int
    next_offset: int
    batch_count: int


def look(
    data: Buffer, start_offset: int, end_offset: int, holes_below: int, epochs: LeaderEpochs
) -> Look | None:
    """Look at the batches in `data`, read for `start_offset`; None if one does not fit.

    The first must hold that offset, each must begin where the one before ends, and none may end
    behind `end_offset`. Below `holes_below` compaction has left holes: there offsets only rise.
    Ends behind BATCHES_MAX batches, at one that is cut off, and at a message of magic 0 or 1.
    """
    size, at, due, count = len(data), 0, start_offset, 0
    epoch_before = epochs.epoch_of(start_offset)
    while at < size and count < BATCHES_MAX:
        try:
            base_offset, length, epoch, magic, delta = _unpack(data, at)
        except struct.error:
            break
        if magic != MAGIC:
            break
        following = base_offset + delta + 1
        if base_offset != due and (
            due >= holes_below if base_offset > due else at or following <= due
        ):
            return None
        if epoch != epoch_before and epoch != UNDEFINED_EPOCH:
            if epochs.epoch_of(base_offset) not in (epoch, UNDEFINED_EPOCH):
                return None
            epoch_before = epoch
        if length < BATCH_LENGTH_MIN or delta < 0 or following > end_offset:
            return None
        if at + length + LOG_OVERHEAD > size:
            break
        at += length + LOG_OVERHEAD
        due = following
        count += 1
    return Look(at, due, count)


def is_in_order(
    data: Buffer, start_offset: int, end_offset: int, holes_below: int, epochs: LeaderEpochs
) -> bool:
    """Whether `data`, read for `start_offset`, is whole batches that fit each other and the log."""
    found = look(data, start_offset, end_offset, holes_below, epochs)
    if found is None:
        return False
    is_seen = found.size == len(data) or found.batch_count == BATCHES_MAX
    return is_seen or _is_old_message(data, found.size)


def is_cut_off(data: Buffer, found: Look) -> bool:
    """Whether a look ended at a batch of which only the beginning is in `data`."""
    magic_at = found.size + LOG_OVERHEAD + 4
    return found.batch_count < BATCHES_MAX and (magic_at >= len(data) or data[magic_at] == MAGIC)


def _is_old_message(data: Buffer, at: int) -> bool:
    try:
        header = verify_any(data, at)
    except RecordError:
        return False
    return header.magic != MAGIC
