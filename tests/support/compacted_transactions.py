"""A compacted log with random transactions, and what readers of committed records see of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from protocol.control_records import read_marker
from protocol.record_batch import BatchHeader, batches
from protocol.records import read_records
from storage.log import Log
from tests.support.compacting import FIVE, keyed
from tests.support.log_house import NOW, House
from tests.support.log_transactions import end

PIDS = 4
Row = tuple[bytes, int, bytes | None]  # key, offset, value
Table = dict[bytes, tuple[int, bytes | None]]  # key -> newest committed offset and value


class Life:
    """A log with random transactions; `committed` is what readers of it must see."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.house = House()
        self.house.open()
        self.log = self.house.log(**FIVE)
        self.committed: Table = {}
        self.open: dict[int, list[Row]] = {}  # by producer id
        self.epochs = dict.fromkeys(range(PIDS), 0)
        self.sequences = dict.fromkeys(range(PIDS), 0)

    def step(self) -> None:
        """Append a batch, or end a transaction."""
        rng, pid = self.rng, self.rng.randrange(PIDS)
        what = rng.random()
        if what < 0.3 and pid in self.open:
            self.end(pid, commit=rng.random() < 0.5)
        else:
            self.append(pid if what < 0.8 else None)

    def append(self, pid: int | None) -> None:
        """Append a batch, of a transaction if there is a producer id."""
        rng = self.rng
        values = [None if rng.random() < 0.2 else b"%d" % rng.randrange(100) for _ in range(3)]
        pairs = [(b"%d" % rng.randrange(6), value) for value in values[: rng.randrange(1, 4)]]
        options: dict[str, Any] = {}
        if pid is not None:
            options = {"epoch": self.epochs[pid], "sequence": self.sequences[pid]}
            options |= {"pid": pid, "transactional": True}
            self.sequences[pid] += len(pairs)
        base = self.log.append(keyed(pairs, **options), NOW, 2).base_offset
        records = [(key, base + n, value) for n, (key, value) in enumerate(pairs)]
        if pid is None:
            self.commit(records)
        else:
            self.open.setdefault(pid, []).extend(records)

    def end(self, pid: int, *, commit: bool) -> None:
        """End a producer's transaction."""
        self.epochs[pid] += 1
        self.sequences[pid] = 0
        end(self.log, pid, commit=commit, epoch=self.epochs[pid])
        records = self.open.pop(pid)
        if commit:
            self.commit(records)

    def commit(self, records: list[Row]) -> None:
        """Note records that are committed."""
        _take(self.committed, records)


def live(table: Table) -> Table:
    """Leave out the keys that were deleted."""
    return {key: entry for key, entry in table.items() if entry[1] is not None}


def by_markers(log: Log) -> Table:
    """The table of a reader that knows nothing but the log's bytes."""
    table: Table = {}
    pending: dict[int, list[Row]] = {}
    for header, batch in _batches(log):
        records = _records(batch)
        if header.is_control:
            ended = pending.pop(header.producer_id, [])
            found = read_marker(batch)
            records = ended if found is not None and found.is_commit else []
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(records)
            continue
        _take(table, records)
    return table


def by_lists(log: Log) -> Table:
    """The table of a consumer: it reads to the last stable offset, and skips what is aborted."""
    table: Table = {}
    aborted = sorted((first, pid) for pid, first in log.aborted(0, log.last_stable_offset))
    skipped: set[int] = set()
    for header, batch in _batches(log):
        if header.base_offset >= log.last_stable_offset:
            break
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            _take(table, _records(batch))
    return table


def _batches(log: Log) -> Iterator[tuple[BatchHeader, memoryview]]:
    for segment in log.segments:
        whole = memoryview(segment.log_file.read(0, segment.size))
        for position, header in batches(whole):
            yield header, whole[position : position + header.size]


def _records(batch: memoryview) -> list[Row]:
    return [
        (one.key or b"", one.offset, one.value) for one in read_records(batch, size_max=1 << 20)
    ]


def _take(table: Table, records: list[Row]) -> None:
    for key, offset, value in records:
        if offset >= table.get(key, (-1, None))[0]:
            table[key] = (offset, value)
