"""Recovers a log after a crash, a power cut or a disk error.

    |<-- below the recovery point -->|<-- above -->|
    known durable; not read           every batch is checked, rewritten in place and fsynced

Batches are rewritten because Linux marks the pages of a failed fsync as clean. A recovery that only
read them would find good data that never reaches the disk. Rewritten in place, the pages are dirty
again, and the fsync at the end covers them.

Above the recovery point the first damaged batch ends the log: one with a wrong structure or CRC, or
with an offset that does not follow. What follows it was never acknowledged as durable, or the
checkpoint would have covered it. It is cut, and a copy is kept (`storage.opening.quarantine`). If
there is no space for the copy, nothing is cut, and the log is opened read-only up to that point.

If the disk does not read, rewrite or sync something, the log's end is unknown: acknowledged records
may be in what it holds back. Then recovery raises, and the log is not opened. Its partition is
offline until a later recovery succeeds.

Below the recovery point nothing is ever cut: damage there is bit rot of acknowledged records. Reads
of that place fail with `DamagedLog`; everything around it is served. If the damage hides the
recovery point, the next good batch above it is found by its CRC (`storage.opening.recovery_start`).
A log that ends below its recovery point lacks acknowledged records. It continues in a new segment
at the recovery point, so that no offset is assigned twice, and readers of the hole get an error.

In a compacted log a hole is legal where compaction has been (`Holes`). A pass compacts only what
lies below the recovery point that is in the checkpoint file by then, so a hole above it is the tail
of a segment that was lost while the next segment was kept: the log ends there.

A crash may interrupt each step: the next recovery finds the same work or less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from config.topic import TopicConfig
from protocol.legacy_batches import verify_any
from protocol.legacy_messages import MESSAGE_SIZE_MIN
from protocol.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    verified_run,
)
from protocol.record_errors import RecordError
from storage.errors import LogFailed
from storage.files.filenames import OFFSET_MAX
from storage.files.filesystem import File
from storage.files.room import NO_SPACE
from storage.home import Home
from storage.opening.index_repair import end_roll, truncate_indexes
from storage.opening.quarantine import Quarantine
from storage.opening.recovery_report import RecoveryReport
from storage.opening.recovery_start import breaks_row, find_start
from storage.opening.undone_write import cut_undone_write
from storage.segments.row import create_segment
from storage.segments.segment import Segment

CHUNK_BYTES = 1024 * 1024  # read, checked and rewritten at a time

Visit = Callable[[BatchHeader, memoryview], None]


class Holes(NamedTuple):
    """The offsets below which compaction may have left holes.

    `below`: in the log. `cleaned_offset`: up to here the log was compacted, as far as is known;
    the active segment was compacted only below it, before it became active again.
    """

    below: int
    cleaned_offset: int

    @classmethod
    def of(
        cls, *, may_have_holes: bool, cleaned_offset: int, recovery_point: int, has_checkpoint: bool
    ) -> Holes:
        """Return where holes are legal; `has_checkpoint`: whether the recovery point is known.

        If its file is lost, so is the bound.
        """
        if not may_have_holes:
            return cls(0, 0)
        below = max(cleaned_offset, recovery_point) if has_checkpoint else OFFSET_MAX
        return cls(below, cleaned_offset)

    def below_in(self, segment: Segment, *, is_active: bool) -> int:
        """Return the offset below which holes in a segment are legal."""
        if is_active:  # it takes appends: if it was compacted, that is known
            return min(self.below, max(segment.base_offset, self.cleaned_offset))
        return self.below


class _BadBatchError(Exception):
    """The first batch that cannot stay."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class _Recovery:
    """The recovery of one log. `segments` is changed in place."""

    def __init__(
        self,
        home: Home,
        segments: list[Segment],
        recovery_point: int,
        config: TopicConfig,
        holes: Holes,
        visit: Visit,
        report: RecoveryReport,
        now_ms: int,
    ) -> None:
        self.home = home
        self.segments = segments
        self.directory = segments[0].files.directory
        self.recovery_point = recovery_point
        self.config = config
        self.holes = holes
        self.holes_below_here = holes.below  # in the present segment
        self.visit = visit
        self.report = report
        self.now_ms = now_ms
        self.quarantine = Quarantine(home, self.directory, report, now_ms)
        self.next_offset = recovery_point
        self.epoch: int | None = None  # of the last batch that was visited
        self.to_sync: list[File] = []
        self.failed: LogFailed | None = None
        self.behind_damage: tuple[int, int] | None = None  # (last offset, position) of a batch

    # -- The walk -----------------------------------------------------------------------------

    def run(self) -> None:
        first = max(
            (i for i, s in enumerate(self.segments) if s.base_offset <= self.recovery_point),
            default=0,
        )
        if first and self.segments[first].base_offset == self.recovery_point:
            file = cut_undone_write(
                self.segments[first - 1],
                self.recovery_point,
                self.holes.below,
                self.quarantine,
                self.report,
            )
            self.to_sync += [] if file is None else [file]
            end_roll(self.segments[first - 1])
        index = first
        while index < len(self.segments):
            segment = self.segments[index]
            is_active = segment is self.segments[-1]
            self.holes_below_here = self.holes.below_in(segment, is_active=is_active)
            start: int | None = 0
            if index == first:
                start = self._find_start(segment)
            elif not self._step_to(index, segment):
                break
            try:
                if start is not None:
                    self._recover_segment(segment, start)
            except _BadBatchError as bad:
                self._cut(index, bad)
                break
            index += 1
        self._end_before_hole()
        self._begin_anew_if_short()
        for file in self.to_sync:
            file.fdatasync()
        self.home.filesystem.sync_directory(self.directory)

    def _step_to(self, index: int, segment: Segment) -> bool:
        """Step to the next segment; return False if the log ends before it."""
        end_roll(self.segments[index - 1])
        if segment.base_offset > self.next_offset >= max(self.recovery_point, self.holes.below):
            self._set_aside_behind(index)
            return False
        if segment.base_offset < self.next_offset:
            self.report.warnings.append(
                f"{segment.log_file.path} begins below {self.next_offset}, the offset at which the "
                "segment before it ends: both stay"
            )
        self.next_offset = segment.base_offset
        return True

    def _find_start(self, segment: Segment) -> int | None:
        """Return the position of the first batch above the recovery point; None if not found."""
        start = find_start(segment, self.recovery_point, self.holes_below_here, self.report)
        self.next_offset, self.behind_damage = start.next_offset, start.behind_damage
        return start.position

    def _recover_segment(self, segment: Segment, start: int) -> None:
        """Check, rewrite and index the batches from `start`, the position of a batch."""
        truncate_indexes(segment, self.next_offset if start else segment.base_offset)
        segment.next_offset = self.next_offset
        if self.behind_damage is not None:
            segment.indexes.offset.append(*self.behind_damage)  # the only way past the damage
            self.behind_damage = None
        if start == segment.size:
            return
        file = segment.log_file.file()
        self.to_sync.append(file)
        position = start
        while position < segment.size:
            position += self._recover_chunk(segment, file, position)

    def _recover_chunk(self, segment: Segment, file: File, position: int) -> int:
        """Recover the whole batches of one chunk; return their size. Raises _BadBatchError."""
        chunk = file.pread(min(CHUNK_BYTES, segment.size - position), position)
        batch_size = _announced_size(chunk)
        if len(chunk) < batch_size <= segment.size - position:
            chunk = file.pread(batch_size, position)
        view, reason = memoryview(chunk), ""
        at = self._accept_run(segment, position, view)
        while at + MESSAGE_SIZE_MIN <= len(view) and not reason:
            if at and at + _announced_size(view[at : at + HEADER_SIZE]) > len(view):
                break  # its rest is in the next chunk, or nowhere
            try:
                header = verify_any(view, at)
            except RecordError as error:
                reason = str(error)
                break
            reason = self._accept(segment, position + at, header, view[at : at + header.size])
            if not reason:
                at += header.size
        if at and not self.home.is_read_only:
            file.pwrite(view[:at], position)
            self.report.bytes_rewritten += at
        if reason or not at:
            raise _BadBatchError(
                position + at, reason or f"{len(view)} bytes, a header has {HEADER_SIZE}"
            )
        return at

    def _accept_run(self, segment: Segment, position: int, view: memoryview) -> int:
        """Accept the leading batches of `view` that a quick check finds good; return their size."""
        run = verified_run(view, 0, self.next_offset)
        if not run or run[-1].last_offset > segment.last_offset_max:
            return 0
        segment.note_run(position, run)
        epoch, at = self.epoch, 0
        for header in run:
            after = at + header.batch_length + LOG_OVERHEAD
            if header.producer_id >= 0 or header.leader_epoch != epoch:
                epoch = header.leader_epoch
                self.visit(header, view[at:after])
            at = after
        self.epoch = epoch
        self.next_offset = run[-1].next_offset
        self.report.batches_checked += len(run)
        return at

    def _accept(
        self, segment: Segment, position: int, header: BatchHeader, batch: memoryview
    ) -> str:
        """Accept a good batch if it follows the one before; otherwise return why it does not."""
        if header.last_offset > segment.last_offset_max:
            return f"last offset {header.last_offset} in a segment from {segment.base_offset}"
        if breaks_row(segment, position, header, self.next_offset, self.holes_below_here):
            return f"base offset {header.base_offset}, expected {self.next_offset}"
        segment.note_batch(position, header)
        self.visit(header, batch)
        self.next_offset = header.next_offset
        self.report.batches_checked += 1
        return ""

    def _begin_anew_if_short(self) -> None:
        """Continue at the recovery point if acknowledged records are missing before it."""
        if self.next_offset >= self.recovery_point or self.failed is not None:
            return
        self.report.warnings.append(
            f"{self.directory} ends at {self.next_offset}, below its recovery point "
            f"{self.recovery_point}: acknowledged records are missing or cannot be reached. "
            f"The log continues at {self.recovery_point}."
        )
        self.next_offset = self.recovery_point
        self.segments.append(
            create_segment(
                self.home.files, self.directory, self.recovery_point, self.config, self.now_ms
            )
        )

    # -- The cut ------------------------------------------------------------------------------

    def _cut(self, index: int, bad: _BadBatchError) -> None:
        """Cut the bad batch and everything after it."""
        segment = self.segments[index]
        self.report.damage = f"{segment.log_file.path} at byte offset {bad.position}: {bad.reason}"
        if self._set_aside(index + 1, segment, bad.position):
            try:
                file = self.quarantine.take_tail(segment, bad.position)
            except OSError as error:
                self._stay_read_only(segment, bad.position, error)
                return
            segment.next_offset = self.next_offset
            if file not in self.to_sync:
                self.to_sync.append(file)

    def _end_before_hole(self) -> None:
        """Cut empty segments after a hole; compaction leaves no hole at the end of a log."""
        while len(self.segments) > 1 and not self.segments[-1].size and self.failed is None:
            before, last = self.segments[-2:]
            if not self.recovery_point <= before.next_offset < last.base_offset:
                return
            self.next_offset = before.next_offset
            self._set_aside_behind(len(self.segments) - 1)

    def _set_aside_behind(self, index: int) -> None:
        """End the log with the segment before `index`, whose end is `next_offset`."""
        before, what = self.segments[index - 1], self.segments[index].log_file.path
        what += (
            f": the segment before it ends at offset {self.next_offset}, the rest was not synced"
        )
        self.report.damage = self.report.damage or what
        self._set_aside(index, before, before.size)

    def _set_aside(self, index: int, segment: Segment, position: int) -> bool:
        """Quarantine the segments from `index` on; return False if that failed."""
        later = self.segments[index:]
        del self.segments[index:]
        try:
            for other in later:
                self.quarantine.take_segment(other)
        except OSError as error:
            self._stay_read_only(segment, position, error)
            return False
        return True

    def _stay_read_only(self, segment: Segment, position: int, error: OSError) -> None:
        """Leave everything in place, and fail the log so that nothing is appended.

        Only a full disk does so: the end of the log is known. Raises any other error.
        """
        if error.errno not in NO_SPACE:
            raise error
        self.failed = LogFailed(
            segment.log_file.path,
            f"read-only: damaged from position {position} on, and the rest cannot be "
            f"quarantined: {error}. Free disk space, then restart the broker.",
        )
        segment.log_file.size = position
        segment.next_offset = self.next_offset


def recover(
    home: Home,
    segments: list[Segment],
    recovery_point: int,
    config: TopicConfig,
    holes: Holes,
    visit: Visit,
    report: RecoveryReport,
    now_ms: int,
) -> tuple[int, LogFailed | None]:
    """Recover a log after an unclean stop; segments may be removed from `segments`, or one added.

    `visit` is called with the batches above the recovery point that stay: with all that have a
    producer id, and at least with the first of each leader epoch. Returns the end offset, below
    which everything is durable, and the failure that makes the log read-only, if any.

    Raises OSError or LogFailed if the disk fails: the end of the log is not known then. Nothing is
    lost, and another recovery may follow at any time.
    """
    recovery = _Recovery(home, segments, recovery_point, config, holes, visit, report, now_ms)
    report.recovery_point = recovery_point
    try:
        recovery.run()
    finally:
        report.end_offset = recovery.next_offset
    return recovery.next_offset, recovery.failed


def _announced_size(data: bytes | memoryview) -> int:
    return int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD
