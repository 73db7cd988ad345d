"""What a crash, a power cut or a tired disk can leave in a log, and what is done about each.

    |<-- below the recovery point -->|<-- above -->|
    known durable; not looked at      every batch is checked, written again and fsynced

Why written again: after a failed fsync Linux forgets that the pages were dirty. A recovery that
only read them would see good data that never reaches the disk. Written again in place, they are
dirty again, and the fsync at the end tells the truth.

Above the recovery point the first batch that is damaged (structure, CRC, or an offset that does
not follow) ends the log. What stands from there on was never acknowledged as durable, or the
checkpoint would have covered it; a torn write looks like this. It is cut, never thrown away:

    pages of zeros at the end   (ext4 gives a file its size before its data)   cut
    anything else               copied to `<base>.log.<position>.<ms>.quarantine`, fsynced, then cut
    segments behind that        renamed to `<base>.log.0.<ms>.quarantine`
    no room for the copy        left in place; the log is opened read-only up to there

Below the recovery point nothing is ever cut: damage there is bit rot of acknowledged records. Reads
of that place fail (`DamagedLog`), everything around it stays. If it hides where the recovery
point is, the next good batch above it is searched for by its CRC. Where the log ends below its
recovery point, acknowledged records are missing: it goes on in a new segment at the
recovery point, so that no offset is given out twice, and readers of the hole are told so.

Each step may be interrupted: the next recovery finds the same or less to do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

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
from storage.files.filesystem import File
from storage.home import Home
from storage.opening.quarantine import Quarantine
from storage.opening.recovery_report import RecoveryReport
from storage.opening.recovery_start import breaks_row, find_start
from storage.segments.row import create_segment
from storage.segments.segment import Segment

CHUNK_BYTES = 1024 * 1024  # read, checked and written again at a time

Visit = Callable[[BatchHeader, memoryview], None]


class _BadBatchError(Exception):
    """The first batch that cannot stay."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class _Recovery:
    """One run over one log. `segments` is changed in place."""

    def __init__(
        self,
        home: Home,
        segments: list[Segment],
        recovery_point: int,
        config: TopicConfig,
        holes_below: int,
        visit: Visit,
        report: RecoveryReport,
        now_ms: int,
    ) -> None:
        self.home = home
        self.segments = segments
        self.directory = segments[0].files.directory
        self.recovery_point = recovery_point
        self.config = config
        self.holes_below = holes_below
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
            _end_roll(self.segments[first - 1])
        index = first
        while index < len(self.segments):
            segment = self.segments[index]
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
        """Go on with the next segment; whether there is one to go on with."""
        _end_roll(self.segments[index - 1])
        if segment.base_offset > self.next_offset >= max(self.recovery_point, self.holes_below):
            self._set_aside_behind(index)
            return False
        if segment.base_offset < self.next_offset:
            self.report.warnings.append(
                f"{segment.log_file.path} begins before the segment before it ends, "
                f"at {self.next_offset}: both stay"
            )
        self.next_offset = segment.base_offset
        return True

    def _find_start(self, segment: Segment) -> int | None:
        """Return the position where the batches above the recovery point begin, if it is known."""
        start = find_start(segment, self.recovery_point, self.holes_below, self.report)
        self.next_offset, self.behind_damage = start.next_offset, start.behind_damage
        return start.position

    def _recover_segment(self, segment: Segment, start: int) -> None:
        """Check, write again and index the batches from `start`, a batch's position, on."""
        segment.truncate_indexes(self.next_offset if start else segment.base_offset)
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
        """Go over the whole batches of one chunk; returns their size. Raises _BadBatchError."""
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
        """Take in the batches that `view` begins with, as long as nothing is odd; their size."""
        run = verified_run(view, 0, self.next_offset)
        if not run or not segment.fits(run[-1].last_offset):
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
        """Take an undamaged batch in, if it follows; otherwise say why not."""
        if not segment.fits(header.last_offset):
            return f"last offset {header.last_offset} in a segment from {segment.base_offset}"
        if breaks_row(segment, position, header, self.next_offset, self.holes_below):
            return f"base offset {header.base_offset}, wanted {self.next_offset}"
        segment.note_batch(position, header)
        self.visit(header, batch)
        self.next_offset = header.next_offset
        self.report.batches_checked += 1
        return ""

    def _begin_anew_if_short(self) -> None:
        """Where acknowledged records are missing at the end, go on behind them."""
        if self.next_offset >= self.recovery_point or self.failed is not None:
            return
        self.report.warnings.append(
            f"{self.directory} ends at {self.next_offset}, below its recovery point "
            f"{self.recovery_point}: acknowledged records are missing or cannot be reached. "
            f"It goes on at {self.recovery_point}."
        )
        self.next_offset = self.recovery_point
        self.segments.append(
            create_segment(
                self.home.files, self.directory, self.recovery_point, self.config, self.now_ms
            )
        )

    # -- The cut ------------------------------------------------------------------------------

    def _cut(self, index: int, bad: _BadBatchError) -> None:
        """Take what begins with the bad batch out of the log."""
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
        """Let no hole be the end. Compaction makes holes, but the newest record stays."""
        while len(self.segments) > 1 and not self.segments[-1].size and self.failed is None:
            before, last = self.segments[-2:]
            if not self.recovery_point <= before.next_offset < last.base_offset:
                return
            self.next_offset = before.next_offset
            self._set_aside_behind(len(self.segments) - 1)

    def _set_aside_behind(self, index: int) -> None:
        """End the log with the segment before `index`, whose end is `next_offset`."""
        before, what = self.segments[index - 1], self.segments[index].log_file.path
        what += f": the segment before it ends at {self.next_offset}, what followed was not synced"
        self.report.damage = self.report.damage or what
        self._set_aside(index, before, before.size)

    def _set_aside(self, index: int, segment: Segment, position: int) -> bool:
        """Put all segments from `index` on aside; whether that went well."""
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
        """Leave everything in place, and let nothing be appended behind it."""
        self.failed = LogFailed(
            segment.log_file.path,
            f"read-only: damaged from position {position} on, and the rest cannot be "
            f"put into quarantine: {error}. Make room and restart.",
        )
        segment.log_file.size = position
        segment.next_offset = self.next_offset


