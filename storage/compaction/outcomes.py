"""What compaction knows of transactions: which were aborted, and which still have data.

A marker ends a producer's transaction, behind its data and sometimes behind all that a pass cleans.
So the outcomes are found before the pass needs them: by a walk over the cleaned part and, for the
transactions that are open at its end, over as much of the rest as it takes to meet their markers.
The walk does not rely on `.txnindex` files, which can be lost, and begins with the first
transactional batch that a pass meets: a log without any is not walked.

The rules are Kafka's (CleanedTransactionMetadata). A transaction has data as long as one of its
batches is left, also an empty one. An abort whose transaction has data stays in the `.txnindex`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.control_records import Marker, read_marker
from protocol.legacy_batches import LegacyHeader
from protocol.record_batch import BatchHeader
from protocol.record_errors import RecordError
from storage.errors import DamagedLog
from storage.segments.checked_batches import BatchFile, Proceed, read_batches


class Abort(NamedTuple):
    """An aborted transaction: its data lie from `first_offset` to its marker."""

    first_offset: int
    producer_id: int
    marker_offset: int


class Outcomes:
    """The outcomes of the transactions in `cleaned`; `rest` is the log behind it.

    Its answers may come after a walk, and raise what that raises: DamagedLog, LogFailed, and what
    `proceed` raises. Memory: some hundred bytes for each aborted transaction that has data.
    """

    __slots__ = ("_aborts", "_cleaned", "_open", "_proceed", "_rest")

    def __init__(
        self, cleaned: Sequence[BatchFile], rest: Sequence[BatchFile], proceed: Proceed
    ) -> None:
        self._cleaned = cleaned
        self._rest = rest
        self._proceed = proceed
        self._aborts: list[Abort] | None = None
        self._open: dict[int, int] = {}  # producer id -> first offset

    def aborts(self) -> list[Abort]:
        """Return the aborted transactions that have data, by their first offsets."""
        if self._aborts is None:
            self._aborts = sorted(self._walk())
        return self._aborts

    def is_open(self, header: BatchHeader) -> bool:
        """Whether no marker ends the transaction of a data batch, as far as the log can be read."""
        self.aborts()
        return self._open.get(header.producer_id, header.next_offset) <= header.base_offset

    def _walk(self) -> Iterator[Abort]:
        begun = self._open
        for file in self._cleaned:
            for header, marker in _transactional(file, self._proceed):
                if not header.is_control:
                    begun.setdefault(header.producer_id, header.base_offset)
                elif marker is not None:
                    yield from self._ended(header, marker)
        for file in self._rest:
            if not begun:
                return
            try:
                for header, marker in _transactional(file, self._proceed):
                    if marker is not None:
                        yield from self._ended(header, marker)
            except DamagedLog:
                return  # what no marker was found for stays

    def _ended(self, header: BatchHeader, marker: Marker) -> Iterator[Abort]:
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None and not marker.is_commit:
            yield Abort(first_offset, header.producer_id, header.base_offset)


def _transactional(
    file: BatchFile, proceed: Proceed
) -> Iterator[tuple[BatchHeader, Marker | None]]:
    """Yield the headers of the transactional batches, and what they mark."""
    for position, header, batch in read_batches(file, proceed):
        if header.is_transactional and not isinstance(header, LegacyHeader):
            yield header, marker_of(file, position, header, batch)


def marker_of(
    file: BatchFile, position: int, header: BatchHeader, batch: memoryview
) -> Marker | None:
    """Return the marker that a batch holds. Raises DamagedLog if it cannot be read."""
    try:
        return read_marker(batch) if header.is_control else None
    except RecordError as error:
        raise unreadable(file, position, header, error) from error


def unreadable(
    file: BatchFile, position: int, header: BatchHeader, error: RecordError
) -> DamagedLog:
    """Return the error for a batch whose records cannot be read."""
    return DamagedLog(
        file.log_file.path,
        position,
        header.base_offset,
        found=str(error),
        wanted="records that can be read",
    )


class TransactionsPassed:
    """The transactions along one reading of the log, batch after batch."""

    __slots__ = ("_aborted_until", "_has_data", "_next", "_outcomes")

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._next = 0  # of the aborts: the first behind what was read
        self._aborted_until: dict[int, int] = {}  # producer id -> offset of its last abort's marker
        self._has_data: set[int] = set()  # producer ids: since their last marker

    def is_open(self, header: BatchHeader) -> bool:
        """Whether the transaction of a data batch has no outcome yet."""
        return self._outcomes.is_open(header)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Note a transactional data batch; return whether its transaction was aborted."""
        aborts = self._outcomes.aborts()
        while self._next < len(aborts) and aborts[self._next].first_offset <= header.base_offset:
            abort = aborts[self._next]
            self._aborted_until[abort.producer_id] = abort.marker_offset
            self._next += 1
        self._has_data.add(header.producer_id)
        return self._aborted_until.get(header.producer_id, -1) > header.base_offset

    def ended(self, header: BatchHeader) -> bool:
        """Note a producer's marker; return whether its transaction had data."""
        had_data = header.producer_id in self._has_data
        self._has_data.discard(header.producer_id)
        return had_data
