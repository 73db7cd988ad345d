"""Replays the batches above a producer snapshot, from their headers alone.

The CRC of each producer's newest batch is checked, because later sequence checks rely on it. Where
the log is damaged the producer state is incomplete, and its `damaged_below` says up to where.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from protocol.record_batch import BatchHeader, verify
from protocol.record_errors import RecordError
from protocol.records import read_records
from storage.errors import DamagedLog, LogFailed
from storage.files.filenames import OFFSET_MAX
from storage.opening.recovery_report import RecoveryReport
from storage.producers.producer_state import NO_PRODUCER_ID, ProducerState
from storage.segments.log_file import LogFile
from storage.segments.segment import Segment

MARKER_BYTES_MAX: Final = 64 * 1024  # of a control batch, which holds one small record

_Newest = dict[int, tuple[LogFile, int, BatchHeader]]  # by producer: where its last batch is


def replay(
    segments: Sequence[Segment],
    producers: ProducerState,
    end_offset: int,
    now_ms: int,
    report: RecoveryReport,
) -> None:
    """Replay from the state's own end offset up to `end_offset`.

    Damage goes into `report`. Raises OSError.
    """
    start_offset = producers.end_offset
    if start_offset >= end_offset:
        return
    newest: _Newest = {}
    for segment, after in zip(segments, [*segments[1:], None], strict=True):
        if after is not None and after.base_offset <= start_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        try:
            _replay_segment(segment, producers, start_offset, end_offset, now_ms, newest)
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
            take_producer(header, batch, producers, now_ms)
            newest[header.producer_id] = (segment.log_file, position, header)
        elif header.producer_id < NO_PRODUCER_ID:
            producers.damaged_below = header.next_offset
        if header.next_offset >= end_offset:
            return  # recovery checks what follows


def _check_newest(newest: _Newest, producers: ProducerState, report: RecoveryReport) -> None:
    """Check the CRC of each producer's newest batch."""
    for log_file, position, header in newest.values():
        try:
            verify(log_file.read(position, header.size))
        except (RecordError, LogFailed) as error:
            report.warnings.append(
                f"the producer state is incomplete: {log_file.path} at position {position}: {error}"
            )
            producers.damaged_below = max(producers.damaged_below, header.next_offset)


def take_producer(
    header: BatchHeader, batch: bytes | memoryview, producers: ProducerState, now_ms: int
) -> None:
    """Apply one producer's batch to the state.

    `batch` holds the bytes of a control batch; if it is empty, no coordinator epoch is applied.
    """
    if not header.is_control:
        producers.take(header, header.base_offset, now_ms)
        return
    coordinator_epoch = -1
    for record in (
        read_records(batch, 0, size_max=MARKER_BYTES_MAX, skip_headers=True) if batch else ()
    ):
        if record.value is not None and len(record.value) >= 6:
            # EndTransactionMarker: int16 version, int32 coordinator epoch
            coordinator_epoch = int.from_bytes(bytes(record.value[2:6]), "big", signed=True)
    producers.take_marker(header, coordinator_epoch, now_ms)
