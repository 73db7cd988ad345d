"""What a fetch has served: whole batches with right CRCs, dense, from the asked offset on.

`served` walks over the bytes of one partition's answer and says what is wrong with them. A batch
whose bytes are not what was written is told apart (`corrupt`).

A disk may have flipped a bit. Where a batch shows it, the batch ends the walk, and nothing is wrong
with it as far as it is left to clients to see that. But the broker looks at some of the headers
that it is about to send (docs/durability.md, `looks`). There it sees a base offset or a magic that
does not fit; in a compacted log it sees that two batches overlap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from protocol.record_batch import HEADER_SIZE, MAGIC, read_header, verify
from protocol.record_errors import RecordError
from protocol.records import read_records
from tests.support.log_ledger import SeenBatch

if TYPE_CHECKING:
    from tests.simulation.bit_flip import Flip

OPENED_BYTES_MAX: Final = 1 << 20
# What is promised: so many headers are looked at in an answer that is not sent as mapped pages.
LOOKED_AT_MAX: Final = 64
MAPPED_BYTES_MIN: Final = 128 * 1024
MAGIC_AT: Final = 16  # in a batch


@dataclass(slots=True)
class Served:
    """The batches of an answer, up to the first that is corrupt; and what is wrong with it."""

    batches: list[SeenBatch] = field(default_factory=list)
    flip: Flip | None = None  # in the batch that ended the walk
    corrupt: str = ""
    wrong: str = ""
    next_offset: int = -1  # where to go on; -1: nothing was served
    sizes: list[int] = field(default_factory=list)


def served(
    data: Any,
    position: int,
    end_offset: int,
    *,
    is_compacted: bool,
    flips: Sequence[Flip] = (),
    looks: int = LOOKED_AT_MAX,
) -> Served:
    """Return what an answer to a fetch from `position` holds; `end_offset` is its high watermark.

    `flips` are those in files of the partition. The broker looks at the headers of the first
    `looks` batches.
    """
    found = Served()
    view = memoryview(bytes(data or b""))
    at, due = 0, -1
    while at < len(view):
        if len(view) - at < HEADER_SIZE:
            found.wrong = f"{len(view) - at} bytes behind the last batch"
            return found
        try:
            header = verify(view, at)
            batch = seen_batch(view[at : at + header.size])
        except RecordError as error:
            found.flip = next((flip for flip in flips if flip.begins(view, at)), None)
            found.corrupt = "" if found.flip else str(error)
            if len(found.batches) < looks:
                found.wrong = _missed(found, view, at, due, is_compacted=is_compacted)
            return found
        if due < 0:
            if batch.last_offset < position or (batch.base_offset > position and not is_compacted):
                found.wrong = f"{batch.base_offset} to {batch.last_offset} served for {position}"
        elif batch.base_offset < due or (batch.base_offset > due and not is_compacted):
            found.wrong = f"{batch.base_offset} served where {due} was due"
        due = batch.last_offset + 1
        if due > end_offset:
            found.wrong = f"served to {due}, mark {end_offset}"
        found.flip = next((flip for flip in flips if flip.is_in(batch.records, batch.epoch)), None)
        if found.flip is not None:
            missed = _missed(found, view, at + header.size, due, is_compacted=is_compacted)
            found.wrong = found.wrong or missed
            if len(found.batches) >= looks:
                found.wrong = ""
            return found
        found.batches.append(batch)
        found.sizes.append(header.size)
        found.next_offset = due
        at += header.size
    return found


def looks_of(tiny: Mapping[str, int], size_bytes: int, *, is_copied: bool) -> int:
    """Return at how many headers of an answer the broker looks.

    `tiny` is a plan's (`tests.simulation.scale`). What is sent in msgpack `is_copied`, not mapped.
    """
    mapped_min = tiny.get("storage.segments.log_file/MAP_BYTES_MIN", MAPPED_BYTES_MIN)
    if size_bytes >= mapped_min and not is_copied:
        return 0
    return tiny.get("storage.segments.order/BATCHES_MAX", LOOKED_AT_MAX)


def _missed(found: Served, view: memoryview, behind: int, due: int, *, is_compacted: bool) -> str:
    """Return what is wrong if a broker must see the flipped bit that it has served.

    The next batch would be `behind` in the answer, from offset `due` on.
    """
    flip = found.flip
    if flip is None:
        return ""
    is_seen = flip.at == MAGIC_AT
    if flip.shift and is_compacted:
        is_seen = behind + HEADER_SIZE <= len(view) and read_header(view, behind).base_offset < due
    elif flip.shift:
        is_seen = True
    return f"it {flip}, and is served" if is_seen else ""


def text_of(key: bytes | None, value: bytes | None) -> bytes:
    """Return what a record counts as in the history; a tombstone is its key and a colon."""
    return (key or b"") + b":" if value is None else bytes(value)


def seen_batch(data: memoryview) -> SeenBatch:
    """Open a whole batch."""
    header = read_header(data)
    assert header.magic == MAGIC
    records = read_records(data, size_max=OPENED_BYTES_MAX, skip_headers=True)
    return SeenBatch(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
        hashlib.blake2b(data, digest_size=12).digest(),
        ()
        if header.is_control  # the marker of a transaction: clients do not see it
        else tuple((record.offset, text_of(record.key, record.value)) for record in records),
    )
