"""Replays the batches above a producer snapshot, from their headers alone.

The CRC of each producer's newest batch is checked, because later sequence checks rely on it. Where
the log is damaged the producer state is incomplete, and its `damaged_below` says up to where.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from protocol.control_records import Marker, read_marker
from protocol.record_batch import BatchHeader, verify
from protocol.record_errors import RecordError
from storage.errors import DamagedLog
from storage.files.filenames import OFFSET_MAX
from storage.opening.recovery_report import RecoveryReport
from storage.producers.open_transactions import ReplayedMarker
from storage.producers.producer_state import (
    NO_COORDINATOR_EPOCH,
    NO_PRODUCER_ID,
    ProducerState,
)
from storage.segments.abort_index import AbortedTransaction
from storage.segments.log_file import LogFile
from storage.segments.segment import Segment

MARKER_BYTES_MAX: Final = 64 * 1024  # of a control batch, which holds one small record

_base_offset = attrgetter("base_offset")

NoteAbort = Callable[[AbortedTransaction], object]

_Newest = dict[int, tuple[LogFile, int, BatchHeader]]  # by producer: where its last batch is


def replay(
    segments: Sequence[Segment],
    producers: ProducerState,
    end_offset: int,
    now_ms: int,
    report: RecoveryReport,
    note_abort: NoteAbort | None = None,
) -> None:
    """Replay from the state's own end offset up to `end_offset`.

    Aborted transactions go to `note_abort` (default: into the lists of their segments). Damage goes
    into `report`. Raises LogFailed if the log cannot be read.
    """
    start_offset = producers.end_offset
    if start_offset >= end_offset:
        return
    newest: _Newest = {}
    note_abort = note_abort or partial(add_abort, segments)
    for segment, after in zip(segments, [*segments[1:], None], strict=True):
        if after is not None and after.base_offset <= start_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        try:
            _replay_segment(
                segment, producers, start_offset, end_offset, now_ms, newest, note_abort
            )
        except DamagedLog as damage:
            report.warnings.append(f"the producer state is incomplete: {damage}")
            producers.damaged_below = min(
                end_offset, OFFSET_MAX if after is None else after.base_offset
            )
    _check_newest(newest, producers, report)
    producers.end_offset = end_offset


def _replay_segment(
    segment: Segment,
    producers: ProducerState,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    newest: _Newest,
    note_abort: NoteAbort,
) -> None:
    found = segment.position_of(start_offset)
    if found is None:
        return
    for position, header in segment.log_file.scan(found[0], offset_min=found[1].base_offset):
        if header.next_offset > end_offset:
            producers.damaged_below = end_offset
            return  # no client was told such an offset
        if header.producer_id >= 0 and header.base_offset >= start_offset:
            batch = b""
            if header.is_control and header.size <= MARKER_BYTES_MAX:
                batch = segment.log_file.read(position, header.size)
            take_producer(header, batch, producers, now_ms, note_abort)
            newest[header.producer_id] = (segment.log_file, position, header)
        elif header.producer_id < NO_PRODUCER_ID:
            producers.damaged_below = header.next_offset
        if header.next_offset >= end_offset:
            return  # recovery checks what follows


def _check_newest(newest: _Newest, producers: ProducerState, report: RecoveryReport) -> None:
    """Check the CRC of each producer's newest batch. Raises LogFailed."""
    for log_file, position, header in newest.values():
        try:
            verify(log_file.read(position, header.size))
        except RecordError as error:
            report.warnings.append(
                f"the producer state is incomplete: {log_file.path} at position {position}: {error}"
            )
            producers.damaged_below = max(producers.damaged_below, header.next_offset)


def index_of(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that holds `offset`."""
    return max(0, bisect_right(segments, offset, key=_base_offset) - 1)


def add_abort(segments: Sequence[Segment], aborted: AbortedTransaction) -> None:
    """Add an aborted transaction to the list of the segment that holds its marker."""
    segments[index_of(segments, aborted.marker_offset)].aborts.add(aborted)


def take_producer(
    header: BatchHeader,
    batch: bytes | memoryview,
    producers: ProducerState,
    now_ms: int,
    note_abort: NoteAbort,
) -> ReplayedMarker | None:
    """Apply one producer's batch to the state; return the marker, if it is one.

    `batch` holds the bytes of a control batch. What a marker in the log has ended is settled. Where
    compaction has removed the marker, all records of its transaction are gone, too, and its batch
    says which epoch the producer has. A control batch of another kind changes nothing.
    """
    if not header.is_control:
        producers.take(header, header.base_offset, now_ms)
        return None
    marker = _marker_in(batch)
    if marker is None and header.record_count:
        return None
    offset = header.base_offset
    coordinator_epoch = NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch
    ended = producers.take_marker(header, coordinator_epoch, offset, now_ms)
    producers.transactions.settle(offset)
    if marker is None:
        return None
    if (aborted := ended.aborted_by(marker, offset)) is not None:
        note_abort(AbortedTransaction(*aborted))
    return ReplayedMarker(offset, marker, ended.closed_epoch, ended.first_offset)


def _marker_in(batch: bytes | memoryview) -> Marker | None:
    try:
        return read_marker(batch) if batch else None
    except RecordError:
        return None
