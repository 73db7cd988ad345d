"""A segment: one log file and its two indexes under one base offset.

    00000000000000368769.log         batches whose offsets are >= 368769
    00000000000000368769.index       offset -> position, sparse
    00000000000000368769.timeindex   timestamp -> offset, sparse

An append writes the batch first and its index entry, in memory, afterwards: an entry never points
past the data (design.md, I3). Finding and reading are in `storage.segments.segment_reader`: no
index is believed there, so that a missing or wrong one costs time and never an answer.

The largest timestamp comes from the time index if the log agrees with it, else from the log.

What it does not do: checksums (recovery), rolling and retention (log), durability marks (log).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial

from protocol.record_batch import LOG_OVERHEAD, BatchHeader
from storage.errors import DamagedLog
from storage.files import filenames
from storage.files.filesystem import Buffer, File
from storage.files.open_files import OpenFiles
from storage.segments.log_file import LogFile
from storage.segments.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from storage.segments.segment_reader import HINTS_MAX, SegmentReader
from storage.segments.time_index import NO_TIMESTAMP, TimeIndex
from storage.segments.timestamp_lookup import TimestampCandidate

NOT_LOADED = -(2**63)

_log = logging.getLogger("barnabas.storage")


class Segment(SegmentReader):
    """One segment: made, appended to, truncated, deleted. Touches no file when it is opened."""

    __slots__ = (
        "_files", "_first_timestamp", "_max_timestamp", "_max_timestamp_offset",
        "_unindexed_bytes", "created_ms", "directory", "index_interval_bytes",
    )  # fmt: skip

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        size: int,
        index_interval_bytes: int,
        index_size_max: int,
        created_ms: int,
    ) -> None:
        log_path = os.path.join(directory, filenames.log_name(base_offset))
        index_path = os.path.join(directory, filenames.offset_index_name(base_offset))
        time_path = os.path.join(directory, filenames.time_index_name(base_offset))
        super().__init__(
            base_offset,
            LogFile(files, log_path, size),
            OffsetIndex(files, index_path, base_offset, index_size_max),
            TimeIndex(files, time_path, base_offset, index_size_max),
        )
        self._files = files
        self.directory = directory
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        self._max_timestamp = NO_TIMESTAMP if size == 0 else NOT_LOADED
        self._max_timestamp_offset = base_offset
        self._first_timestamp = NOT_LOADED
        self._unindexed_bytes = 0

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
        return cls(
            files,
            directory,
            base_offset,
            size=size,
            index_interval_bytes=index_interval_bytes,
            index_size_max=index_size_max,
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
        """Make an empty segment: three empty files; index files left by a crash are emptied.

        The caller syncs the directory before it acknowledges anything in the segment. Raises
        OSError, FileExistsError for a log file that holds bytes already.
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

    @property
    def is_index_full(self) -> bool:
        """Whether the next batch wants an entry and one of the indexes has no room for it: roll."""
        if self._unindexed_bytes <= self.index_interval_bytes:
            return False
        try:
            return self.offset_index.is_full or self.time_index.is_full
        except OSError as error:
            self._report_index(f"an index that cannot be read: {error}")
            return False

    def fits(self, last_offset: int) -> bool:
        """Whether an offset can be indexed here: relative to the base it takes 31 bits."""
        return last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    # Appending.

    def load_end(self) -> None:
        """Read what an append or a roll goes by, so that neither reads. Raises LogFailed, Cold."""
        _ = self.max_timestamp, self.first_timestamp
        for index in (self.offset_index, self.time_index):
            self._ask_index(lambda _, index=index: index.last_entry, 0)  # type: ignore[misc]

    def append(self, buffer: Buffer, header: BatchHeader, base_offset: int | None = None) -> int:
        """Write one stamped batch at the end and return its position.

        `header` is the batch's; `base_offset`, if given, stands for the one in it, so that the
        caller need not make a new header after stamping. Raises AppendFailed.
        """
        if self._max_timestamp == NOT_LOADED:  # before the write: it may fail
            self._load_max_timestamp(self.log_file.size)
        position = self.log_file.append(buffer)
        if not position:
            self._first_timestamp = header.max_timestamp
        if base_offset is None:
            base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        self._account(position, len(buffer), last_offset, header.max_timestamp)
        appended = self._appended
        if len(appended) >= HINTS_MAX:
            appended.clear()
        appended[base_offset] = position
        return position

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """Take a batch that is in the file already into the indexes and marks.

        For recovery, which walks the file after `truncate_indexes`.
        """
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(position)
        self._account(position, header.size, header.last_offset, header.max_timestamp)

    def note_run(self, position: int, headers: Sequence[BatchHeader]) -> None:
        """As `note_batch`, for batches that lie one behind the other from `position` on."""
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(position)
        interval = self.index_interval_bytes
        for header in headers:
            base_offset, length, _, _, _, _, delta, _, max_timestamp, _, _, _, _ = header
            if self._unindexed_bytes > interval or max_timestamp > self._max_timestamp:
                self._account(position, length + LOG_OVERHEAD, base_offset + delta, max_timestamp)
            else:
                self._unindexed_bytes += length + LOG_OVERHEAD
            position += length + LOG_OVERHEAD
        self.next_offset = headers[-1].next_offset

    def _account(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Follow a batch with the marks, and with an index entry when one is due."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._unindexed_bytes > self.index_interval_bytes:
            try:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            except OSError as error:  # the batch is in the log all the same
                self._report_index(f"an index that cannot be read: {error}")
            self._unindexed_bytes = 0
        self._unindexed_bytes += size
        self.next_offset = last_offset + 1

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
        entry = self._last_entry(self.time_index)
        if entry is not None and self._is_timestamp_of(entry):
            best = entry
            last = self._last_entry(self.offset_index)
            if last is not None and last[1] < end and self._leads_to_batch(last):
                start = last[1]
        found = self._walk_timestamps(start, end, best)
        if start > 0 and found != best:
            found = self._walk_timestamps(0, end, best)
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
        try:
            found = self.position_of(offset)
        except DamagedLog:
            return False
        return (
            found is not None
            and found[1].base_offset <= offset
            and found[1].max_timestamp == timestamp
        )

    def timestamp_candidates(
        self, timestamp: int, start_offset: int = 0, end_position: int | None = None
    ) -> Iterator[TimestampCandidate]:
        """Yield the part that may hold the first record with that timestamp or later, if any.

        Only records at or behind `start_offset` count, and batches before `end_position`. May
        block a little: it reads headers. Raises DamagedLog.
        """
        end = self.log_file.size if end_position is None else end_position
        start = max(start_offset, self.base_offset)
        entry = self._ask_index(self.time_index.lookup_entry, timestamp)
        if entry is not None:
            if self._is_timestamp_of(entry):
                start = max(start, entry[1])
            else:
                self._report_index(f"the time index entry {entry} is not that of its batch")
        found = self.position_of(start, end)
        if found is not None:
            batches = partial(self._scan, end=end)
            yield TimestampCandidate(self.log_file, found[0], batches, timestamp, start_offset)

    # Keeping.

    def on_roll(self) -> None:
        """Make the time index's last entry say the segment's largest timestamp, and write both.

        For a segment that takes no more appends, and for closing. Raises OSError, and LogFailed
        if the log cannot be read: then only the index lacks its last entry.
        """
        if self.max_timestamp != NO_TIMESTAMP:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.write_indexes()

    def write_indexes(self) -> list[File]:
        """Write the index entries that only memory holds. OSError leaves them in memory.

        Returns the index files that must be synced (`sync_indexes`, or file by file in a thread
        of the pool) before anything may rely on them.
        """
        self.offset_index.write_tail()
        self.time_index.write_tail()
        files = (self._files.peek(self.offset_index.path), self._files.peek(self.time_index.path))
        return [file for file in files if file is not None and file.dirty]

    def sync_indexes(self) -> None:
        """Make the written index entries durable. Blocks; for a thread of the pool."""
        self.offset_index.sync()
        self.time_index.sync()

    def rebuild_indexes(self) -> DamagedLog | None:
        """Build both indexes again from the log, and write them. May walk the whole file.

        Returns the damage at which the walk ended, if any: batches before it are indexed.
        """
        self.truncate_indexes(self.base_offset)
        next_offset, damage = self.next_offset, None
        try:
            for position, header in self.log_file.scan(offset_min=self.base_offset):
                self.note_batch(position, header)
        except DamagedLog as error:
            damage = error
        if damage is not None or next_offset >= 0:
            self.next_offset = next_offset  # what stands before damage may be wrong, too
        elif self.next_offset < 0:
            self.next_offset = self.base_offset
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
            self.offset_index.drop_zeros()
            self.time_index.drop_zeros()
            self._max_timestamp = NOT_LOADED
        self._unindexed_bytes = 0
        self._forget_positions()

    def _forget_positions(self) -> None:
        self._appended.clear()
        self._read_ends.clear()
        self._found = None

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
        """Rename the files with `.deleted` behind, the log first; return the paths they have now.

        Raises OSError, with nothing changed, if the log keeps its name. An index may: it is of no
        use any more. Slices that were handed out go on. A crash in between leaves an index without
        a log, which the next start removes.
        """
        paths: list[str] = []
        for path in self.existing_files():
            try:
                self._files.rename(path, filenames.deleted(path))
            except OSError:
                if not paths:
                    raise
                paths.append(path)
            else:
                paths.append(filenames.deleted(path))
        self.note_deleted()
        return paths

    def existing_files(self) -> list[str]:
        """Paths of the files that there are, the log first, the list of aborts with them."""
        transactions = os.path.join(
            self.directory, filenames.transaction_index_name(self.base_offset)
        )
        exists = self._files.filesystem.exists
        return [path for path in (*self.files(), transactions) if exists(path)]

    def note_deleted(self) -> None:
        """Go on under the `.deleted` names, which the files have got."""
        for part in (self.log_file, self.offset_index, self.time_index):
            part.path = filenames.deleted(part.path)

    def note_moved(self, directory: str) -> None:
        """Go on under the name that the directory gets, also before it has it."""
        self.directory = directory
        for part in (self.log_file, self.offset_index, self.time_index):
            part.path = os.path.join(directory, os.path.basename(part.path))

    def forget_files(self) -> None:
        """Let go of descriptors and maps; they come back at the next use."""
        self.log_file.forget()
        for path in self.files()[1:]:
            self._files.forget(path)
