"""One segment's `.log` walked from end to end: sizes, checksums, offsets, epochs, its indexes.

The fields that no checksum covers (base offset, length, magic; for the leader epoch see
`verify_epochs`) are compared with their neighbours: offsets must increase. The next batch shows
whether an unexpected base offset is wrong or follows a gap. Gaps are not damage in a compacted log,
and whether it is one may only be known at its end: `LogState.holes` collects them until then.

After damage the walk continues at the next entry whose checksum is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from client.files.batches import Entry, LogBytes, next_entry_behind, read_entry
from client.files.findings import TAIL, Report
from client.files.verify_epochs import EpochCheck
from client.files.verify_index import IndexCheck
from client.files.verify_transactions import TransactionCheck
from protocol.record_errors import CorruptBatch, RecordError

Progress = Callable[[int], None]


@dataclass(slots=True)
class LogState:
    """The state of the walk over one log, passed from segment to segment."""

    report: Report
    epochs: EpochCheck
    transactions: TransactionCheck
    open_records: bool = False
    progress: Progress = lambda _count: None
    is_compacted: bool = False
    end_offset: int = -1  # the next offset; -1 before the first batch
    holes: list[tuple[str, int, int, int]] = field(default_factory=list)  # path, position, from, to


class SegmentCheck:
    """The walk over one `.log` file."""

    def __init__(
        self,
        state: LogState,
        path: str,
        source: LogBytes,
        base_offset: int,
        *,
        next_base: int | None,
        index: IndexCheck,
        may_grow: bool,
    ) -> None:
        self._state = state
        self._report = state.report
        self._path = path
        self._source = source
        self._base = base_offset
        self._next_base = next_base
        self._index = index
        self._may_grow = may_grow
        self._broken: tuple[int, str, str] | None = None  # position, kind, reason: not reported yet

    def run(self) -> None:
        """Walk the file. Raises OSError."""
        source, state = self._source, self._state
        if state.end_offset < self._base:
            state.end_offset = self._base
        position = told = 0
        while position < source.size:
            position = self._step(position)
            if position - told >= 1 << 20:
                state.progress(position - told)
                told = position
        state.progress(source.size - told)
        self._tell_broken(source.size, self._next_base)
        self._index.finish(source.size)
        self._report.size_bytes += source.size

    def _step(self, position: int) -> int:
        """Check the entry at `position`; return where to continue."""
        try:
            entry = read_entry(self._source, position)
        except CorruptBatch as error:
            return self._step_over(position, error.reason)
        damage = entry.damage()
        if damage:
            self._note_broken(position, "checksum", damage)
            behind = position + entry.size
            if behind == self._source.size or self._is_sound(behind):
                return behind
            return self._search(position + 1)
        self._take(entry)
        return position + entry.size

    def _step_over(self, position: int, reason: str) -> int:
        zeros = self._source.zeros_behind(position)
        if zeros:
            self._tell_broken(position, None)
            if not self._may_grow:
                self._damage(
                    "zeros", position, f"{zeros} bytes of zeros to the end of the file",
                    "space that was allocated and never written, as after a power failure: what "
                    "should have been written there is lost",
                    remedy=TAIL,
                )  # fmt: skip
            return self._source.size
        self._note_broken(position, "structure", reason)
        return self._search(position + 1)

    def _search(self, position: int) -> int:
        found = next_entry_behind(self._source, position, max(0, self._state.end_offset))
        return self._source.size if found is None else found

    def _is_sound(self, position: int) -> bool:
        try:
            entry = read_entry(self._source, position)
        except CorruptBatch:
            return False
        return not entry.damage()

    def _note_broken(self, position: int, kind: str, reason: str) -> None:
        if self._broken is None:
            self._broken = (position, kind, reason)

    def _tell_broken(self, position_end: int, next_offset: int | None) -> None:
        """Report damage, now that its end is known."""
        if self._broken is None:
            return
        position, kind, reason = self._broken
        self._broken = None
        self._state.transactions.lose_track()
        start = self._state.end_offset
        size = position_end - position
        if next_offset is None:
            if self._may_grow and kind == "structure":
                return  # a batch that is being written
            at_end = position_end == self._source.size
            self._index.skip(position, position_end, start, 1 << 63)
            self._damage(
                "torn" if at_end and kind == "structure" else kind, position,
                f"{reason} ({size} bytes to the end of the file)",
                f"the records from offset {start} on cannot be read",
                remedy=TAIL,
            )  # fmt: skip
            return
        end = max(start, next_offset)
        self._index.skip(position, position_end, start, end)
        self._damage(
            kind, position, f"{reason} ({size} bytes, then the log continues)",
            f"the records at offsets {start} to {end - 1} cannot be read" if end > start else
            "the log contains bytes that belong to no batch",
        )  # fmt: skip
        self._state.end_offset = end

    def _damage(self, kind: str, position: int, found: str, meaning: str, **more: Any) -> None:
        self._report.damage(
            kind, self._path, found, meaning,
            position=position, offset=self._state.end_offset, **more,
        )  # fmt: skip

    def _take(self, entry: Entry) -> None:
        """Check the offset, the epoch and the index entries of an entry with a right checksum."""
        state = self._state
        first, is_whole = self._first_offset(entry)
        self._tell_broken(entry.position, first)
        wanted = state.end_offset
        count = entry.last_offset - first + 1
        state.end_offset = entry.last_offset + 1
        is_misnumbered = first != wanted and self._is_lone_wrong_offset(entry, first, wanted, count)
        if first != wanted and not is_misnumbered:
            if first < wanted:
                self._damage_at(
                    entry, "order", f"base offset {first}, expected at least {wanted}",
                    "offsets must increase: this file, or a part of it, is not the one that was "
                    "written here",
                )  # fmt: skip
            elif is_whole:
                state.holes.append((self._path, entry.position, wanted, first))
        header = entry.header
        if header is not None:
            offset = wanted if is_misnumbered else max(first, wanted)
            state.epochs.see(self._path, entry, offset)
            state.transactions.see(self._path, entry)
            if header.record_count != header.last_offset_delta + 1:
                state.is_compacted = True
        if not is_misnumbered:  # else its index entries were skipped: its own offset is wrong
            self._index.see(entry)
        self._report.batch_count += 1
        if state.open_records:
            self._open(entry)

    def _first_offset(self, entry: Entry) -> tuple[int, bool]:
        """Return the first offset of an entry; False if it cannot be determined."""
        if entry.message is None or not entry.codec:
            return entry.base_offset, True
        try:
            return entry.messages()[0].offset, True
        except RecordError as error:
            self._damage("records", entry.position, str(error), "its messages cannot be read")
            return entry.base_offset, False

    def _is_lone_wrong_offset(self, entry: Entry, first: int, wanted: int, count: int) -> bool:
        """Whether everything but this entry's base offset fits, so that only it is wrong."""
        behind = self._source.take(entry.position + entry.size, 8)
        after = int.from_bytes(behind, "big") if len(behind) == 8 else self._next_base
        if after is None or after != wanted + count:
            return False
        self._damage_at(
            entry, "order",
            f"base offset {first}, expected {wanted}; the batch after it has {after}",
            f"the records at offsets {wanted} to {after - 1} exist, but have wrong offsets",
        )  # fmt: skip
        self._state.end_offset = after
        self._index.skip(entry.position, entry.position + entry.size, wanted, after)
        return True

    def _damage_at(self, entry: Entry, kind: str, found: str, meaning: str) -> None:
        self._report.damage(
            kind, self._path, found, meaning, position=entry.position, offset=entry.base_offset
        )

    def _open(self, entry: Entry) -> None:
        """Open every record: the checksum is right even for records that a producer made wrong."""
        previous, newest = entry.base_offset - 1, -1
        try:
            for record in entry.records():
                self._report.record_count += 1
                if not previous < record.offset <= entry.last_offset and entry.magic == 2:
                    raise CorruptBatch(entry.position, f"a record at offset {record.offset}")
                previous = record.offset
                newest = max(newest, record.timestamp)
            if entry.message is not None and not all(one.is_valid for one in entry.messages()):
                raise CorruptBatch(entry.position, "an inner message's checksum is wrong")
        except RecordError as error:
            self._damage_at(
                entry, "records", f"the batch cannot be opened: {error}",
                "its bytes are as the producer sent them, but no consumer can read offsets "
                f"{entry.base_offset} to {entry.last_offset}",
            )  # fmt: skip
            return
        if entry.header is not None and newest >= 0 and newest != entry.max_timestamp:
            self._damage_at(
                entry, "records",
                f"the header's largest timestamp is {entry.max_timestamp}, the records' {newest}",
                "look-ups and retention by time use the header",
            )  # fmt: skip
