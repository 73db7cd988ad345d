"""A segment's `.index` and `.timeindex` held against its log, while the log is walked.

Neither file has a checksum. An entry is right when

    .index      a batch begins at its position, and its last offset is the entry's
    .timeindex  its offset is the last of a batch whose largest timestamp is the entry's, or, as
                Kafka wrote before 3.7, that of the first record with this timestamp; and no batch
                before has a larger one

Both are read before the log, so that an index of a running broker never points behind what is then
read of it. `IndexCheck.see` is told of every batch in order, `skip` of what is damaged: no entry
that leads there is judged. Findings are of weight cache: the broker builds the files again.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from typing import Final

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.jobs.findings import Findings
from pyspark_barnabas.wire.batches import Batch
from pyspark_barnabas.wire.errors import CorruptBatch

OFFSET_ENTRY: Final = struct.Struct(">ii")  # offset from the base, position
TIME_ENTRY: Final = struct.Struct(">qi")  # timestamp, offset from the base
INDEX, TIME_INDEX = "index", "timeindex"
# How much of a log may have no entry: 16 and 256 times the usual index.interval.bytes.
EMPTY_BYTES_MAX: Final = 1 << 16
TAIL_BYTES_MAX: Final = 1 << 20

_MEANS: Final = {
    INDEX: "look-ups by offset are slow or begin at a wrong place; no record is at stake, because "
    "what is read is held against the log",
    TIME_INDEX: "look-ups by time may be slow, and retention by time late",
}


def beside(log_path: str, kind: str) -> str:
    """Return the path of a segment's other file: of `.log` and of `.log.swap` alike."""
    stem, _, transit = log_path.rpartition(".log")
    return f"{stem}.{kind}{transit}"


