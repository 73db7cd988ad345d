"""A segment: one log file and its indexes under one base offset.

    00000000000000368769.log         batches whose offsets are >= 368769
    00000000000000368769.index       offset -> position, sparse
    00000000000000368769.timeindex   timestamp -> offset, sparse
    00000000000000368769.txnindex    the transactions whose abort markers it holds, if any

An append writes the batch first, and its index entry, in memory, afterwards: an entry never points
past the data (design.md, I3). The parts have modules of their own: `batch_lookup` finds batches and
`segment_reader` reads them, `segment_indexes` asks and fills the indexes, `segment_files` knows the
names, and `largest_timestamp` loads what retention and look-ups by time need.

Checksums are checked by recovery; rolling, retention and durability are the log's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial

from protocol.record_batch import LOG_OVERHEAD, BatchHeader
from storage.errors import DamagedLog
from storage.files import filenames
from storage.files.filesystem import Buffer
from storage.files.open_files import OpenFiles
from storage.segments.abort_index import AbortIndex
from storage.segments.batch_lookup import HINTS_MAX
from storage.segments.cold import may_wait
from storage.segments.largest_timestamp import (
    ColdTimestamp,
    batch_of_timestamp,
    largest_timestamp,
)
from storage.segments.log_file import LogFile
from storage.segments.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from storage.segments.segment_files import SegmentFiles
from storage.segments.segment_indexes import SegmentIndexes
from storage.segments.segment_reader import SegmentReader
from storage.segments.time_index import NO_TIMESTAMP, TimeIndex
from storage.segments.timestamp_lookup import TimestampCandidate

NOT_LOADED = -(2**63)

_log = logging.getLogger("barnabas.storage")


class Segment(SegmentReader):
    """One segment, to append to, truncate and index. Making the object touches no file."""

    __slots__ = (
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "aborts",
        "created_ms",
        "files",
        "last_offset_max",
    )

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
        aborts_path = os.path.join(directory, filenames.transaction_index_name(base_offset))
        log_file = LogFile(files, log_path, size)
        offset_index = OffsetIndex(files, index_path, base_offset, index_size_max)
        time_index = TimeIndex(files, time_path, base_offset, index_size_max)
        indexes = SegmentIndexes(files, log_file, offset_index, time_index, index_interval_bytes)
        super().__init__(base_offset, log_file, indexes)
        self.aborts = AbortIndex(files, aborts_path)
        self.files = SegmentFiles(files, directory, log_file, offset_index, time_index, self.aborts)
        self.created_ms = created_ms
        self.last_offset_max = base_offset + RELATIVE_OFFSET_MAX  # that the indexes can hold
        self._max_timestamp = NO_TIMESTAMP if size == 0 else NOT_LOADED
        self._max_timestamp_offset = base_offset
        self._first_timestamp = NOT_LOADED

    # Appending.

    def load_end(self) -> None:
        """Read what the first append or roll would otherwise read. Raises LogFailed, Cold."""
        _ = self.max_timestamp, self.first_timestamp
        self.indexes.last_offset_entry()
        self.indexes.last_time_entry()

    def append(self, buffer: Buffer, header: BatchHeader, base_offset: int | None = None) -> int:
        """Write one stamped batch at the end and return its position.

        `header` is the batch's. `base_offset`, if given, replaces the one in the header, so that
        the caller need not parse the batch again after stamping it. Raises AppendFailed.
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
        """Account for a batch that is already in the file: index entries, timestamps, end.

        For recovery, which walks the file after `truncate_indexes`.
        """
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(position)
        self._account(position, header.size, header.last_offset, header.max_timestamp)

    def note_run(self, position: int, headers: Sequence[BatchHeader]) -> None:
        """As `note_batch`, for consecutive batches from `position` on."""
        if self._max_timestamp == NOT_LOADED:
            self._load_max_timestamp(position)
        indexes = self.indexes
        interval = indexes.interval_bytes
        for header in headers:
            base_offset, length, _, _, _, _, delta, _, max_timestamp, _, _, _, _ = header
            if indexes.unindexed_bytes > interval or max_timestamp > self._max_timestamp:
                self._account(position, length + LOG_OVERHEAD, base_offset + delta, max_timestamp)
            else:
                indexes.unindexed_bytes += length + LOG_OVERHEAD
            position += length + LOG_OVERHEAD
        self.next_offset = headers[-1].next_offset

    def _account(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Advance timestamps and end past a batch; add an index entry when one is due."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        indexes = self.indexes
        if indexes.unindexed_bytes > indexes.interval_bytes:
            indexes.add(last_offset, position, self._max_timestamp, self._max_timestamp_offset)
        indexes.unindexed_bytes += size
        self.next_offset = last_offset + 1

    # Timestamps.

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, ms; -1 if no batch has one. May walk the log. Raises Cold."""
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
        if not may_wait(self):
            raise ColdTimestamp(self, end, self._set_max_timestamp)
        self._set_max_timestamp(*largest_timestamp(self, end))

    def _set_max_timestamp(self, timestamp: int, offset: int) -> None:
        if self._max_timestamp == NOT_LOADED:
            self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def timestamp_candidates(
        self, timestamp: int, start_offset: int = 0, end_position: int | None = None
    ) -> Iterator[TimestampCandidate]:
        """Yield the range that may hold the first record with that timestamp (ms) or later, if any.

        Only records from `start_offset` on count, and batches before `end_position`. May block: it
        reads headers. Raises DamagedLog.
        """
        end = self.log_file.size if end_position is None else end_position
        start = max(start_offset, self.base_offset)
        entry = self.indexes.lookup_timestamp(timestamp)
        if entry is not None:
            if batch_of_timestamp(self, entry) is not None:
                start = max(start, entry[1])
            else:
                self.indexes.report(f"the time index entry {entry} is not that of its batch")
        found = self.position_of(start, end)
        if found is not None:
            batches = partial(self._scan, end=end)
            yield TimestampCandidate(self.log_file, found[0], batches, timestamp, start_offset)

    # Keeping.

    def on_roll(self) -> None:
        """Add the segment's largest timestamp to the time index, and write both indexes.

        For a roll and a clean stop. Raises OSError, and LogFailed if the log cannot be read: only
        the last entry of the time index is missing then.
        """
        self._end_time_index()
        self.indexes.write()

    def _end_time_index(self) -> None:
        if self.max_timestamp != NO_TIMESTAMP and not self.indexes.is_given_up:
            self.indexes.time.maybe_append(self.max_timestamp, self.max_timestamp_offset)

    def rebuild_indexes(self) -> DamagedLog | None:
        """Rebuild both indexes from the log, and replace their files. May walk the whole log file.

        Blocks. A crash leaves whole files, old or new: indexes that lack entries would look as if
        they had all. Returns the damage that ended the walk, if any; the batches before it are
        indexed. Raises OSError.
        """
        self.indexes.begin_anew()
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._forget_positions()
        next_offset, damage = self.next_offset, None
        try:
            for position, header in self.log_file.scan(offset_min=self.base_offset):
                self.note_batch(position, header)
        except DamagedLog as error:
            damage = error
        if damage is not None or next_offset >= 0:
            self.next_offset = next_offset  # the batch before the damage may be wrong too
        elif self.next_offset < 0:
            self.next_offset = self.base_offset
        self._end_time_index()
        self.indexes.replace()
        return damage

    def take_aborts(self, other: Segment) -> None:
        """Take over the list of aborted transactions of another object for the same files."""
        self.aborts = other.aborts
        self.files.use_aborts(other.aborts)

    def truncate_indexes(self, offset: int) -> None:
        """Drop the index entries of batches that are not wholly below `offset`."""
        if offset <= self.base_offset:
            self.indexes.clear()
            self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        else:
            self.indexes.truncate_to(offset)
            self._max_timestamp = NOT_LOADED
        self._forget_positions()

    def _forget_positions(self) -> None:
        self._appended.clear()
        self._read_ends.clear()
        self._last_end = (-1, -1)
        self._found = None
