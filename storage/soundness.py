"""Which parts of the log files are known to be batches that follow each other.

Base offset, length, epoch and magic of a batch stand outside its CRC, so no client notices when
one of them has rotted: it would take records for others. What this process has appended is sound.
What it found in the files is walked, header by header, before it is first served; each part
once, as far as readers come, at most 1 MiB at a time.

Offsets must follow each other without a gap. Where compaction made gaps, the batch behind
one is taken for sound if the next batch, or the segment's end, continues it: a flipped bit in a
base offset leaves a gap on both sides.
"""

from __future__ import annotations

from protocol.record_batch import BatchHeader, verify
from protocol.record_errors import RecordError
from storage.errors import DamagedLog
from storage.log_file import LogSlice
from storage.segment import Segment

WALK_BYTES_MAX = 1024 * 1024  # Kafka's max.partition.fetch.bytes default: what a reader asks for


class Soundness:
    """For each segment, by base offset: from where on it is sound, and one part before that."""

    __slots__ = ("_from", "_walked")

    def __init__(self) -> None:
        self._from: dict[int, int] = {}
        self._walked: dict[int, tuple[int, int, int]] = {}  # start, end, offset after the end

    def trust_from(self, base_offset: int, position: int) -> None:
        """Note that everything from `position` on was, or will be, written by this process."""
        self._from[base_offset] = position

    def forget(self, base_offset: int) -> None:
        """Forget a segment that is gone."""
        self._from.pop(base_offset, None)
        self._walked.pop(base_offset, None)

    def checked(
        self, segment: Segment, found: LogSlice, start_offset: int, end_offset: int
    ) -> LogSlice:
        """Return `found`, a read from `start_offset`, as far as it is sound.

        `end_offset` is the offset after the segment's last batch. Raises DamagedLog if not even
        the first batch is.
        """
        base_offset = segment.base_offset
        trusted = self._from.get(base_offset)
        if trusted is not None and found.position >= trusted:
            return found
        start, end = found.position, found.position + found.size
        first, known, expected = self._walked.get(base_offset, (start, start - 1, 0))
        is_new = not first <= start <= known
        if is_new:
            first, known, expected = start, start, start_offset
        if end > known and (trusted is None or known < trusted):
            limit = end if trusted is None else min(end, trusted)
            reached, expected, damage = _walk(
                segment, known, limit, expected, end_offset, may_begin_before=is_new
            )
            self._walked[base_offset] = (first, reached, expected)
            if trusted is not None and reached >= trusted:
                self._from[base_offset] = first
            elif reached < end:
                end = reached
            if end <= start:
                assert damage is not None, "the walk ends early at damage or after 1 MiB"
                raise damage
        return found if end - start == found.size else segment.log_file.slice(start, end - start)


def _walk(
    segment: Segment,
    start: int,
    end: int,
    expected: int,
    end_offset: int,
    *,
    may_begin_before: bool,
) -> tuple[int, int, DamagedLog | None]:
    """Walk from batch to batch, the first of which begins at offset `expected`.

    With `may_begin_before` it only holds that offset. Returns how far all is sound, the offset
    there, and what is wrong there if anything.
    """
    position, before = start, (start, expected)
    try:
        for at, header in segment.log_file.scan(start, end, offset_min=segment.base_offset):
            if may_begin_before:
                expected = min(expected, header.base_offset)
                may_begin_before = False
            if header.base_offset < expected or (
                header.base_offset > expected and not _is_continued(segment, at, header, end_offset)
            ):
                damage = DamagedLog(
                    segment.log_file.path,
                    at,
                    expected,
                    found=f"base offset {header.base_offset}",
                    wanted=str(expected),
                )
                return at, expected, damage
            before = at, expected
            position, expected = at + header.size, header.next_offset
            if position - start >= WALK_BYTES_MAX:
                break
    except DamagedLog as damage:
        # The length of the batch before may be what is wrong: then its CRC is too.
        if position > before[0] and not _has_right_crc(segment, before[0], position):
            return *before, damage
        return position, expected, damage
    return position, expected, None


def _has_right_crc(segment: Segment, start: int, end: int) -> bool:
    try:
        verify(segment.log_file.read(start, end - start))
    except RecordError:
        return False
    return True


def _is_continued(segment: Segment, position: int, header: BatchHeader, end_offset: int) -> bool:
    after = segment.log_file.read_header_at(position + header.size)
    return header.next_offset == (end_offset if after is None else after.base_offset)
