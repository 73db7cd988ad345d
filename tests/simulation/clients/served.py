"""What a fetch has served: whole batches with right CRCs, dense, from the asked offset on.

`served` walks over the bytes of one partition's answer and says what is wrong with them. A batch
whose bytes are not what was written is told apart (`corrupt`): a disk may have flipped a bit, and
Kafka's brokers leave it to clients to see that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from protocol.record_batch import HEADER_SIZE, MAGIC, read_header, verify
from protocol.record_errors import RecordError
from protocol.records import read_records
from tests.support.log_ledger import SeenBatch

OPENED_BYTES_MAX = 1 << 20


@dataclass(slots=True)
class Served:
    """The batches of an answer, up to the first that is corrupt; and what is wrong with it."""

    batches: list[SeenBatch] = field(default_factory=list)
    corrupt: str = ""
    wrong: str = ""
    next_offset: int = -1  # where to go on; -1: nothing was served
    sizes: list[int] = field(default_factory=list)


def served(data: Any, position: int, *, is_compacted: bool) -> Served:
    """Return what an answer to a fetch from `position` holds."""
    found = Served()
    view = memoryview(bytes(data or b""))
    at, due = 0, -1
    while at < len(view):
        if len(view) - at < HEADER_SIZE:
            found.wrong = f"{len(view) - at} bytes behind the last batch"
            return found
        try:
            header = verify(view, at)
            batch = _seen(view[at : at + header.size])
        except RecordError as error:
            found.corrupt = str(error)
            return found
        if due < 0:
            if batch.last_offset < position or (batch.base_offset > position and not is_compacted):
                found.wrong = f"{batch.base_offset} to {batch.last_offset} served for {position}"
        elif batch.base_offset < due or (batch.base_offset > due and not is_compacted):
            found.wrong = f"{batch.base_offset} served where {due} was due"
        due = batch.last_offset + 1
        found.batches.append(batch)
        found.sizes.append(header.size)
        found.next_offset = due
        at += header.size
    return found


def text_of(key: bytes | None, value: bytes | None) -> bytes:
    """Return what a record counts as in the history; a tombstone is its key and a colon."""
    return (key or b"") + b":" if value is None else bytes(value)


def _seen(data: memoryview) -> SeenBatch:
    header = read_header(data)
    assert header.magic == MAGIC
    records = read_records(data, size_max=OPENED_BYTES_MAX, skip_headers=True)
    return SeenBatch(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
        hashlib.blake2b(data, digest_size=12).digest(),
        tuple((record.offset, text_of(record.key, record.value)) for record in records),
    )
