"""Transactions of a log in files: which were aborted, and where the first open one begins.

A broker keeps this beside the log: each segment's `.txnindex` lists transactions whose abort marker
is in it, and a `.snapshot` the producers as they were at an offset, with those whose transaction
was open. Both are written when a segment is rolled and at a stop. So what is older than the newest
snapshot comes from these files, as Kafka takes it from them, and what is newer from the batches
themselves, which a crash leaves without either. Without a snapshot all batches are looked at.

    .txnindex   34 bytes an entry: int16 0 | int64 producer id | int64 first offset |
                int64 last offset, the marker's | int64 last stable offset
    .snapshot   int16 1 | uint32 CRC-32C of what follows | int32 count | 46 bytes each, see
                docs/storage-format.md; the last field is the first offset of an open transaction

`find_transactions` reads them. `CommittedOnly` tells batches apart while they are read, and notices
an abort marker of a transaction that no list has: then the files do not belong together.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from pyspark_barnabas.source.segments import PartitionLog, Piece
from pyspark_barnabas.wire.batches import (
    CONTROL,
    TRANSACTIONAL,
    Batch,
    Buffer,
    Visibility,
    is_abort_marker,
)
from pyspark_barnabas.wire.errors import CorruptBatch, DamagedLog

TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
_SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
assert TRANSACTION_ENTRY.size == 34
assert _SNAPSHOT_ENTRY.size == 46
_CRC_END = 6  # the CRC covers what is behind it
_SNAPSHOT_VERSION = 1
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Aborted:
    """One aborted transaction: its first offset, its abort marker's, and its producer."""

    first_offset: int
    last_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class Transactions:
    """Those of one log that a reader of what is committed must know."""

    aborted: tuple[Aborted, ...]
    first_open: int | None  # the first offset of the transactions that have not ended

    def within(self, start: int, end: int | None) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of the aborted ones with records in a range."""
        return [
            (one.producer_id, one.first_offset)
            for one in self.aborted
            if one.last_offset >= start and (end is None or one.first_offset < end)
        ]


def find_transactions(
    log: PartitionLog, walk_from: Callable[[int], Iterator[Piece]], end_offset: int
) -> Transactions:
    """Read what there is beside the log, and the batches behind the newest snapshot.

    `walk_from` gives the batches from an offset on. Raises DamagedLog for an index that is none.
    """
    aborted = {
        one for segment in log.segments for one in read_transaction_index(segment.path, end_offset)
    }
    since, open_at = _newest_snapshot(log.path, end_offset)
    for piece in walk_from(since):
        for batch in piece.batches:
            if batch.base_offset < since or batch.producer_id < 0:
                continue
            if batch.is_control:
                first = open_at.pop(batch.producer_id, None)
                if first is not None and _aborts(piece, batch):
                    aborted.add(Aborted(first, batch.base_offset, batch.producer_id))
            elif batch.is_transactional:
                open_at.setdefault(batch.producer_id, batch.base_offset)
    return Transactions(tuple(sorted(aborted)), min(open_at.values(), default=None))


def _aborts(piece: Piece, batch: Batch) -> bool:
    try:
        return is_abort_marker(piece.data, batch)
    except CorruptBatch:
        return False  # who reads the records says so


def read_transaction_index(log_path: str, end_offset: int) -> list[Aborted]:
    """Return the aborted transactions that the `.txnindex` beside a `.log` lists; no file, none."""
    head, _, tail = log_path.rpartition(".log")
    path = f"{head}.txnindex{tail}"
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return []
    try:
        return [one for one, _ in aborted_in(data) if one.last_offset < end_offset]
    except ValueError as error:
        raise DamagedLog(
            f"{path}: {error} is no aborted transaction. Restore the file, or read without "
            "kafka.isolation.level=read_committed: then records of aborted ones are seen too"
        ) from None


def aborted_in(data: bytes) -> Iterator[tuple[Aborted, int]]:
    """Yield the whole entries of a `.txnindex`, each with its last stable offset.

    Bytes behind them are one on its way. Raises ValueError, which tells an entry that cannot be.
    """
    whole = data[: len(data) - len(data) % TRANSACTION_ENTRY.size]
    for version, producer, first, last, stable in TRANSACTION_ENTRY.iter_unpack(whole):
        if version != 0 or producer < 0 or not 0 <= first <= last:
            raise ValueError(f"version {version}, producer {producer}, offsets {first} to {last}")
        yield Aborted(first, last, producer), stable


def _newest_snapshot(directory: str, end_offset: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the newest snapshot that is one, and its open transactions."""
    offsets = [
        int(match[1]) for name in os.listdir(directory) if (match := _SNAPSHOT.fullmatch(name))
    ]
    for offset in sorted(offsets, reverse=True):
        if offset > end_offset:
            continue
        found = read_snapshot(os.path.join(directory, f"{offset:020d}.snapshot"))
        if found is not None:
            return offset, found
    return 0, {}


def read_snapshot(path: str) -> dict[int, int] | None:
    """Return producer id -> first offset of its open transaction; None if it is no snapshot."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < _SNAPSHOT_HEAD.size:
        return None
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    size = _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size
    is_whole = version == _SNAPSHOT_VERSION and len(data) == size
    if not is_whole or crc32c.crc32c(memoryview(data)[_CRC_END:]) != crc:
        return None
    entries = _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEAD.size :])
    return {entry[0]: entry[-1] for entry in entries if entry[-1] >= 0}


class CommittedOnly(Visibility):
    """A Visibility that notices an abort marker whose transaction was read as if committed."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        super().__init__(aborted)
        self._given: set[int] = set()  # producers whose records were given out, not yet committed

    def sees(self, data: Buffer, batch: Batch) -> bool:
        """Whether the records of `batch` are for the reader. Raises DamagedLog."""
        if not batch.attributes & (TRANSACTIONAL | CONTROL):
            return True
        seen = super().sees(data, batch)
        if seen and batch.is_transactional:
            self._given.add(batch.producer_id)
        elif batch.is_control and batch.producer_id in self._given:
            self._given.discard(batch.producer_id)
            if is_abort_marker(data, batch):
                raise DamagedLog(
                    f"offset {batch.base_offset} aborts a transaction of producer "
                    f"{batch.producer_id} that no .txnindex lists: a file is missing. Restore it, "
                    "or read without kafka.isolation.level=read_committed"
                )
        return seen
