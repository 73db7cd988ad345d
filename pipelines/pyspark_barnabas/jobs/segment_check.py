"""One segment checked by one task: its batches, their order and epochs, its indexes.

`check_segment` walks the file (pyspark_barnabas.segments) and returns a `SegmentReport`: what is
wrong within the segment, and the little that pyspark_barnabas.jobs.log_check needs to hold
segments against each other on the driver. Nothing is written.

The leader epoch lies outside a batch's CRC: it is held against `leader-epoch-checkpoint` here, and
against its neighbours on the driver. Holes between offsets are kept apart: whether they are
compaction's work is known only when all of the log has been seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from pyspark_barnabas.columns import TYPES, Decoder
from pyspark_barnabas.jobs.findings import TAIL, Findings
from pyspark_barnabas.jobs.index_check import IndexCheck, beside
from pyspark_barnabas.source.segments import (
    FORMAT,
    ORDER,
    RECORDS,
    STRUCTURE,
    TORN,
    ZEROS,
    Damage,
    Piece,
    Segment,
    walk,
)
from pyspark_barnabas.source.transactions import TRANSACTION_ENTRY, aborted_in
from pyspark_barnabas.wire.batches import Batch
from pyspark_barnabas.wire.errors import CorruptBatch

CLEAN, CRASHED, RUNNING = "clean", "crashed", "running"  # how the broker ended, or that it has not
EPOCHS_FILE: Final = "leader-epoch-checkpoint"
TRANSACTIONS: Final = "txnindex"
NO_EPOCH: Final = -1  # of a batch from before there were epochs


class EpochRun(NamedTuple):
    """Batches one behind the other with the same leader epoch; the first is at `position`."""

    epoch: int
    position: int
    offset: int
    batch_count: int


@dataclass(slots=True, kw_only=True)
class SegmentReport:
    """What one segment is like. `end_offset` is the next offset behind it."""

    segment: Segment
    findings: Findings = field(default_factory=Findings)
    batch_count: int = 0
    record_count: int = 0
    file_count: int = 0
    end_offset: int = 0
    is_compacted: bool = False  # a batch has fewer records than offsets
    is_gone: bool = False  # deleted or replaced since it was listed, or not readable
    holes: list[tuple[int, int, int]] = field(default_factory=list)  # position, offset, next offset
    epochs: list[EpochRun] = field(default_factory=list)
    known_epochs: frozenset[int] = frozenset()  # of leader-epoch-checkpoint
    transactions_end: int = 0  # no offset of the .txnindex may be at or behind the log's end


def check_segment(segment: Segment, ending: str, *, open_records: bool) -> SegmentReport:
    """Check one segment; that it cannot be read is a finding.

    Of a running broker's directory the last segment has grown since it was listed, and others may
    have been deleted, or replaced by compaction: these are left out.
    """
    gone = SegmentReport(segment=segment, is_gone=True)
    try:
        before = os.stat(segment.path)
        if ending == RUNNING and not segment.is_last and before.st_size != segment.size:
            return gone
        report = _checked(segment, ending, open_records=open_records)
        if ending == RUNNING and os.stat(segment.path).st_ino != before.st_ino:
            return gone
        return report
    except OSError as error:
        if ending != RUNNING or not isinstance(error, FileNotFoundError):
            gone.findings.damage(
                "unreadable", segment.path, str(error.strerror), "it could not be checked",
                "Look at the disk, the permissions, and whether every executor has the directory",
            )  # fmt: skip
        return gone


def _checked(segment: Segment, ending: str, *, open_records: bool) -> SegmentReport:
    report = SegmentReport(segment=segment, end_offset=segment.base_offset)
    _Check(report, ending, open_records=open_records).run()
    return report


class _Check:
    """The walk over one segment."""

    def __init__(self, report: SegmentReport, ending: str, *, open_records: bool) -> None:
        self._report = report
        self._findings = report.findings
        self._segment = segment = report.segment
        self._is_running = ending == RUNNING
        self._may_grow = segment.is_last and self._is_running
        self._index = IndexCheck(
            report.findings, segment.path, segment.base_offset,
            is_required=ending == CLEAN or not segment.is_last,
        )  # fmt: skip
        self._epochs = read_epochs(os.path.join(os.path.dirname(segment.path), EPOCHS_FILE))
        report.known_epochs = frozenset(epoch for epoch, _ in self._epochs)
        self._epochs_may_lag = ending != CLEAN
        self._is_explained = False  # the next hole is what damage has left
        self._decoder = Decoder(list(TYPES), segment.topic, segment.partition)
        self._open_records = open_records

    def run(self) -> None:
        report, segment = self._report, self._segment
        if self._may_grow:  # so that all that the indexes point to, read just now, is within it
            segment = replace(segment, size=os.stat(segment.path).st_size)
            self._segment = report.segment = segment
        for found in walk(segment, tails=True):
            if isinstance(found, Damage):
                self._take_damage(found)
            else:
                self._take_piece(found)
        if segment.path.endswith(".swap") and not self._is_running:
            self._findings.note(
                "compaction", segment.path, "a compacted segment that is not in its place yet",
                "the next start puts it there, and deletes what it was made of",
            )  # fmt: skip
        self._index.finish(segment.size)
        self._check_transactions()
        report.file_count += 1 + self._index.file_count

    # -- damage ------------------------------------------------------------------------------------

    def _take_damage(self, damage: Damage) -> None:
        report, segment = self._report, self._segment
        at_end = damage.position + damage.size >= segment.size
        start, kind = report.end_offset, damage.kind
        end = damage.next_offset
        if end < 0 and segment.next_base is not None:
            end = segment.next_base  # up to there nothing more is in any file
        end = max(start, end)
        position_end = damage.position + damage.size
        if kind == FORMAT:
            self._tell_format(damage)
        elif kind == ORDER:
            self._is_explained = True
            self._index.skip(damage.position, position_end, start, 1 << 63)
            self._findings.damage(
                kind, segment.path, damage.reason, "offsets must rise: the batch is under a wrong "
                "number, or this file, or a part of it, is not the one that was written here",
                position=damage.position, offset=damage.offset,
            )  # fmt: skip
            if at_end and segment.next_base is not None:
                report.end_offset = segment.next_base
            return
        elif at_end and segment.is_last:
            if self._may_grow and kind in (TORN, STRUCTURE, ZEROS):
                return  # what the broker is writing now
            if kind == STRUCTURE:
                kind = TORN
            self._findings.damage(
                kind, segment.path, f"{damage.reason} ({damage.size} bytes to the end of the file)",
                "space that was given to the file and never written, as after a power cut"
                if kind == ZEROS else f"the records from offset {start} on cannot be read",
                TAIL, position=damage.position, offset=start,
            )  # fmt: skip
            end = 1 << 63
        else:
            self._findings.damage(
                STRUCTURE if kind == TORN else kind, segment.path,
                f"{damage.reason} ({damage.size} bytes, then the log goes on)",
                f"the records at offsets {start} to {end - 1} cannot be read" if end > start
                else "bytes that belong to no batch stand in the log",
                position=damage.position, offset=start,
            )  # fmt: skip
        self._index.skip(damage.position, position_end, start, end)
        if end < 1 << 63:
            report.end_offset = end

    def _tell_format(self, damage: Damage) -> None:
        self._findings.note(
            FORMAT, self._segment.path, damage.reason,
            "healthy, but these messages, and the indexes of this file there, were not looked at",
            "`barnabas verify` reads them", position=damage.position, offset=damage.offset,
        )  # fmt: skip

    # -- batches -----------------------------------------------------------------------------------

    def _take_piece(self, piece: Piece) -> None:
        report = self._report
        for batch in piece.batches:
            position = piece.position + batch.position
            if batch.base_offset > report.end_offset and not self._is_explained:
                report.holes.append((position, report.end_offset, batch.base_offset))
            self._is_explained = False
            report.end_offset = batch.last_offset + 1
            report.is_compacted |= batch.record_count != batch.last_offset_delta + 1
            report.batch_count += 1
            self._check_epoch(batch, position)
            self._index.see(piece.data, batch, position)
        if self._open_records:
            self._open(piece)

    def _check_epoch(self, batch: Batch, position: int) -> None:
        """Hold an epoch against the checkpoint; whether it falls is seen over the whole log."""
        epoch, offset = batch.leader_epoch, batch.base_offset
        if epoch == NO_EPOCH:
            return
        recorded = _epoch_of(self._epochs, offset)
        lags = self._epochs_may_lag and bool(self._epochs) and recorded == self._epochs[-1][0]
        if recorded >= 0 and epoch != recorded and not (lags and epoch > recorded):
            tell_epoch(
                self._findings, self._segment.path, EpochRun(epoch, position, offset, 1),
                f"{EPOCHS_FILE} has {recorded} for offset {offset}",
            )  # fmt: skip
            return
        runs = self._report.epochs
        if runs and runs[-1].epoch == epoch:
            runs[-1] = runs[-1]._replace(batch_count=runs[-1].batch_count + 1)
        else:
            runs.append(EpochRun(epoch, position, offset, 1))

    # -- records -----------------------------------------------------------------------------------

    def _open(self, piece: Piece) -> None:
        """Open all batches of a piece; if one cannot be opened, each by itself."""
        try:
            self._read_records(piece, piece.batches)
        except CorruptBatch:
            for batch in piece.batches:
                try:
                    self._read_records(piece, [batch])
                except CorruptBatch as error:
                    self._tell_records(
                        piece, batch, f"the batch cannot be opened: {error.reason}",
                        "its bytes are what the producer sent, but no consumer can read offsets "
                        f"{batch.base_offset} to {batch.last_offset}",
                    )  # fmt: skip

    def _read_records(self, piece: Piece, batches: list[Batch]) -> None:
        tables = list(self._decoder.decode(piece.data, batches))
        if not tables:
            return
        offsets = np.concatenate([table["offset"].to_numpy() for table in tables])
        micros = np.concatenate([table["timestamp"].cast("int64").to_numpy() for table in tables])
        self._report.record_count += len(offsets)
        for batch, newest in _newest(batches, offsets, micros // 1000):
            if newest >= 0 and newest != batch.max_timestamp and not batch.is_log_append_time:
                self._tell_records(
                    piece, batch,
                    f"the header's largest timestamp is {batch.max_timestamp}, the records' "
                    f"{newest}", "look-ups and retention by time go by the header",
                )  # fmt: skip

    def _tell_records(self, piece: Piece, batch: Batch, found: str, means: str) -> None:
        self._findings.damage(
            RECORDS, self._segment.path, found, means,
            position=piece.position + batch.position, offset=batch.base_offset,
        )  # fmt: skip

    # -- aborted transactions ----------------------------------------------------------------------

    def _check_transactions(self) -> None:
        path = beside(self._segment.path, TRANSACTIONS)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return
        report = self._report
        report.file_count += 1
        rest = len(data) % TRANSACTION_ENTRY.size
        wrong = f"{len(data)} bytes, wanted entries of {TRANSACTION_ENTRY.size}" if rest else ""
        try:
            for one, stable in aborted_in(data):
                report.transactions_end = max(report.transactions_end, one.last_offset + 1, stable)
        except ValueError as error:
            wrong = str(error)
        if wrong:
            tell_transactions(self._findings, path, wrong)


def tell_epoch(findings: Findings, path: str, run: EpochRun, wanted: str) -> None:
    """Add that batches have a wrong leader epoch."""
    findings.damage(
        "epoch", path, f"leader epoch {run.epoch}, but {wanted}",
        "the field is outside the checksum; consumers that ask where an epoch ends are told wrong",
        position=run.position, offset=run.offset,
    )  # fmt: skip


def tell_transactions(findings: Findings, path: str, found: str) -> None:
    """Add that a list of aborted transactions is wrong."""
    findings.damage(
        TRANSACTIONS, path, found, "readers of committed records could be given aborted ones",
        "Delete the file while the broker is stopped: Kafka builds it again",
    )  # fmt: skip


def read_epochs(path: str) -> list[tuple[int, int]]:
    """Return (epoch, start offset) as a leader-epoch-checkpoint has them; none if it has none."""
    rows = read_checkpoint(path, 2)
    return [(int(epoch), int(start)) for epoch, start in rows]


def read_checkpoint(path: str, width: int) -> list[list[str]]:
    """Return the lines of a checkpoint, cut at spaces; none where it is missing or malformed.

    The last two words of a line are numbers. A checkpoint is a cache: whether it is in order is
    for `barnabas verify` to say, and here a damaged one says nothing.
    """
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
        rows = [line.split(" ") for line in lines[2:]]
        is_whole = lines[0] == "0" and int(lines[1]) == len(rows)
        numbers = [int(number) for row in rows for number in row[-2:]]
    except (OSError, ValueError, IndexError):
        return []
    if not is_whole or any(len(row) != width for row in rows) or min(numbers, default=0) < 0:
        return []
    return rows


def _epoch_of(epochs: list[tuple[int, int]], offset: int) -> int:
    found = -1
    for epoch, start in epochs:
        if start > offset:
            break
        found = epoch
    return found


def _newest(
    batches: list[Batch], offsets: np.ndarray, times: np.ndarray
) -> Iterator[tuple[Batch, int]]:
    """Yield each batch that has records with the largest of their timestamps, in ms."""
    starts = np.searchsorted(offsets, [batch.base_offset for batch in batches])
    ends = np.searchsorted(offsets, [batch.last_offset + 1 for batch in batches])
    for batch, start, end in zip(batches, starts.tolist(), ends.tolist(), strict=True):
        if start < end:
            yield batch, int(times[start:end].max())
