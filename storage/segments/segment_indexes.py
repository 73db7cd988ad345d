"""The two indexes of a segment as one: look-ups that survive a bad index, and entries when due.

    offset   offset -> position      both get an entry before a batch when more than
    time     timestamp -> offset     index.interval.bytes were appended since the last entry

Indexes are caches. One that cannot be read, or with an entry that does not match its batch, is
reported once and flagged for rebuilding (`damage`). Until then answers come from the log. An index
that finds no descriptor to be opened with is as good as before: it is asked again next time.
`storage.segments.batch_lookup` checks whether entries match their batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage.files.filesystem import File
from storage.files.open_files import OpenFiles
from storage.files.room import NO_DESCRIPTOR
from storage.segments.log_file import LogFile
from storage.segments.offset_index import OffsetIndex
from storage.segments.time_index import TimeIndex

Entry = tuple[int, int]

_log = logging.getLogger("barnabas.storage")


class SegmentIndexes:
    """The indexes of the segment whose batches are in `log_file`."""

    __slots__ = (
        "_files",
        "_log_file",
        "damage",
        "interval_bytes",
        "offset",
        "time",
        "unindexed_bytes",
    )

    def __init__(
        self,
        files: OpenFiles,
        log_file: LogFile,
        offset: OffsetIndex,
        time: TimeIndex,
        interval_bytes: int,
    ) -> None:
        self._files = files
        self._log_file = log_file
        self.offset = offset
        self.time = time
        self.interval_bytes = interval_bytes
        self.unindexed_bytes = 0  # in batches since the last entry
        self.damage = ""  # why both must be rebuilt, if they must

    def twin(self) -> SegmentIndexes:
        """Return other objects for the same files, for a thread to look up in."""
        offset, time = self.offset.twin(), self.time.twin()
        return SegmentIndexes(self._files, self._log_file, offset, time, self.interval_bytes)

    # -- Look-ups -----------------------------------------------------------------------------

    def lookup(self, offset: int) -> Entry | None:
        """Return (offset, position) of the last entry with an offset <= `offset`, or None."""
        return self._ask(self.offset.lookup, offset)

    def lookup_behind(self, offset: int) -> Entry | None:
        """Return (offset, position) of the first entry with an offset >= `offset`, or None."""
        return self._ask(self.offset.lookup_behind, offset)

    def lookup_position(self, position: int) -> Entry | None:
        """Return (offset, position) of the last entry with a position <= `position`, or None."""
        return self._ask(self.offset.lookup_position, position)

    def lookup_timestamp(self, timestamp: int) -> Entry | None:
        """Return (timestamp, offset) of the last entry with a timestamp <= `timestamp`, or None."""
        return self._ask(self.time.lookup, timestamp)

    def last_offset_entry(self) -> Entry | None:
        """Return (offset, position) of the newest entry of the offset index, or None."""
        return self._ask(lambda _: self.offset.last_entry, 0)

    def last_time_entry(self) -> Entry | None:
        """Return (timestamp, offset) of the newest entry of the time index, or None."""
        return self._ask(lambda _: self.time.last_entry, 0)

    def _ask(self, lookup: Callable[[int], Entry | None], target: int) -> Entry | None:
        """Look something up; an index that cannot be read is treated as empty."""
        try:
            return lookup(target)
        except OSError as error:
            self._report_unreadable(error)
            return None

    def _report_unreadable(self, error: OSError) -> None:
        if error.errno not in NO_DESCRIPTOR:
            self.report(f"an index that cannot be read: {error}")

    def report(self, reason: str) -> None:
        """Flag both indexes for rebuilding, and log why, once."""
        if not self.damage:
            self.damage = reason
            _log.warning(
                "Found a corrupted index file corresponding to log file %(file)s due to"
                " %(reason)s, expected entries that fit its batches; answers come from the log"
                " until it is rebuilt",
                {"file": self._log_file.path, "reason": reason},
            )

    # -- Filling ------------------------------------------------------------------------------

    @property
    def is_given_up(self) -> bool:
        """Whether an index could not be read: an append must not wait for the disk to try again.

        It gets no entries then. It will be rebuilt, and answers come from the log.
        """
        return bool(self.damage) and not (self.offset.is_loaded and self.time.is_loaded)

    @property
    def is_full(self) -> bool:
        """Whether one of the indexes has no room for the entry of a batch that needs one."""
        if self.is_given_up:
            return False
        try:
            return self.offset.is_full or self.time.is_full
        except OSError as error:
            self._report_unreadable(error)
            return False

    def add(self, last_offset: int, position: int, max_timestamp: int, its_offset: int) -> None:
        """Add the entries that are due for the batch at `position`, in memory.

        The largest timestamp (ms) is that of the segment so far, `its_offset` the last offset of
        the batch that has it.
        """
        try:
            if not self.is_given_up:
                self.offset.append(last_offset, position)
                self.time.maybe_append(max_timestamp, its_offset)
        except OSError as error:  # the batch is in the log even so
            self._report_unreadable(error)
        self.unindexed_bytes = 0

    def clear(self) -> None:
        """Drop all entries. Makes the files if they are missing. Raises OSError."""
        self.offset.clear()
        self.time.clear()
        self.unindexed_bytes = 0

    def begin_anew(self) -> None:
        """Drop all entries from memory, to build both indexes again; ends with `replace`."""
        self.offset.begin_anew()
        self.time.begin_anew()
        self.unindexed_bytes = 0

    def replace(self) -> None:
        """Replace both files by the entries added since `begin_anew`. Blocks. Raises OSError.

        The offset index comes last: a start takes its file as a sign that both are there.
        """
        self.time.replace()
        self.offset.replace()
        self.damage = ""

    def truncate_to(self, offset: int) -> None:
        """Drop the entries of batches that do not lie wholly below `offset`. Raises OSError."""
        self.offset.truncate_to(offset)
        self.time.truncate_to(offset)
        self.drop_zeros()
        self.unindexed_bytes = 0

    def drop_zeros(self) -> None:
        """Cut the zeros behind the entries of both, which a power cut or a killed Kafka leaves."""
        self.offset.drop_zeros()
        self.time.drop_zeros()

    # -- Keeping ------------------------------------------------------------------------------

    def write(self) -> list[File]:
        """Write the entries that only memory holds. OSError leaves them in memory.

        Returns the index files that must be synced (`sync`, or file by file in a thread of the
        pool) before anything may rely on them.
        """
        self.offset.write_tail()
        self.time.write_tail()
        files = (self._files.peek(self.offset.path), self._files.peek(self.time.path))
        return [file for file in files if file is not None and file.dirty]

    def write_again(self, path: str, content: bytes) -> None:
        """Have the next `write` write one of the files wholly, if it is the one at `path`."""
        for index in (self.offset, self.time):
            if index.path == path:
                index.write_again(content)

    def note_written(self) -> None:
        """Have the next checkpoint sync both files. Raises OSError.

        A process that was killed has written them, too, and not synced: its entries are still in
        the page cache, and a power cut after the recovery point has passed them would lose them.
        """
        for index in (self.offset, self.time):
            self._files.get_to_write(index.path)

    def sync(self) -> None:
        """Make the written entries durable. Blocks; for a thread of the pool."""
        self.offset.sync()
        self.time.sync()
