"""The segments of one log in a row, oldest first, and how an offset or a time is found in them.

    base 0          base 368           base 730
    [  segment  ]   [  segment  ]      [  active segment      ]
                 ^ no hole, unless files are missing

The row is never empty; appends go to the last segment, the active one. Reads end at a limit,
usually the log's high watermark. Its position in its segment is remembered (`note_durable`), so
that reading at the end of the log needs no look-up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from config.topic import TopicConfig
from storage.errors import AppendFailed, DamagedLog
from storage.files.filenames import OFFSET_MAX
from storage.files.open_files import OpenFiles
from storage.segments.abort_index import (
    BLOCK_ENTRIES,
    AbortedTransaction,
    Tally,
    collect_apart,
)
from storage.segments.cleaned import Cleaned
from storage.segments.kept_aborts import KeptAborts
from storage.segments.log_file import LogSlice
from storage.segments.segment import Segment
from storage.segments.soundness import Soundness
from storage.segments.timestamp_lookup import TimestampCandidate

LIST_ENTRIES = 256  # as many as another file costs, at least

_base_offset = attrgetter("base_offset")
_last_marker = attrgetter("aborts.last_marker")


class HoleInLogError(LookupError):
    """An offset lies between two segments, where a file is missing."""


class Segments:
    """The segments of a log. The log owns `end_offset` and passes it where it is needed."""

    __slots__ = (
        "aborting",
        "active",
        "all",
        "cleaned",
        "durable_base",
        "durable_offset",
        "durable_position",
        "held",
        "soundness",
    )

    def __init__(self, segments: list[Segment], end_offset: int, cleaned: Cleaned) -> None:
        self.all = segments
        self.active = segments[-1]
        self.cleaned = cleaned
        self.held = False  # a compaction or a deletion is at work: no other may begin
        self.aborting: list[Segment] = []  # those whose lists of aborted transactions have entries
        self._note_aborting()
        self.soundness = Soundness()
        self.soundness.trust_from(self.active.base_offset, self.active.size)
        self.note_durable(end_offset, self.active.base_offset, self.active.size)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def size_bytes(self) -> int:
        """Bytes in all log files."""
        return sum(segment.size for segment in self.all)

    def note_durable(self, offset: int, segment_base_offset: int, position: int) -> None:
        """Remember that the batches below `offset` end at `position` of that segment."""
        self.durable_offset = offset
        self.durable_base = segment_base_offset
        self.durable_position = position

    def _note_aborting(self) -> None:
        self.aborting = [segment for segment in self.all if len(segment.aborts)]

    def add_abort(self, aborted: AbortedTransaction) -> None:
        """Note that the newest batch is a marker that has aborted a transaction."""
        if not len(self.active.aborts):
            self.aborting.append(self.active)
        self.active.aborts.add(aborted)

    def aborted(self, start: int, upper: int, kept: KeptAborts | None = None) -> bytes | bytearray:
        """Return producer id and first offset of the aborted transactions with records in a range.

        PACKED_PAIRs (`protocol.packed_pairs`). By their markers, in order. Raises Cold, OSError.
        """
        first = bisect_left(self.aborting, start, key=_last_marker)
        if kept is None or first == len(self.aborting):
            return _aborted(self.aborting, first, start, upper)[0]
        return _aborted_once(self.aborting, first, start, upper, kept)

    def offset_behind(self, piece: LogSlice, start_offset: int, limit: int) -> int:
        """Return the offset after a slice that was read for `start_offset`, or up to `limit` more.

        Raises Cold.
        """
        index = self.index_of(start_offset)
        while index < len(self.all) and self.all[index].log_file is not piece.log_file:
            index += 1
        if index == len(self.all):
            return limit
        segment, end = self.all[index], piece.position + piece.size
        if end >= segment.size:
            return limit if segment is self.active else self.all[index + 1].base_offset
        try:
            return segment.end_offset_at(piece.position, end)
        except DamagedLog:
            return limit

    def push(self, segment: Segment) -> None:
        """Make `segment` the active one."""
        self.all.append(segment)
        self.active = segment
        self.soundness.trust_from(segment.base_offset, 0)

    def replace(self, segment: Segment) -> None:
        """Replace the object of the closed segment with the same base offset.

        Does nothing if that segment is gone, or active.
        """
        index = self.index_of(segment.base_offset)
        if index < len(self.all) - 1 and self.all[index].base_offset == segment.base_offset:
            segment.take_aborts(self.all[index])
            self.all[index] = segment
            self._note_aborting()

    def merge(self, sources: Sequence[Segment], merged: Segment) -> None:
        """Replace neighbours by one closed segment, which has the base offset of the first."""
        first = self.all.index(sources[0])
        assert self.all[first : first + len(sources)] == list(sources), "neighbours"
        assert sources[-1] is not self.active
        assert merged.base_offset == sources[0].base_offset
        self.all[first : first + len(sources)] = [merged]
        self._note_aborting()
        for segment in sources:
            self.soundness.forget(segment.base_offset)
            if segment.base_offset == self.durable_base:
                self.note_durable(self.durable_offset, merged.base_offset, merged.size)
        self.soundness.trust_from(merged.base_offset, 0)

    @property
    def holes_below(self) -> int:
        """The offset below which a hole in the log is compaction's work, not damage."""
        return self.cleaned.holes_below(self.all)

    def drop_first(self, count: int) -> list[Segment]:
        """Remove the oldest segments from the row and return them; the active one stays."""
        assert count < len(self.all), "a log has an active segment"
        gone = self.all[:count]
        del self.all[:count]
        self._note_aborting()
        for segment in gone:
            self.soundness.forget(segment.base_offset)
        return gone

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Undo `drop_first` for those segments, which come first again."""
        self.all[:0] = segments
        self._note_aborting()

    def index_of(self, offset: int) -> int:
        """Return the index of the segment that holds `offset`, or of the one before its hole."""
        return max(0, bisect_right(self.all, offset, key=_base_offset) - 1)

    def position_of_end(self, segment: Segment, limit: int, end_offset: int) -> int:
        """Return the position where the batches below `limit` end; the segment begins below it."""
        if limit == end_offset:
            return segment.size
        if limit == self.durable_offset:
            if segment.base_offset == self.durable_base:
                return self.durable_position
            if segment.base_offset < self.durable_base:
                return segment.size
        found = segment.position_of(limit)
        return segment.size if found is None else found[0]

    def _end_within(self, index: int, limit: int, end_offset: int) -> int:
        """As `position_of_end`, of the segment at `index`: no look-up if all of it lies below."""
        segment, after = self.all[index], index + 1
        if after < len(self.all) and self.all[after].base_offset <= limit:
            return segment.size
        return self.position_of_end(segment, limit, end_offset)

    def read(
        self,
        start_offset: int,
        size_max: int,
        *,
        limit: int,
        end_offset: int,
        at_least_one_batch: bool,
    ) -> LogSlice | None:
        """Read below `limit` from the segment that holds `start_offset`, or from the next.

        Where compaction emptied the rest of a segment (`holes_below`), the next one is read.
        Otherwise a file is missing: raises HoleInLogError.
        """
        for index in range(self.index_of(start_offset), len(self.all)):
            segment = self.all[index]
            if segment.base_offset > start_offset >= self.holes_below:
                before = self.all[max(0, index - 1)]
                self.soundness.check_before_hole(
                    before, start_offset, segment.base_offset, self.holes_below
                )
                break
            if segment.base_offset >= limit:
                return None
            position_end = self._end_within(index, limit, end_offset)
            found = segment.read(
                max(start_offset, segment.base_offset),
                size_max,
                position_end,
                at_least_one_batch=at_least_one_batch,
            )
            if found is not None:
                ends = [other.base_offset for other in self.all[index + 1 : index + 2]]
                return self.soundness.checked(
                    segment,
                    found,
                    max(start_offset, segment.base_offset),
                    ends[0] if ends else end_offset,
                    self.holes_below,
                )
            if not at_least_one_batch and segment.position_of(start_offset, position_end):
                return None  # there is one, but it is too large
        raise HoleInLogError(start_offset)

    def distrust(self, piece: LogSlice) -> None:
        """Have the file of a slice checked anew, if it is still in the row."""
        for segment in self.all:
            if segment.log_file is piece.log_file:
                self.soundness.distrust(segment)

    def end_of(self, piece: LogSlice, start_offset: int) -> int:
        """Return where the closed segment of a slice, read for `start_offset`, ends.

        OFFSET_MAX if it is the active segment, or not in the row any more.
        """
        for index in range(self.index_of(start_offset), len(self.all) - 1):
            if self.all[index].log_file is piece.log_file:
                return self.all[index + 1].base_offset
        return OFFSET_MAX

    def available_bytes(self, start_offset: int, limit: int, end_offset: int) -> int:
        """Return the bytes of the batches from `start_offset` to `limit`."""
        total = -1
        for index in range(self.index_of(start_offset), len(self.all)):
            segment = self.all[index]
            if segment.base_offset >= limit:
                break
            end = self._end_within(index, limit, end_offset)
            if total < 0:
                found = segment.position_of(start_offset, end)
                total = 0 if found is None else end - found[0]
            else:
                total += end
        return max(0, total)

    def timestamp_candidates(
        self, timestamp: int | None, start_offset: int
    ) -> Iterator[TimestampCandidate]:
        """Yield the places, from `start_offset` on, where the first record that late may be.

        `timestamp` is in ms; None means the largest timestamp of all.
        """
        first, end = self.index_of(start_offset), len(self.all)
        if timestamp is None:
            best = max(self.all, key=attrgetter("max_timestamp"))
            timestamp, index = best.max_timestamp, self.all.index(best)
            if timestamp < 0 or index < first:
                return
            first, end = index, index + 1
        bounds = [segment.base_offset for segment in self.all[first + 1 : end + 1]] + [OFFSET_MAX]
        for segment, end_offset in zip(self.all[first:end], bounds, strict=False):
            if segment.max_timestamp >= timestamp:
                for candidate in segment.timestamp_candidates(timestamp, start_offset):
                    candidate.end_offset = end_offset
                    yield candidate


def _aborted(
    aborting: Sequence[Segment], first: int, from_offset: int, upper_offset: int
) -> tuple[bytearray, bool]:
    """Look through the lists of aborted transactions from the `first` on.

    Returns what was found, and whether the first one says that there is no more, now or later.
    Raises Cold, OSError.
    """
    found = bytearray()
    entries_read = 0  # of lists behind the first
    for index in range(first, len(aborting)):
        aborts = aborting[index].aborts
        if entries_read >= BLOCK_ENTRIES:
            rest = [segment.aborts for segment in aborting[index:]]
            collect_apart(rest, from_offset, upper_offset, found)
            break
        if aborts.collect(from_offset, upper_offset, found):
            return found, index == first
        entries_read += len(aborts) + LIST_ENTRIES if index > first else 0
    return found, False


def _aborted_once(
    aborting: Sequence[Segment],
    first: int,
    from_offset: int,
    upper_offset: int,
    kept: KeptAborts,
) -> bytes:
    """As `_aborted`, for a reader that others may follow."""
    key = (aborting[first].aborts.filling, from_offset, upper_offset)
    found = kept.get(key)
    if found is None:
        made, is_final = _aborted(aborting, first, from_offset, upper_offset)
        found = bytes(made)
        if is_final:
            kept.keep(key, found)
    return found


def abort_tallies(segments: Iterable[Segment]) -> dict[int, Tally]:
    """Return what a snapshot of the producers says of the lists of aborted transactions.

    By the base offsets of the segments that have one.
    """
    return {segment.base_offset: segment.aborts.tally for segment in segments if segment.aborts}


def create_segment(
    files: OpenFiles, directory: str, base_offset: int, config: TopicConfig, now_ms: int
) -> Segment:
    """Make an empty segment with the topic's configuration. Raises AppendFailed.

    Its empty index files are made too, as Kafka does: a segment without them looks damaged. If any
    file cannot be made, none is left: the log may go on in the segment before, and at the next
    start an empty file would claim offsets that were assigned since.
    """
    segment = Segment(
        files,
        directory,
        base_offset,
        size=0,
        index_interval_bytes=config.index_interval_bytes,
        index_size_max=config.segment_index_bytes,
        created_ms=now_ms,
    )
    is_made = False
    try:
        segment.log_file.create()
        is_made = True
        segment.indexes.clear()
        return segment
    except OSError as error:
        is_gone = not is_made or _unmake(files, segment)
        raise AppendFailed(segment.log_file.path, 0, error, rolled_back=is_gone) from error


def _unmake(files: OpenFiles, segment: Segment) -> bool:
    """Remove the empty files of a segment that could not be made; return whether all are gone."""
    for path in segment.files.paths():
        files.forget(path)
        try:
            files.filesystem.unlink(path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
