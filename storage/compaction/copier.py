"""Copies the records that compaction keeps; runs in a thread, on files that nothing else changes.

    index_keys   dirty segments -> the newest offset of each key, as far as the map has room
    copy_live    a group of segments -> one cleaned segment, with its indexes

Below the offset that the map has reached, a record stays if it is the newest of its key and has a
value. One without a value (a tombstone) stays until the delete horizon of its batch has passed; the
horizon is set when a batch with a tombstone is first copied. Records without a key, written before
the topic was compacted, are removed. A batch that loses all its records keeps its header if that
holds a producer's last sequence or the last offset of the pass. (Kafka: Cleaner, KIP-534.)

Data of aborted transactions are removed at once, whatever their keys, and those of committed ones
like others (`storage.compaction.outcomes`). A marker stays until no data of its transaction are
left; then it gets a delete horizon, and goes when that has passed. What is left of the last marker
of a producer without other batches is its header, which fences the epochs before it.

Messages of magic 0 and 1, control batches of other kinds, and data of transactions whose marker
cannot be read are copied unchanged, and their records are not indexed. After the first of them
tombstones are kept as well, since the records that they delete may be among these.

Every batch is checked first (`storage.segments.checked_batches`). The first damaged one ends the
pass with `DamagedLog`, which names file and position; the log is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from protocol.control_records import Marker
from protocol.legacy_batches import LegacyHeader
from protocol.record_batch import BatchHeader, read_header
from protocol.record_errors import RecordError
from protocol.record_spans import Span, emptied, open_batch, read_spans, rewrite
from storage.compaction.key_map import KeyMap
from storage.compaction.outcomes import Outcomes, TransactionsPassed, marker_of, unreadable
from storage.files.filesystem import Buffer
from storage.producers.producer_state import ProducerState
from storage.segments.checked_batches import InactiveFile, Proceed, read_batches
from storage.segments.segment import Segment

CHUNK_BYTES = 1024 * 1024  # written at a time
TIMESTAMP_MAX = 2**63 - 1
SYNC_BYTES = 16 * CHUNK_BYTES  # synced at a time: one large fsync would delay the producers'


@dataclass(slots=True)
class PassCounts:
    """What a pass has read and written so far, in bytes and records."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """The rules for what stays besides the newest record of each key. Times in ms."""

    now_ms: int
    delete_retention_ms: int
    end_offset: int  # of the pass: the last batch below it keeps at least its header
    decompressed_bytes_max: int


def index_keys(
    sources: Sequence[InactiveFile],
    start_offset: int,
    keys: KeyMap,
    outcomes: Outcomes,
    decompressed_bytes_max: int,
    proceed: Proceed,
) -> int:
    """Put the keys from `start_offset` on into the map; return the offset that was reached.

    That is the end of the sources, or less if the map is full. Raises DamagedLog, LogFailed.
    """
    reached = start_offset
    transactions = TransactionsPassed(outcomes)
    for source in sources:
        for position, header, batch in read_batches(source, proceed):
            if header.last_offset < start_offset:
                continue
            try:
                if not _is_indexed(header, transactions):
                    reached = header.next_offset
                    continue
                body = open_batch(header, batch, decompressed_bytes_max)
                for span in read_spans(header, body):
                    if span.key is None or span.offset < start_offset:
                        continue
                    if not keys.put(span.key, span.offset):
                        return reached
                    reached = span.offset + 1
            except RecordError as error:
                raise unreadable(source, position, header, error) from error
            reached = header.next_offset
        reached = max(reached, source.end_offset)
    return reached


def _is_indexed(header: BatchHeader, transactions: TransactionsPassed) -> bool:
    """Whether the keys of a batch count: not of aborted data, nor of what is copied unchanged."""
    if header.is_control or isinstance(header, LegacyHeader):
        return False
    return not header.is_transactional or not (
        transactions.is_open(header) or transactions.is_aborted(header)
    )


class Copier:
    """Copies what stays, segment after segment; keys are known below offset `reached`.

    One copier serves a whole pass, in the order of offsets: it remembers the transactions that it
    has met, and whether it has copied a batch unchanged that was not indexed. `aborts` are the
    markers' offsets of the aborted transactions in what `copy_live` has copied last that have data.
    """

    __slots__ = (
        "_after_copied", "_counts", "_keys", "_proceed", "_producers", "_reached", "_rules",
        "_transactions", "aborts",
    )  # fmt: skip

    def __init__(
        self,
        keys: KeyMap,
        reached: int,
        outcomes: Outcomes,
        rules: KeepRules,
        proceed: Proceed,
        counts: PassCounts,
    ) -> None:
        self._keys = keys
        self._reached = reached
        self._rules = rules
        self._proceed = proceed
        self._counts = counts
        self._after_copied = False
        self._transactions = TransactionsPassed(outcomes)
        self._producers = ProducerState()
        self.aborts: set[int] = set()

    def copy_live(
        self, sources: Sequence[InactiveFile], cleaned: Segment, producers: ProducerState
    ) -> bool:
        """Copy what stays of `sources` to `cleaned`, with indexes; return whether it differs.

        `producers` is the log's state, which changes meanwhile. The last bytes are not synced.
        Raises DamagedLog, AppendFailed, OSError, and what `proceed` raises.
        """
        self._producers = producers
        self.aborts = set()
        pending = _Pending(cleaned, self._proceed)
        is_changed = False
        for source in sources:
            for position, header, batch in read_batches(source, self._proceed):
                self._counts.records_read += header.record_count
                try:
                    if header.is_control and not isinstance(header, LegacyHeader):
                        marker = marker_of(source, position, header, batch)
                        kept = self._control(header, batch, marker)
                    else:
                        kept = self._data(header, batch)
                except RecordError as error:
                    raise unreadable(source, position, header, error) from error
                is_changed |= kept is not batch
                if kept is not None:
                    pending.add(kept, header if kept is batch else read_header(kept))
            self._counts.bytes_read += source.size
        pending.write()
        self._counts.bytes_written += cleaned.size
        cleaned.on_roll()
        return is_changed

    def _control(
        self, header: BatchHeader, batch: memoryview, marker: Marker | None
    ) -> Buffer | None:
        """Return what stays of a control batch, as `_filtered`."""
        if not header.record_count:  # emptied by an earlier pass
            return self._without_records(header, batch)
        if marker is None:
            return self._unchanged(header, batch)
        if self._transactions.ended(header):
            if not marker.is_commit:
                self.aborts.add(header.base_offset)
        elif header.has_delete_horizon:
            if self._rules.now_ms >= header.base_timestamp:
                return self._without_records(header, batch)
        else:
            self._counts.records_kept += header.record_count
            body = open_batch(header, batch, self._rules.decompressed_bytes_max)
            return rewrite(header, body, read_spans(header, body), self._horizon_ms())
        self._counts.records_kept += header.record_count
        return batch

    def _data(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return what stays of a batch that is not a control batch, as `_filtered`."""
        if isinstance(header, LegacyHeader):
            return self._unchanged(header, batch)
        if header.is_transactional:
            is_aborted = self._transactions.is_aborted(header)
            if self._transactions.is_open(header):
                return self._unchanged(header, batch)
            if is_aborted:
                return self._without_records(header, batch)
        return self._filtered(header, batch)

    def _unchanged(self, header: BatchHeader, batch: memoryview) -> Buffer:
        self._after_copied = True
        self._counts.records_kept += header.record_count
        return batch

    def _without_records(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        if not self._must_stay(header):
            return None
        return emptied(header) if header.record_count else batch

    def _horizon_ms(self) -> int:
        """Capped at 64 bits: delete.retention.ms may mean forever."""
        return min(self._rules.now_ms + self._rules.delete_retention_ms, TIMESTAMP_MAX)

    def _filtered(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return what stays of a batch: the batch itself, a rewritten one, or None."""
        body = open_batch(header, batch, self._rules.decompressed_bytes_max)
        reached, newest = self._reached, self._keys.get
        keeps_tombstones = (
            self._after_copied
            or not header.has_delete_horizon
            or self._rules.now_ms < header.base_timestamp
        )

        def kept() -> Iterator[Span]:
            """Iterate over the records that stay: no list, since a batch may have millions."""
            return (
                span
                for span in read_spans(header, body)
                if span.offset >= reached
                or (
                    span.key is not None
                    and (span.has_value or keeps_tombstones)
                    and span.offset >= newest(span.key)
                )
            )

        kept_count = tombstone_count = 0
        for span in kept():
            kept_count += 1
            tombstone_count += not span.has_value
        self._counts.records_kept += kept_count
        if not kept_count:
            return self._without_records(header, batch)
        needs_horizon = not header.has_delete_horizon and tombstone_count > 0
        if kept_count == header.record_count and not needs_horizon:
            return batch
        return rewrite(header, body, kept(), self._horizon_ms() if needs_horizon else None)

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether the header of a batch without records must stay."""
        if header.next_offset == self._rules.end_offset:
            return True
        return self._producers.is_last_of_its_producer(header)


class _Pending:
    """Batches for the cleaned segment, written many at a time."""

    def __init__(self, segment: Segment, proceed: Proceed) -> None:
        self._segment = segment
        self._proceed = proceed
        self._data = bytearray()
        self._headers: list[BatchHeader] = []
        self._synced_size = 0

    def add(self, batch: Buffer, header: BatchHeader) -> None:
        self._data += batch
        self._headers.append(header)
        if len(self._data) >= CHUNK_BYTES:
            self.write()

    def write(self) -> None:
        if not self._data:
            return
        position = self._segment.log_file.append(self._data)
        self._proceed(len(self._data))
        for header in self._headers:
            self._segment.note_batch(position, header)
            position += header.size
        self._data = bytearray()
        self._headers.clear()
        if position - self._synced_size >= SYNC_BYTES:
            self._segment.log_file.file().fdatasync()
            self._synced_size = position