def recover(
    home: Home,
    segments: list[Segment],
    recovery_point: int,
    config: TopicConfig,
    holes_below: int,
    visit: Visit,
    report: RecoveryReport,
    now_ms: int,
) -> tuple[int, LogFailed | None]:
    """Make a log sound after an unclean stop; `segments` may become fewer, or one more.

    A hole between offsets that begins below `holes_below` is compaction's work, and no damage.
    `visit` is called with every batch above the recovery point that stays. Returns the end
    offset, everything below which is durable, and why the log is read-only, if it is.
    """
    recovery = _Recovery(home, segments, recovery_point, config, holes_below, visit, report, now_ms)
    report.recovery_point = recovery_point
    try:
        recovery.run()
    except (OSError, LogFailed) as error:
        # The disk does not even take what it already holds. Below the recovery point the
        # records are safe; above it nobody can say, so nothing from there is shown.
        report.warnings.append(f"recovery of {segments[0].files.directory} failed: {error}")
        recovery.failed = LogFailed(segments[0].files.directory, f"recovery failed: {error}")
        _hide_from(segments, recovery_point)
        report.end_offset = recovery_point
        return recovery_point, recovery.failed
    report.end_offset = recovery.next_offset
    return recovery.next_offset, recovery.failed


def _end_roll(segment: Segment) -> None:
    """Do for a closed segment what the crash may have kept its roll from."""
    with suppress(OSError, LogFailed):  # indexes are caches
        segment.indexes.drop_zeros()
        segment.on_roll()


def _hide_from(segments: list[Segment], offset: int) -> None:
    """Leave out, in memory only, what stands at `offset` and above."""
    while len(segments) > 1 and segments[-1].base_offset >= offset:
        segments.pop()
    last = segments[-1]
    try:
        found = last.position_of(offset)
    except LogFailed:
        return
    if found is not None:
        last.log_file.size = found[0]


def _announced_size(data: bytes | memoryview) -> int:
    return int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD
