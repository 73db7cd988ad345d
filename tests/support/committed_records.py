"""Reads records of transactions from bytes, as a client does, and as the markers say.

A reader of committed records is told which transactions were aborted, each by its producer and
first offset. From there to the producer's next marker of an abort, its batches do not count
(`committed_in`). What that must give follows from the log itself: what its markers have committed,
and what is of no transaction (`Settled`).

Independent of the product, as `tests.support.raw_batches`. Layout: Kafka's DefaultRecordBatch, and
EndTransactionMarker for markers. The simulator's `committed_reads` uses the product's decoders.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.raw_batches import HEADER_BYTES, keyed_records_of

_HEAD = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL = 0x10, 0x20  # bits of the attributes
_COMMIT = b"\0\0\0\1"  # a marker's key: its version, and 1


class Batch(NamedTuple):
    """One batch; `is_commit` is None unless it is a marker."""

    base_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool
    is_commit: bool | None
    records: Sequence[tuple[int, bytes]]  # offset and value; of a marker none


def batches_of(fetched: bytes) -> Iterator[Batch]:
    """Yield the whole batches of an answer."""
    at = 0
    while at + HEADER_BYTES <= len(fetched):
        head = _HEAD.unpack_from(fetched, at)
        base, attributes, delta, producer_id = head[0], head[5], head[6], head[9]
        end = at + 12 + head[1]
        if end > len(fetched):
            return
        records = keyed_records_of(fetched[at:end])
        is_commit = None
        if attributes & CONTROL:
            is_commit = bool(records) and records[0][1] == _COMMIT
            records = []
        values = [(offset, value or b"") for offset, _, value in records]
        is_transactional = bool(attributes & TRANSACTIONAL)
        yield Batch(base, base + delta, producer_id, is_transactional, is_commit, values)
        at = end


def committed_in(
    batches: Iterable[Batch], aborted: Iterable[tuple[int, int]]
) -> list[tuple[int, bytes]]:
    """Return offset and value of the committed records; `aborted`: producer ids, first offsets."""
    waiting = sorted(((first, producer_id) for producer_id, first in aborted), reverse=True)
    passed_over: set[int] = set()
    found: list[tuple[int, bytes]] = []
    for batch in batches:
        while waiting and waiting[-1][0] <= batch.last_offset:
            passed_over.add(waiting.pop()[1])
        if batch.is_commit is False:
            passed_over.discard(batch.producer_id)
        elif batch.is_commit is None and not (
            batch.is_transactional and batch.producer_id in passed_over
        ):
            found += batch.records
    return found


@dataclass(slots=True)
class Settled:
    """What the markers of a whole log say: `records` are committed, the producers `open`."""

    records: list[tuple[int, bytes]] = field(default_factory=list)
    open: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    @staticmethod
    def of(batches: Iterable[Batch]) -> Settled:
        """Go through a log from its start."""
        found = Settled()
        for batch in batches:
            if batch.is_commit is not None:
                ended = found.open.pop(batch.producer_id, [])
                found.records += ended if batch.is_commit else ()
            elif batch.is_transactional:
                found.open.setdefault(batch.producer_id, []).extend(batch.records)
            else:
                found.records += batch.records
        found.records.sort()
        return found