class IndexCheck:
    """The two indexes of one segment; `is_required`: both must be there, and complete."""

    def __init__(
        self, findings: Findings, log_path: str, base_offset: int, *, is_required: bool
    ) -> None:
        self._findings = findings
        self._is_required = is_required
        self._paths = {kind: beside(log_path, kind) for kind in (INDEX, TIME_INDEX)}
        self.file_count = 0
        offsets = self._read(INDEX, OFFSET_ENTRY)
        times = self._read(TIME_INDEX, TIME_ENTRY)
        self._are_there = offsets is not None and times is not None
        self._offset_count = len(offsets or ())
        self._positions = {position: base_offset + delta for delta, position in offsets or ()}
        self._times = [(base_offset + delta, timestamp) for timestamp, delta in times or ()]
        self._check_order(INDEX, OFFSET_ENTRY.size, offsets or [])
        self._check_order(TIME_INDEX, TIME_ENTRY.size, times or [])
        self._next_time = 0
        self._wrong_times: list[tuple[int, str]] = []
        self._max_timestamp = -1
        self._last_position = self._last_indexed = 0
        self._skipped: list[tuple[int, int]] = []  # offsets

    def _read(self, kind: str, entry: struct.Struct) -> list[tuple[int, ...]] | None:
        """Return the entries without the zeros of a preallocated end; None without a file."""
        try:
            with open(self._paths[kind], "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        self.file_count += 1
        rest = len(data) % entry.size
        if rest:
            self._tell(kind, f"{len(data)} bytes, which is no multiple of {entry.size}")
        data = data[: len(data) - rest]
        used = -(-len(data.rstrip(b"\0")) // entry.size) * entry.size
        zeros = (len(data) - used) // entry.size
        if zeros and self._is_required:
            self._tell(kind, f"{zeros} entries of zeros at the end")
        return list(entry.iter_unpack(data[:used]))

    def _tell(self, kind: str, found: str, **where: int) -> None:
        self._findings.cache(kind, self._paths[kind], found, _MEANS[kind], **where)

    def _check_order(self, kind: str, size: int, entries: list[tuple[int, ...]]) -> None:
        """Both columns of both files rise; only the offsets of time entries may stand still."""
        for number, (before, after) in enumerate(pairwise(entries), 1):
            second = before[1] < after[1] if kind == INDEX else before[1] <= after[1]
            if not (before[0] < after[0] and second):
                self._tell(kind, f"entry {after} follows {before}", position=number * size)
                return

    def see(self, data: bytes, batch: Batch, position: int) -> None:
        """Hold the entries of one batch against it; it stands at `position` of the file."""
        self._last_position = position
        wanted = self._positions.pop(position, None)
        if wanted is not None:
            self._last_indexed = position
            if wanted != batch.last_offset:
                self._tell(
                    INDEX, f"says the batch at position {position} ends at offset {wanted}, but it "
                    f"ends at {batch.last_offset}", offset=wanted,
                )  # fmt: skip
        while self._next_time < len(self._times):
            offset, timestamp = self._times[self._next_time]
            if offset > batch.last_offset:
                break
            self._next_time += 1
            wrong = self._judge(data, batch, offset, timestamp)
            if wrong and not self._is_skipped(offset):
                self._wrong_times.append((offset, f"{timestamp}: {wrong}"))
        self._max_timestamp = max(self._max_timestamp, batch.max_timestamp)

    def _judge(self, data: bytes, batch: Batch, offset: int, timestamp: int) -> str:
        """Say what is wrong with an entry of the time index; "" for nothing."""
        if offset < batch.base_offset:
            return "no batch holds that offset"
        if timestamp < self._max_timestamp:
            return f"a batch before it has {self._max_timestamp}"
        if timestamp == batch.max_timestamp:
            if offset == batch.last_offset:
                return ""
            if not batch.is_log_append_time and _first_newest(data, batch) in (offset, None):
                return ""
        return (
            f"the batch there ends at offset {batch.last_offset} and has {batch.max_timestamp} as "
            "its largest"
        )

    def skip(self, position: int, position_end: int, offset: int, offset_end: int) -> None:
        """Judge no entry that leads to these positions or offsets: the log is damaged there."""
        self._skipped.append((offset, offset_end))
        for at in [at for at in self._positions if position <= at < position_end]:
            del self._positions[at]

    def _is_skipped(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self._skipped)

    def finish(self, log_size: int) -> None:
        """Tell of what no batch has claimed, and of what is not there although it must be."""
        if self._positions:
            position, offset = next(iter(self._positions.items()))
            where = "behind the end of the log" if position >= log_size else "where no batch begins"
            self._tell(
                INDEX, f"{len(self._positions)} of {self._offset_count} entries lead nowhere: the "
                f"first, of offset {offset}, to position {position}, {where}", offset=offset,
            )  # fmt: skip
        wrong = self._wrong_times + [
            (offset, f"{timestamp}: the log ends before it")
            for offset, timestamp in self._times[self._next_time :]
            if not self._is_skipped(offset)
        ]
        if wrong:
            offset, why = wrong[0]
            self._tell(
                TIME_INDEX, f"{len(wrong)} of {len(self._times)} entries are wrong: the first says "
                f"that offset {offset} has the largest timestamp so far, {why}", offset=offset,
            )  # fmt: skip
        if self._is_required and log_size:
            self._check_complete()

    def _check_complete(self) -> None:
        for kind, path in self._paths.items():
            if not os.path.exists(path):
                self._tell(kind, "the file is missing")
        if self._skipped or not self._are_there:
            return
        tail = self._last_position - self._last_indexed
        if tail > (TAIL_BYTES_MAX if self._offset_count else EMPTY_BYTES_MAX):
            self._tell(
                INDEX, f"{self._offset_count} entries, and none for the last {tail} bytes of the "
                "log (healthy only where index.interval.bytes is larger)",
            )  # fmt: skip
        last = self._times[-1][1] if self._times else -1
        if last < self._max_timestamp:
            self._tell(
                TIME_INDEX, f"its last entry has timestamp {last}, but the segment's largest is "
                f"{self._max_timestamp}",
            )  # fmt: skip


def _first_newest(data: bytes, batch: Batch) -> int | None:
    """Return the offset of the first record with the batch's largest timestamp; None: unknown."""
    try:
        for table in Decoder(["offset", "timestamp"], "", 0).decode(data, [batch]):
            times = table["timestamp"].cast("int64").to_pylist()
            if batch.max_timestamp * 1000 in times:
                return int(table["offset"][times.index(batch.max_timestamp * 1000)].as_py())
    except CorruptBatch:
        return None
    return -1
