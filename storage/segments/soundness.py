"""Which parts of the log files are checked: batches that follow each other, undamaged.

A batch's CRC does not cover its base offset, length, epoch and magic. If one of them has rotted, no
client notices, and takes records for others. For the rest, many clients do not check the CRC
(librdkafka's check.crcs is off by default). Batches that this process appended are sound. Batches
that it found in the files are checked, headers and CRCs, before they are first served: each part
once, as far as readers come, at most 1 MiB and 512 batches at a time, which takes milliseconds.
Both are trusted from then on, until what is read does not fit (`storage.segments.order`, and the
first header of each read): then the whole file counts as found.

Offsets must follow each other without a gap. Where compaction made gaps, the batch behind a gap is
sound if the next batch, or the segment's end, continues it: a flipped bit in a base offset leaves a
gap on both sides. At the start of a walk the batch before is unknown, so the first batch must be
continued too, or follow the batch that a look-up finds before it.

A compacted log has gaps everywhere. There the batch behind a gap must end before the next begins,
and a walk that starts in a gap checks the batch before it. A flipped bit that moves a batch within
its gap cannot be seen; one that makes two batches overlap may be of either, so neither is served.

A leader epoch must be the one that the log's epochs have for the offset. If it is not, either the
batch or the epoch file has rotted. Epochs never fall, so it is the batch if its epoch does not fit
between those of its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.legacy_batches import verify_any
from protocol.record_batch import BatchHeader
from protocol.record_errors import RecordError
from storage.errors import DamagedLog
from storage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from storage.segments.log_file import LogSlice
from storage.segments.segment import Segment

WALK_BYTES_MAX = 1024 * 1024  # Kafka's default of max.partition.fetch.bytes

WALK_BATCHES_MAX = 512


class _Known(NamedTuple):
    """What a walk checks the batches of a segment against."""

    segment: Segment
    end_offset: int  # the offset after the segment's last batch
    holes_below: int  # a hole that begins below it is compaction's work
    epochs: LeaderEpochs


class Soundness:
    """For each segment: the position from which it is sound, and one checked range before it."""

    __slots__ = ("_from", "_walked", "epochs")

    def __init__(self) -> None:
        self.epochs = LeaderEpochs()  # replaced by the log's
        self._from: dict[int, int] = {}
        self._walked: dict[int, tuple[int, int, int]] = {}  # start, end, offset after the end

    def trust_from(self, base_offset: int, position: int) -> None:
        """Note that this process wrote, or will write, everything from `position` on."""
        self._from[base_offset] = position

    def forget(self, base_offset: int) -> None:
        """Forget a segment that is gone."""
        self._from.pop(base_offset, None)
        self._walked.pop(base_offset, None)

    def distrust(self, segment: Segment) -> None:
        """Have everything in the file checked (again) before it is served."""
        self._walked.pop(segment.base_offset, None)
        if segment.base_offset in self._from:
            self._from[segment.base_offset] = segment.size

    def is_sound(self, segment: Segment, position: int, size: int) -> bool:
        """Whether those bytes, which begin with a batch, are known to be sound."""
        trusted = self._from.get(segment.base_offset)
        if trusted is not None and position >= trusted:
            return True
        walked = self._walked.get(segment.base_offset)
        return walked is not None and walked[0] <= position and position + size <= walked[1]

    def checked(
        self,
        segment: Segment,
        found: LogSlice,
        start_offset: int,
        end_offset: int,
        holes_below: int = 0,
    ) -> LogSlice:
        """Return `found`, a read from `start_offset`, as far as it is sound.

        `end_offset` is the offset after the segment's last batch; a hole that begins below
        `holes_below` is compaction's work. Raises DamagedLog if the first batch is not sound.
        """
        base_offset = segment.base_offset
        if found.hole_from >= holes_below:
            self.distrust(segment)  # nobody has made that hole
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
            known_of = _Known(segment, end_offset, holes_below, self.epochs)
            reached, expected, damage = _walk(known_of, known, limit, expected, begins=is_new)
            if reached > first:
                self._walked[base_offset] = (first, reached, expected)
            if trusted is not None and reached >= trusted:
                self._from[base_offset] = first
            elif reached < end:
                end = reached
            if end <= start:
                assert damage is not None, "the walk ends early at damage or at its bound"
                raise damage
        if end - start == found.size:
            return found
        return segment.log_file.slice(start, end - start, found.hole_from)

    def check_before_hole(
        self, segment: Segment, offset: int, end_offset: int, holes_below: int
    ) -> None:
        """Check the batches at the end of a segment: a damaged one may have held `offset`.

        `end_offset` is where the hole ends. Raises DamagedLog.
        """
        known = _Known(segment, end_offset, holes_below, self.epochs)
        damage = _damage_before(known, offset, segment.size)
        if damage is not None:
            raise damage


def _walk(
    known: _Known, start: int, end: int, expected: int, *, begins: bool
) -> tuple[int, int, DamagedLog | None]:
    """Check batch after batch; the first has `expected` as its base offset.

    If the walk `begins`, the first batch contains that offset, or follows the hole that does.
    Returns the position up to which all is sound, the offset there, and the damage there if any.
    """
    segment = known.segment
    position, trouble = start, None
    doubtful: BatchHeader | None = None  # the last one, if compaction made the hole before it
    walked: list[tuple[int, int]] = []  # position and first offset of each batch
    epoch_before: int | None = None
    try:
        for at, header in segment.log_file.scan(start, end, offset_min=segment.base_offset):
            is_behind_hole = header.base_offset > expected
            if begins:
                trouble = _damage_where_it_begins(known, at, header, expected)
                expected = header.base_offset if trouble is None else expected
                begins = False
            elif header.base_offset < expected or (
                header.base_offset > expected >= known.holes_below
                and not _is_continued(known, at, header)
            ):
                trouble = _damaged(known, at, expected, f"base offset {header.base_offset}")
            if trouble is None and header.leader_epoch != known.epochs.epoch_of(header.last_offset):
                trouble = _damage_of_epoch(known, at, header, epoch_before)
            if trouble is not None:
                break
            walked.append((at, expected))
            epoch_before = header.leader_epoch
            doubtful = header if is_behind_hole else None
            position, expected = at + header.size, header.next_offset
            if position - start >= WALK_BYTES_MAX or len(walked) >= WALK_BATCHES_MAX:
                break
    except DamagedLog as damage:
        trouble = damage
    if doubtful is not None and _overtakes(known, walked[-1][0], doubtful, walked[-1][1]):
        position, expected = walked.pop()
        trouble = _damaged(known, position, expected, f"offsets up to {doubtful.last_offset}")
    # CRCs come first: if a header does not fit, the length of the batch before it may be wrong, and
    # then its CRC is too.
    return _first_with_wrong_crc(segment, walked, position) or (position, expected, trouble)


def _damaged(known: _Known, position: int, offset: int, found: str) -> DamagedLog:
    path = known.segment.log_file.path
    return DamagedLog(path, position, offset, found=found, wanted=str(offset))


def _damage_where_it_begins(
    known: _Known, position: int, header: BatchHeader, expected: int
) -> DamagedLog | None:
    """Check the first batch of a walk that looks for `expected`; return its damage, if any."""
    if expected < known.holes_below:
        is_hole = header.base_offset > expected
        return _damage_beside(known, expected, position) if is_hole else None
    if _is_continued(known, position, header):
        if header.base_offset <= expected:
            return None
        # There is a hole before it: the batch before may be damaged and hold the offset.
        return _damage_before(known, expected, position)
    if header.base_offset <= expected and _follows(known, position, header):
        return None
    return _damaged(known, position, expected, f"base offset {header.base_offset}")


def _damage_before(known: _Known, offset: int, position: int) -> DamagedLog | None:
    """Check the batches before `position`, among which `offset` was not found."""
    start = known.segment.walk_start(offset)
    first = known.segment.log_file.read_header_at(start)
    if first is None or start >= position:
        return None
    return _walk(known, start, position, first.base_offset, begins=True)[2]


def _damage_beside(known: _Known, offset: int, position: int) -> DamagedLog | None:
    """Check the batch right before `position`: a damaged one may have held `offset`.

    Those before it may be damaged, too; they do not reach up to the hole.
    """
    start = known.segment.walk_start(offset)
    last: list[tuple[int, BatchHeader]] = []
    for at, header in known.segment.log_file.scan(
        start, position, offset_min=known.segment.base_offset
    ):
        last = [*last[-1:], (at, header)]
    for at, header in last:
        damage = _walk(known, at, position, header.base_offset, begins=True)[2]
        if damage is None or damage.position == last[-1][0]:
            return damage
    return None


def _overtakes(known: _Known, position: int, header: BatchHeader, expected: int) -> bool:
    """Whether a batch behind a hole may have left its place for that of the batches behind it.

    If it overlaps the next batch, one of the two has rotted. It is the next one if no single bit
    of this one's base offset brings it back into the hole.
    """
    end = known.end_offset
    after = known.segment.log_file.read_header_at(position + header.size)
    limit = end if after is None else after.base_offset
    if header.next_offset <= min(limit, end):
        return False
    behind = after and known.segment.log_file.read_header_at(position + header.size + after.size)
    if header.next_offset > (behind.base_offset if behind else end):
        return True
    last = limit - 1 - header.last_offset_delta
    return any(expected <= header.base_offset ^ (1 << bit) <= last for bit in range(63))


def _is_continued(known: _Known, position: int, header: BatchHeader) -> bool:
    after = known.segment.log_file.read_header_at(position + header.size)
    return header.next_offset == (known.end_offset if after is None else after.base_offset)


def _follows(known: _Known, position: int, header: BatchHeader) -> bool:
    """Whether the batch begins where the one before it ends, or where the segment begins."""
    segment = known.segment
    if position == 0:
        return header.base_offset == segment.base_offset
    try:
        found = segment.position_of(header.base_offset - 1)
    except DamagedLog:
        return False
    return (
        found is not None
        and found[0] + found[1].size == position
        and found[1].next_offset == header.base_offset
    )


def _damage_of_epoch(
    known: _Known, position: int, header: BatchHeader, before: int | None
) -> DamagedLog | None:
    """Return the damage if a leader epoch is wrong because of the batch, not the epoch file."""
    epoch = header.leader_epoch
    recorded = known.epochs.epoch_of(header.last_offset)
    if recorded < 0 or epoch == UNDEFINED_EPOCH:
        return None  # unknown: written before there were epochs, or the epoch file begins later
    behind = known.segment.log_file.read_header_at(position + header.size)
    after = known.epochs.epoch_of(header.next_offset) if behind is None else behind.leader_epoch
    if before is None:
        found = known.segment.position_of(header.base_offset - 1) if position else None
        if found is not None:
            before = found[1].leader_epoch
        else:
            before = epoch if epoch == after else recorded
    if before == epoch or before < epoch <= after:
        return None  # one flipped bit cannot make two equal; `after` may be the file's
    path = known.segment.log_file.path
    found_epoch = f"leader epoch {epoch}"
    return DamagedLog(path, position, header.base_offset, found=found_epoch, wanted=str(recorded))


def _first_with_wrong_crc(
    segment: Segment, walked: list[tuple[int, int]], end: int
) -> tuple[int, int, DamagedLog] | None:
    """Check the CRCs of the walked batches, which end at `end`; return what `_walk` returns."""
    if not walked:
        return None
    start = walked[0][0]
    data = memoryview(segment.log_file.read(start, end - start))
    for position, offset in walked:
        try:
            verify_any(data, position - start)
        except RecordError as error:
            path = segment.log_file.path
            damage = DamagedLog(path, position, offset, found=str(error), wanted="a sound batch")
            return position, offset, damage
    return None
