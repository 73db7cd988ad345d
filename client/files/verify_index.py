"""An offset index and a time index, compared with the log while the log is walked.

Both indexes are read before the log, so that those of a running broker never point past the part of
the log that is read. The walk passes every entry of the log once, in order (`see`). An index entry
is right if

    .index      a batch begins at its position, and ends at its offset
    .timeindex  its offset is the last of a batch whose largest timestamp it has, or, as Kafka
                wrote before 3.7, that of the first record in the batch with that timestamp; and
                no earlier batch has a larger one

Entries that no batch has matched at the end are wrong. Neither file has a checksum, so there is
nothing else to check.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from client.files.batches import Entry
from client.files.dump import OFFSET_ENTRY, TIME_ENTRY, index_entries
from client.files.findings import Report
from protocol.record_errors import RecordError
from storage.files import filenames
from storage.files.filesystem import FileSystem

_MEANING: Final = {
    filenames.OFFSET_INDEX: "look-ups by offset are slow or scan from the wrong place; "
    "they are checked against the log, so no record is at risk",
    filenames.TIME_INDEX: "look-ups by time may be slow, and retention by time may be late",
}
INDEX, TIME_INDEX = "index", "timeindex"
EMPTY_BYTES_MAX: Final = 1 << 16  # of log without any entry: 16 times the usual interval
TAIL_BYTES_MAX: Final = 1 << 20  # of log after the last entry: 256 times the usual interval


class IndexCheck:
    """The two indexes of one segment. `is_required`: both files must exist and be complete."""

    def __init__(
        self,
        report: Report,
        filesystem: FileSystem,
        log_path: str,
        base_offset: int,
        *,
        is_required: bool,
    ) -> None:
        self._report = report
        self._filesystem = filesystem
        self._base = base_offset
        self._is_required = is_required
        stem = log_path[: -len(filenames.LOG)]
        self._offset_path = stem + filenames.OFFSET_INDEX
        self._time_path = stem + filenames.TIME_INDEX
        offsets = self._read(self._offset_path, OFFSET_ENTRY)
        times = self._read(self._time_path, TIME_ENTRY)
        self.is_missing = offsets is None or times is None
        self._offset_count = len(offsets or ())
        self._time_count = len(times or ())
        self._offsets = {position: base_offset + relative for relative, position in offsets or ()}
        self._times = [(base_offset + relative, timestamp) for timestamp, relative in times or ()]
        self._check_order(offsets or [], self._offset_path)
        self._check_order(times or [], self._time_path)
        self._next_time = 0
        self._wrong_times: list[tuple[int, int, str]] = []
        self._max_timestamp = -1
        self._last_indexed = self._last_position = 0
        self._skipped: list[tuple[int, int, int, int]] = []

    def _read(self, path: str, entry: object) -> list[tuple[int, ...]] | None:
        """Return the entries; None if the file is missing."""
        shape = OFFSET_ENTRY if entry is OFFSET_ENTRY else TIME_ENTRY
        kind = INDEX if shape is OFFSET_ENTRY else TIME_INDEX
        try:
            data = self._filesystem.read(path)
        except FileNotFoundError:
            return None
        size = len(data)
        found = index_entries(data, shape)
        self._report.file_count += 1
        rest = size % shape.size
        if rest:
            self._cache(kind, path, f"{size} bytes, which is not a multiple of {shape.size}")
        zeros = size // shape.size - len(found)
        if zeros and self._is_required:
            self._cache(kind, path, f"{zeros} entries of zeros at the end")
        return found

    def _cache(self, kind: str, path: str, found: str, **where: Any) -> None:
        self._report.cache(kind, path, found, _MEANING[kind], **where)

    def _check_order(self, found: list[tuple[int, ...]], path: str) -> None:
        kind = INDEX if path == self._offset_path else TIME_INDEX
        strict = 0 if kind == TIME_INDEX else 1  # offsets of time entries may repeat
        for number, (before, after) in enumerate(pairwise(found), 1):
            columns = (before[0] < after[0], before[1] < after[1] + (1 - strict))
            if not all(columns):
                where = number * (OFFSET_ENTRY.size if strict else TIME_ENTRY.size)
                self._cache(kind, path, f"entry {after} follows {before}", position=where)
                return

    def check_presence(self, log_size: int) -> None:
        """Report a missing file, if both must exist."""
        if not self._is_required or not log_size:
            return
        for path, kind in ((self._offset_path, INDEX), (self._time_path, TIME_INDEX)):
            if not self._filesystem.exists(path):
                self._cache(kind, path, "the file is missing")

    def see(self, entry: Entry) -> None:
        """Compare what the indexes say about an entry of the log with that entry."""
        self._last_position = entry.position
        wanted = self._offsets.pop(entry.position, None)
        if wanted is not None:
            self._last_indexed = entry.position
        if wanted is not None and wanted not in _offsets_of(entry):
            self._cache(
                INDEX, self._offset_path,
                f"says the batch at position {entry.position} ends at offset {wanted}, "
                f"but it ends at {entry.last_offset}",
                offset=wanted,
            )  # fmt: skip
        while self._next_time < len(self._times):
            offset, timestamp = self._times[self._next_time]
            if offset > entry.last_offset:
                break
            self._next_time += 1
            wrong = self._judge(entry, offset, timestamp)
            if wrong and not self._is_skipped(offset):
                self._wrong_times.append((offset, timestamp, wrong))
        self._max_timestamp = max(self._max_timestamp, entry.max_timestamp)

    def _judge(self, entry: Entry, offset: int, timestamp: int) -> str:
        if offset < entry.base_offset and entry.magic == 2:
            return "no batch contains that offset"
        if timestamp < self._max_timestamp:
            return f"a batch before it has {self._max_timestamp}"
        if timestamp == entry.max_timestamp and offset == entry.last_offset:
            return ""
        try:
            for record in () if entry.timestamp_type == "LogAppendTime" else entry.records():
                if record.timestamp == entry.max_timestamp:  # the first of them
                    if (record.offset, record.timestamp) == (offset, timestamp):
                        return ""
                    break
        except RecordError:
            return ""  # the batch cannot be opened
        return (
            f"the batch there ends at offset {entry.last_offset} "
            f"and has {entry.max_timestamp} as its largest"
        )

    def skip(self, position: int, position_end: int, offset: int, offset_end: int) -> None:
        """Do not check entries that point to these bytes or offsets: the log is damaged there."""
        self._skipped.append((position, position_end, offset, offset_end))
        for at in [at for at in self._offsets if position <= at < position_end]:
            del self._offsets[at]

    def _is_skipped(self, offset: int) -> bool:
        return any(start <= offset < end for _, _, start, end in self._skipped)

    def finish(self, log_size: int) -> None:
        """Report entries that no batch has matched, and entries that are missing."""
        if self._offsets:
            position, offset = next(iter(self._offsets.items()))
            where = "past the end of the log" if position >= log_size else "where no batch begins"
            self._cache(
                INDEX, self._offset_path,
                f"{len(self._offsets)} of {self._offset_count} entries point nowhere; the first, "
                f"offset {offset}, to position {position}, {where}",
                offset=offset,
            )  # fmt: skip
        wrong = self._wrong_times + [
            (offset, timestamp, "the log ends before it")
            for offset, timestamp in self._times[self._next_time :]
            if not self._is_skipped(offset)
        ]
        if wrong:
            offset, timestamp, why = wrong[0]
            self._cache(
                TIME_INDEX, self._time_path,
                f"{len(wrong)} of {self._time_count} entries are wrong; the first says offset "
                f"{offset} has the largest timestamp so far, {timestamp}: {why}",
                offset=offset,
            )  # fmt: skip
        if self._is_required and not self.is_missing and not self._skipped:
            self._check_complete()

    def _check_complete(self) -> None:
        tail = self._last_position - self._last_indexed
        if tail > (TAIL_BYTES_MAX if self._offset_count else EMPTY_BYTES_MAX):
            self._cache(
                INDEX, self._offset_path,
                f"{self._offset_count} entries, and none for the last {tail} bytes of the log "
                "(healthy only if index.interval.bytes is larger than that)",
            )  # fmt: skip
        last = self._times[-1][1] if self._times else -1
        if last < self._max_timestamp:
            self._cache(
                TIME_INDEX, self._time_path,
                f"its last entry has timestamp {last}, but the segment's largest is "
                f"{self._max_timestamp}",
            )  # fmt: skip


def _offsets_of(entry: Entry) -> tuple[int, ...]:
    """The offsets by which an index may refer to an entry: before Kafka 0.11, also its first."""
    return (entry.last_offset,) if entry.magic == 2 else (entry.last_offset, entry.base_offset)
