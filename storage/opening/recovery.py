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

import posixpath
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from config.topic import TopicConfig
from protocol.legacy_batches import verify_any
from protocol.legacy_messages import MESSAGE_SIZE_MIN
from protocol.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
    verified_run,
)
from protocol.record_errors import RecordError
from storage.errors import DamagedLog, LogFailed
from storage.files import filenames
from storage.files.filesystem import File
from storage.home import Home
from storage.opening.batch_search import find_batch, is_batch_at, is_whole
from storage.segments.row import create_segment
from storage.segments.segment import Segment

CHUNK_BYTES = 1024 * 1024  # read, checked and written again at a time
PAGE_BYTES = 4096

NO_CLEAN_SHUTDOWN = "no clean shutdown"  # the reason that goes without saying

Visit = Callable[[BatchHeader, memoryview], None]


@dataclass(slots=True)
class RecoveryReport:
    """What was found and done when a log was opened. Nothing is said of a log that was clean."""

    topic: str
    partition: int
    directory: str
    reason: str = ""  # why recovery ran; empty: it did not
    recovery_point: int = -1
    end_offset: int = -1
    batches_checked: int = 0
    bytes_rewritten: int = 0
    bytes_quarantined: int = 0
    zero_bytes_cut: int = 0
    damage: str = ""  # what was wrong with the first batch that was cut
    quarantine_files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the lines for the log of the broker, most of them only if something happened."""
        lines = list(self.warnings)
        if self.damage:
            lines.append(
                f"Found invalid messages in log segment of {self.topic}-{self.partition}: "
                f"{self.damage}; truncating to offset {self.end_offset}: "
                f"{self.zero_bytes_cut} zero bytes cut, {self.bytes_quarantined} bytes kept in "
                f"{', '.join(self.quarantine_files) or 'place'}"
            )
        if self.reason and (self.batches_checked or self.reason != NO_CLEAN_SHUTDOWN or lines):
            lines.append(
                f"Recovered {self.topic}-{self.partition} ({self.reason}): from recovery point "
                f"{self.recovery_point} to end offset {self.end_offset}, "
                f"{self.batches_checked} batches checked, {self.bytes_rewritten} bytes rewritten"
            )
        return lines


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
        self.directory = segments[0].directory
        self.recovery_point = recovery_point
        self.config = config
        self.holes_below = holes_below
        self.visit = visit
        self.report = report
        self.now_ms = now_ms
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
                start = self._start_position(segment)
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

    def _start_position(self, segment: Segment) -> int | None:
        """Where the batches above the recovery point begin; None if they cannot be found."""
        self.next_offset = segment.base_offset
        if segment.base_offset >= self.recovery_point:
            return 0
        entry = segment.offset_index.lookup(self.recovery_point - 1)
        position = entry[1] if entry is not None and is_batch_at(segment, entry) else 0
        try:
            is_known = position == 0  # whether next_offset is what the next batch must begin with
            for at, header in segment.log_file.scan(position, offset_min=segment.base_offset):
                if is_known:
                    self._check_row(segment, at, header)
                is_known = True
                if header.base_offset < self.recovery_point <= header.next_offset:
                    self._check_whole(segment, at, header)
                if header.next_offset > self.recovery_point:
                    # One that begins below it is a batch that holds it: begin with the batch.
                    self.next_offset = min(self.recovery_point, header.base_offset)
                    return at
                position, self.next_offset = at + header.size, header.next_offset
        except DamagedLog as damage:
            if self.next_offset >= self.recovery_point:
                return position  # it is above: the walk was just at the recovery point
            self.report.warnings.append(f"damage below the recovery point stays: {damage}")
            found = find_batch(segment, damage.position + 1, self.recovery_point)
            if found is not None:
                header = read_header(segment.log_file.read(found, HEADER_SIZE))
                self.next_offset = header.base_offset
                self.behind_damage = header.last_offset, found
            return found
        return position

    def _recover_segment(self, segment: Segment, start: int) -> None:
        """Check, write again and index the batches from `start`, a batch's position, on."""
        segment.truncate_indexes(self.next_offset if start else segment.base_offset)
        segment.next_offset = self.next_offset
        if self.behind_damage is not None:
            segment.offset_index.append(*self.behind_damage)  # the only way past the damage
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
        if at:
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
            after = at + header[1] + LOG_OVERHEAD  # batch_length
            if header[9] >= 0 or header[2] != epoch:  # producer_id, leader_epoch
                epoch = header[2]
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
        if self._breaks_the_row(segment, position, header):
            return f"base offset {header.base_offset}, wanted {self.next_offset}"
        segment.note_batch(position, header)
        self.visit(header, batch)
        self.next_offset = header.next_offset
        self.report.batches_checked += 1
        return ""

    def _check_row(self, segment: Segment, position: int, header: BatchHeader) -> None:
        if self._breaks_the_row(segment, position, header):
            raise self._damaged(segment, position, f"base offset {header.base_offset}")

    def _check_whole(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Refuse a damaged last batch: where it ends, and the next begins, may be what is wrong."""
        if not is_whole(memoryview(segment.log_file.read(position, header.size)), 0):
            raise self._damaged(segment, position, "a batch with a wrong CRC")

    def _damaged(self, segment: Segment, position: int, found: str) -> DamagedLog:
        path, offset = segment.log_file.path, self.next_offset
        return DamagedLog(path, position, offset, found=found, wanted=str(offset))

    def _breaks_the_row(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Whether a batch begins where none can after the ones before it."""
        gap = header.base_offset - self.next_offset
        return gap < 0 or (
            gap > 0
            and self.next_offset >= self.holes_below
            and not self._is_followed(segment, position, header)
        )

    def _is_followed(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        """Whether the next batch continues this one, so that a gap before it was there before.

        One flipped bit in a base offset, which no CRC covers, leaves a gap on both sides.
        """
        after = segment.log_file.read_header_at(position + header.size)
        return after is not None and after.base_offset == header.next_offset

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
                self._cut_tail(segment, bad.position)
            except OSError as error:
                self._stay_read_only(segment, bad.position, error)

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
                self._put_aside(other)
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

    def _put_aside(self, segment: Segment) -> None:
        """Give a segment behind the cut a quarantine name; its indexes go."""
        path, directory = segment.log_file.path, self.directory
        indexes = [posixpath.basename(other) for other in segment.files() if other != path]
        if segment.size == 0:
            self.home.discard(directory, [posixpath.basename(path)], self.now_ms)
        else:
            name = filenames.quarantine_name(segment.base_offset, 0, self.now_ms)
            self.home.files.rename(path, posixpath.join(directory, name))
            self.home.files.forget(posixpath.join(directory, name))
            self.report.bytes_quarantined += segment.size
            self.report.quarantine_files.append(name)
        self.home.discard(directory, indexes, self.now_ms)

    def _cut_tail(self, segment: Segment, position: int) -> None:
        file = segment.log_file.file()
        end = _end_of_data(file, position, segment.size)
        if end > position:
            name = filenames.quarantine_name(segment.base_offset, position, self.now_ms)
            self._copy(file, position, end, posixpath.join(self.directory, name))
            self.report.bytes_quarantined += end - position
            self.report.quarantine_files.append(name)
        self.report.zero_bytes_cut += segment.size - end
        segment.log_file.truncate(position)
        segment.next_offset = self.next_offset
        if file not in self.to_sync:
            self.to_sync.append(file)

    def _copy(self, source: File, start: int, end: int, path: str) -> None:
        filesystem = self.home.filesystem
        target = filesystem.open(path, create=True)
        try:
            for position in range(start, end, CHUNK_BYTES):
                piece = source.pread(min(CHUNK_BYTES, end - position), position)
                target.pwrite(piece, position - start)
            target.fdatasync()
        except OSError:
            with suppress(OSError):
                filesystem.unlink(path)
            raise
        finally:
            target.close()
        filesystem.sync_directory(self.directory)


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
        report.warnings.append(f"recovery of {segments[0].directory} failed: {error}")
        recovery.failed = LogFailed(segments[0].directory, f"recovery failed: {error}")
        _hide_from(segments, recovery_point)
        report.end_offset = recovery_point
        return recovery_point, recovery.failed
    report.end_offset = recovery.next_offset
    return recovery.next_offset, recovery.failed


def _end_roll(segment: Segment) -> None:
    """Do for a closed segment what the crash may have kept its roll from."""
    with suppress(OSError, LogFailed):  # indexes are caches
        segment.offset_index.drop_zeros()
        segment.time_index.drop_zeros()
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


def _end_of_data(file: File, start: int, size: int) -> int:
    """Where the pages of nothing but zeros at the end begin; `start` if nothing else is there.

    By pages, because a batch may well end in zeros, and what is kept should be whole.
    """
    end = size
    while end > start:
        chunk_start = max(start, end - CHUNK_BYTES)
        rest = file.pread(end - chunk_start, chunk_start).rstrip(b"\0")
        if rest:
            return min(size, -(-(chunk_start + len(rest)) // PAGE_BYTES) * PAGE_BYTES)
        end = chunk_start
    return start
