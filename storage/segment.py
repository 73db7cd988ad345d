"""A segment: one log file and its two indexes under one base offset.

    00000000000000368769.log         batches whose offsets are >= 368769
    00000000000000368769.index       offset -> position, sparse
    00000000000000368769.timeindex   timestamp -> offset, sparse

To find an offset: the last index entry at or below it, then a walk over batch headers to the
batch that contains it. Each look-up checks what it finds. An entry that does not lead to a batch
that fits is a damaged index: it is reported once, flagged for rebuilding (`index_damage`), and
the walk starts at the beginning of the file instead. So a wrong index costs time and is never an
answer. A header that does not fit its neighbours is a damaged log: `DamagedLog`.

An append writes the batch first and its index entry, in memory, afterwards: an entry never points
past the data (design.md, I3). The segment remembers where the last few appended batches begin and
where the last few reads ended, so that a consumer that reads on needs no look-up at all.

What it does not do: checksums (recovery), rolling and retention (log), durability marks (log).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

from protocol.record_batch import HEADER_SIZE, MAGIC, BatchHeader, read_header
from protocol.records import offset_of_timestamp, read_records
from storage import filenames
from storage.errors import DamagedLog
from storage.filesystem import Buffer
from storage.log_file import LogFile, LogSlice
from storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from storage.open_files import OpenFiles
from storage.time_index import NO_TIMESTAMP, TimeIndex

LOOKUP_CHUNK_BYTES = 4096  # Kafka's index.interval.bytes default: what a look-up walks
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024  # of one batch, when a timestamp is looked for in it
HINTS_MAX = 16  # remembered positions of each kind
NOT_LOADED = -(2**63)

_log = logging.getLogger(__name__)


class TimestampOffset(NamedTuple):
    """A record found by its timestamp (ms); the epoch is its batch's leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int


class Segment:
    """One segment. `next_offset` is the offset after its last batch; -1 until it is known."""

    __slots__ = (
        "_appended", "_files", "_first_timestamp", "_max_timestamp", "_max_timestamp_offset",
        "_read_ends", "_unindexed_bytes", "base_offset", "created_ms", "directory", "index_damage",
        "index_interval_bytes", "log_file", "next_offset", "offset_index", "time_index",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        log_file: LogFile,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        *,
        index_interval_bytes: int,
        created_ms: int,
    ) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.log_file = log_file
        self.offset_index = offset_index
        self.time_index = time_index
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        self.index_damage = ""  # why the indexes must be rebuilt, if they must
        self.next_offset = base_offset if log_file.size == 0 else -1
        self._max_timestamp = NO_TIMESTAMP if log_file.size == 0 else NOT_LOADED
        self._max_timestamp_offset = base_offset
        self._first_timestamp = NOT_LOADED
        self._unindexed_bytes = 0
        self._appended: dict[int, int] = {}  # base offset of a batch -> its position
        self._read_ends: dict[int, int] = {}  # offset a read ended before -> the position

    @classmethod
    def open(
        cls,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        index_size_max: int,
        created_ms: int,
    ) -> Segment:
        """Return a segment whose log file has `size` bytes, touching no file."""
        log_path = os.path.join(directory, filenames.log_name(base_offset))
        index_path = os.path.join(directory, filenames.offset_index_name(base_offset))
        time_path = os.path.join(directory, filenames.time_index_name(base_offset))
        return cls(
            files,
            directory,
            base_offset,
            LogFile(files, log_path, size),
            OffsetIndex(files, index_path, base_offset, index_size_max),
            TimeIndex(files, time_path, base_offset, index_size_max),
            index_interval_bytes=index_interval_bytes,
            created_ms=created_ms,
        )

    @classmethod
    def create(
        cls,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        index_size_max: int,
        created_ms: int,
    ) -> Segment:
        """Make an empty segment. Index files left under its name are emptied.

        The caller syncs the directory before it acknowledges anything in the segment.
        """
        segment = cls.open(
            files,
            directory,
            base_offset,
            size=0,
            index_interval_bytes=index_interval_bytes,
            index_size_max=index_size_max,
            created_ms=created_ms,
        )
        segment.log_file.create()
        segment.offset_index.clear()
        segment.time_index.clear()
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.log_file.path}, size={self.size})"

    @property
    def size(self) -> int:
        """Bytes in the log file."""
        return self.log_file.size

    @property
    def is_index_full(self) -> bool:
        """Whether one of the indexes has no room for another entry: roll."""
        return self.offset_index.is_full or self.time_index.is_full

    def fits(self, last_offset: int) -> bool:
        """Whether an offset can be indexed here: relative to the base it takes 31 bits."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    # Appending.

    def append(self, buffer: Buffer, header: BatchHeader, base_offset: int | None = None) -> int:
        """Write one stamped batch at the end and return its position.

        `header` is the batch's; `base_offset`, if given, stands for the one in it, so that the
        caller need not make a new header after stamping. Raises AppendFailed.
        """
        position = self.log_file.append(buffer)
        if base_offset is None:
            base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        if header.max_timestamp > self._max_timestamp:
            self._raise_max_timestamp(header.max_timestamp, last_offset, position)
        if self._unindexed_bytes > self.index_interval_bytes:
            self._index(last_offset, position)
        self._unindexed_bytes += len(buffer)
        self.next_offset = last_offset + 1
        appended = self._appended
        if len(appended) >= HINTS_MAX:
            appended.clear()
        appended[base_offset] = position
        return position

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """Take a batch that is in the file already into the indexes and marks.

        For recovery, which walks the file after `truncate_indexes`.
        """
        last_offset = header.last_offset
        if header.max_timestamp > self._max_timestamp:
            self._raise_max_timestamp(header.max_timestamp, last_offset, position)
        if self._unindexed_bytes > self.index_interval_bytes:
            self._index(last_offset, position)
        self._unindexed_bytes += header.size
        self.next_offset = last_offset + 1

    def _index(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        self._unindexed_bytes = 0

    def _raise_max_timestamp(self, timestamp: int, last_offset: int, end_position: int) -> None:
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(end_position)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = last_offset

    # Finding.

    def position_of(
        self, offset: int, end_position: int | None = None
    ) -> tuple[int, BatchHeader] | None:
        """Return (position, header) of the batch that holds `offset`, or of the next one.

        The next one, because compaction leaves gaps. None if every batch before `end_position`
        (default: the end of the file) is below the offset. May block. Raises DamagedLog.
        """
        end = self.log_file.size if end_position is None else end_position
        position = self._appended.get(offset)
        if position is None:
            position = self._read_ends.get(offset)
        if position is not None:
            if position >= end:
                return None
            if position + HEADER_SIZE <= end:
                header = read_header(self.log_file.read(position, HEADER_SIZE))
                if header.base_offset == offset and self._is_sound(position, header, end):
                    return position, header
            # A gap, or damage: look properly.
        entry = self.offset_index.lookup(offset)
        if entry is None:
            return self._walk(0, end, offset)
        if self._leads_to_batch(entry):
            return self._walk(entry[1], end, offset) if entry[1] < end else None
        found = self._walk(0, end, offset)  # raises if it is the log that is damaged
        self._report_index(f"the offset index leads to no batch at entry {entry}")
        return found

    def _walk(self, position: int, end: int, offset: int) -> tuple[int, BatchHeader] | None:
        """Walk to the first batch that ends at or behind `offset`.

        When that batch begins behind the offset, the one after it is looked at as well: only if
        it lies behind does the first one's offset stand for a gap and not for damage.
        """
        behind = None
        for at, header in self._scan(position, end):
            if behind is not None:
                return behind
            if header.base_offset + header.last_offset_delta >= offset:
                if header.base_offset <= offset:
                    return at, header
                behind = at, header
        return behind

    def _scan(
        self, position: int, end: int, offset_min: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        return self.log_file.scan(
            position,
            end,
            offset_min=self.base_offset if offset_min is None else offset_min,
            offset_end=self.next_offset if self.next_offset >= 0 else None,
            chunk_bytes=LOOKUP_CHUNK_BYTES,
        )

    def _is_sound(self, position: int, header: BatchHeader, end: int) -> bool:
        """Whether a header, by itself, may be that of a batch of this segment."""
        return (
            header.magic == MAGIC
            and header.size >= HEADER_SIZE
            and position + header.size <= end
            and header.last_offset_delta >= 0
            and header.base_offset >= self.base_offset
            and (self.next_offset < 0 or header.last_offset < self.next_offset)
        )

    def _leads_to_batch(self, entry: tuple[int, int]) -> bool:
        """Whether an offset index entry points at a batch that its offset fits.

        Equality is not asked for: for several batches appended at once older Kafkas made one
        entry, of the last offset and the first position.
        """
        offset, position = entry
        size = self.log_file.size
        if not 0 <= position <= size - HEADER_SIZE:
            return False
        header = read_header(self.log_file.read(position, HEADER_SIZE))
        return self._is_sound(position, header, size) and header.last_offset <= offset

    def _report_index(self, reason: str) -> None:
        if not self.index_damage:
            self.index_damage = reason
            _log.warning(
                "Found a corrupted index file corresponding to log file %s due to %s, wanted "
                "entries that fit its batches; answers come from the log until it is rebuilt",
                self.log_file.path,
                reason,
            )

    def read_next_offset(self) -> int:
        """Return the offset after the last batch, and remember it as `next_offset`.

        Walks from the last index entry to the end of the file. Raises DamagedLog if that end is
        no whole batch.
        """
        self.next_offset = -1  # not to be held against what the walk finds
        entry = self.offset_index.last_entry
        start = entry[1] if entry is not None and self._leads_to_batch(entry) else 0
        next_offset = self.base_offset
        for _, header in self._scan(start, self.log_file.size):
            next_offset = header.next_offset
        self.next_offset = next_offset
        return next_offset

    # Reading.

    def read(
        self,
        start_offset: int,
        size_max: int,
        position_end: int | None = None,
        *,
        at_least_one_batch: bool = True,
        offset_end: int | None = None,
    ) -> LogSlice | None:
        """Return whole batches from the one that holds `start_offset` on, at most `size_max` bytes.

        The first batch may begin before `start_offset`: readers skip records, as Kafka's
        clients do. With `at_least_one_batch` the first one is returned even if larger (KIP-74).
        Nothing from `position_end` on is returned; it is a batch's end (default: the file's),
        and `offset_end`, if given, the offset there: a reader that comes back with it is spared
        the look-up. None: nothing there yet, or nothing that fits. Raises DamagedLog.
        """
        end = self.log_file.size if position_end is None else position_end
        found = self.position_of(start_offset, end)
        if found is None:
            return None
        position, header = found
        if end - position <= size_max:
            size = end - position
            if offset_end is not None:
                self._remember_end(offset_end, end)
        elif header.size >= size_max:
            size = header.size
            if size > size_max and not at_least_one_batch:
                return None
            self._remember_end(header.next_offset, position + size)
        else:
            size = self._whole_batches_end(position, header, position + size_max) - position
        return self.log_file.slice(position, size)

    def _whole_batches_end(self, position: int, first: BatchHeader, limit: int) -> int:
        """Return the last batch end at or before `limit`, at least that of the first batch.

        Where the log is damaged before that, the slice ends there, and the next read says so.
        """
        start = position + first.size
        entry = self.offset_index.lookup_position(limit)
        if entry is not None and entry[1] > start and self._leads_to_batch(entry):
            start = entry[1]
        end = start
        try:
            for at, header in self._scan(start, self.log_file.size, first.next_offset):
                end = at + header.size
                if end > limit:
                    self._remember_end(header.base_offset, at)
                    return at
        except DamagedLog as damage:
            return damage.position
        return end

    def _remember_end(self, offset: int, position: int) -> None:
        ends = self._read_ends
        if len(ends) >= HINTS_MAX:
            ends.clear()
        ends[offset] = position

    # Timestamps.

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, ms; -1 if no batch has one. May walk the log."""
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(self.log_file.size)
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the largest timestamp."""
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(self.log_file.size)
        return self._max_timestamp_offset

    @property
    def first_timestamp(self) -> int | None:
        """The largest timestamp of the first batch; None while empty.

        A segment's age counts from it for rolling (Kafka: LogSegment.rollingBasedTimestamp).
        """
        if self._first_timestamp == NOT_LOADED:
            header = self.log_file.read_header_at(0)
            if header is None:
                return None
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def _load_max_timestamp(self, end: int) -> None:
        """Take the largest timestamp before `end` from the time index, if the log agrees.

        The index's last entry must stand for its batch, and no batch behind the last entry of
        the offset index may have a larger timestamp; otherwise the whole log is walked, so that
        a damaged time index never drives retention.
        """
        best = (NO_TIMESTAMP, self.base_offset)
        start = 0
        entry = self.time_index.last_entry
        if entry is not None and self._is_timestamp_of(entry):
            best = entry
            last = self.offset_index.last_entry
            if last is not None and last[1] < end and self._leads_to_batch(last):
                start = last[1]
        found = self._walk_timestamps(start, end, best)
        if start > 0 and found != best:
            found = self._walk_timestamps(0, end, (NO_TIMESTAMP, self.base_offset))
        self._max_timestamp, self._max_timestamp_offset = found

    def _walk_timestamps(self, start: int, end: int, best: tuple[int, int]) -> tuple[int, int]:
        try:
            for _, header in self.log_file.scan(start, end, offset_min=self.base_offset):
                if header.max_timestamp > best[0]:
                    best = header.max_timestamp, header.last_offset
        except DamagedLog as damage:
            _log.warning("Largest timestamp known only in part: %s", damage)
        return best

    def _is_timestamp_of(self, entry: tuple[int, int]) -> bool:
        """Whether the batch that holds a time index entry's offset has its timestamp."""
        timestamp, offset = entry
        if offset < self.base_offset or 0 <= self.next_offset <= offset:
            return False
        found = self.position_of(offset)
        return (
            found is not None
            and found[1].base_offset <= offset
            and found[1].max_timestamp == timestamp
        )

    def offset_for_timestamp(
        self, timestamp: int, start_offset: int = 0, end_position: int | None = None
    ) -> TimestampOffset | None:
        """Return the first record at or behind `start_offset` with a timestamp >= `timestamp`.

        None if no batch before `end_position` has one. May block, and opens one batch. Raises
        DamagedLog, and record errors for a batch that cannot be opened.
        """
        end = self.log_file.size if end_position is None else end_position
        start = max(start_offset, self.base_offset)
        entry = self.time_index.lookup_entry(timestamp)
        if entry is not None:
            if self._is_timestamp_of(entry):
                start = max(start, entry[1])
            else:
                self._report_index(f"the time index entry {entry} is not that of its batch")
        found = self.position_of(start, end)
        if found is None:
            return None
        for position, header in self._scan(found[0], end):
            if header.max_timestamp >= timestamp:
                result = self._in_batch(position, header, timestamp, start_offset)
                if result is not None:
                    return result
        return None

    def _in_batch(
        self, position: int, header: BatchHeader, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        batch = self.log_file.read(position, header.size)
        found = offset_of_timestamp(batch, 0, timestamp, DECOMPRESSED_BYTES_MAX)
        if found is not None and found[0] < start_offset:  # the log begins inside this batch
            found = None
            for record in read_records(batch, 0, size_max=DECOMPRESSED_BYTES_MAX):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    found = record.offset, record.timestamp
                    break
        if found is None:
            return None
        return TimestampOffset(found[1], found[0], header.leader_epoch)

    # Keeping.

    def on_roll(self) -> None:
        """Make the time index's last entry say the segment's largest timestamp, and write both.

        For a segment that takes no more appends, and for closing.
        """
        if self.max_timestamp != NO_TIMESTAMP:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()

    def write_indexes(self) -> None:
        """Write the index entries that only memory holds. OSError leaves them in memory."""
        self.offset_index.write_tail()
        self.time_index.write_tail()

    def sync_indexes(self) -> None:
        """Make the written index entries durable. Blocks; for a thread of the pool."""
        self.offset_index.sync()
        self.time_index.sync()

    def sanity_check(self) -> str | None:
        """Say what is wrong with the index files at first sight, or None."""
        if reason := self.offset_index.sanity_check(self.log_file.size):
            return f"{os.path.basename(self.offset_index.path)}: {reason}"
        if reason := self.time_index.sanity_check():
            return f"{os.path.basename(self.time_index.path)}: {reason}"
        return None

    def rebuild_indexes(self) -> DamagedLog | None:
        """Build both indexes again from the log, and write them. May walk the whole file.

        Returns the damage at which the walk ended, if any: batches before it are indexed.
        """
        self.truncate_indexes(self.base_offset)
        self.next_offset = self.base_offset if self.next_offset < 0 else self.next_offset
        next_offset, damage = self.next_offset, None
        try:
            for position, header in self.log_file.scan(offset_min=self.base_offset):
                self.note_batch(position, header)
        except DamagedLog as error:
            damage = error
        self.next_offset = max(next_offset, self.next_offset)
        self.index_damage = ""
        self.on_roll()
        return damage

    def truncate_indexes(self, offset: int) -> None:
        """Drop index entries of batches that do not lie wholly below `offset`."""
        if offset <= self.base_offset:
            self.offset_index.clear()
            self.time_index.clear()
            self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        else:
            self.offset_index.truncate_to(offset)
            self.time_index.truncate_to(offset)
            self._max_timestamp = NOT_LOADED
        self._unindexed_bytes = 0
        self._forget_positions()

    def _forget_positions(self) -> None:
        self._appended.clear()
        self._read_ends.clear()

    def truncate(self, position: int, next_offset: int) -> int:
        """Cut everything from `position`, a batch's start, on; return how many bytes went.

        `next_offset` is the offset that the segment then ends before. The indexes go first, so
        that no entry ever points past the data. Raises OSError.
        """
        cut_bytes = self.log_file.size - position
        self.truncate_indexes(next_offset)
        self.log_file.truncate(position)
        self.next_offset = next_offset
        self._first_timestamp = NOT_LOADED
        return cut_bytes

    def files(self) -> list[str]:
        """Paths of the log file and its indexes, whether they exist or not."""
        return [self.log_file.path, self.offset_index.path, self.time_index.path]

    def rename_deleted(self) -> list[str]:
        """Rename the files with `.deleted` behind, the log first; return the new paths.

        Slices that were handed out go on. A crash in between leaves an index without a log,
        which the next start removes.
        """
        filesystem = self._files.filesystem
        transactions = os.path.join(
            self.directory, filenames.transaction_index_name(self.base_offset)
        )
        renamed = []
        for path in [*self.files(), transactions]:
            if filesystem.exists(path):
                self._files.rename(path, filenames.deleted(path))
                renamed.append(filenames.deleted(path))
        self.log_file.path = filenames.deleted(self.log_file.path)
        self.offset_index.path = filenames.deleted(self.offset_index.path)
        self.time_index.path = filenames.deleted(self.time_index.path)
        return renamed

    def forget_files(self) -> None:
        """Let go of descriptors and maps; they come back at the next use."""
        for path in self.files():
            self._files.forget(path)
