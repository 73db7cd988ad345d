"""The state of one partition's idempotent producers: it detects duplicates and lost batches.

A producer numbers its batches: `base_sequence` counts records from 0 and wraps from 2^31-1 to 0.
The partition keeps, for each producer id, the epoch and the last five batches (Kafka's
ProducerStateEntry; five, because a client keeps at most five requests in flight). From that
follow four answers to a batch:

    known      its epoch and sequence range equal those of a kept batch: a duplicate. It is
               acknowledged with the offsets of the original and not appended.
    next       it continues the last batch, or starts at 0 with a newer epoch, or comes from a
               producer that is unknown here (expired, or all its records were deleted): it is
               appended.
    in doubt   damage in the log hides whether it is known or next: ProducerInDoubt.
    wrong      OutOfOrderSequence, or InvalidProducerEpoch for an older epoch.

The state is a function of the log and of the time at which producers expire. Snapshots keep it
(`storage.producers.snapshot_format`), so that a start need not replay the whole log.

Kafka expires a producer by the timestamps in its records. Here an entry also has the time of its
last append, and the later of the two counts: a producer that sends old timestamps keeps its
protection against duplicates.

A transactional batch opens a transaction (`txn_first_offset`), which a marker ends. What is open
holds the log's last stable offset back (`storage.producers.open_transactions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from protocol.control_records import Marker
from protocol.record_batch import TRANSACTIONAL, BatchHeader
from storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    ProducerInDoubt,
    TransactionOpen,
)
from storage.producers.open_transactions import (
    EndedTransaction,
    OpenTransaction,
    OpenTransactions,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_COORDINATOR_EPOCH = -1
EPOCHS_RISE_SINCE = 2  # the transaction version whose markers have the epoch after the data's
SEQUENCE_MAX = 2**31 - 1
PRODUCERS_A_STEP = 5_000  # checking them takes about a millisecond
BATCHES_KEPT = 5  # Kafka: ProducerStateEntry.NUM_BATCHES_TO_RETAIN


class AppendedBatch(NamedTuple):
    """One batch of a producer that is in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The batch's first sequence number; sequences wrap from 2^31-1 to 0."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + SEQUENCE_MAX + 1

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch and its last batches, oldest first, never more than five."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "generation",
        "last_timestamp",
        "producer_id",
        "seen_ms",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_PRODUCER_EPOCH,
        *,
        batches: Iterable[AppendedBatch] = (),
        last_timestamp: int = NO_TIMESTAMP,
        seen_ms: int = NO_TIMESTAMP,
        coordinator_epoch: int = -1,
        txn_first_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches = list(batches)
        self.last_timestamp = last_timestamp
        self.seen_ms = seen_ms
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn_first_offset
        self.generation = 0  # of the state: entries of an older one are frozen

    def copy(self, generation: int) -> ProducerEntry:
        """Return a copy that may be changed while the state has that generation."""
        copy = ProducerEntry(
            self.producer_id,
            self.epoch,
            batches=self.batches,
            last_timestamp=self.last_timestamp,
            seen_ms=self.seen_ms,
            coordinator_epoch=self.coordinator_epoch,
            txn_first_offset=self.txn_first_offset,
        )
        copy.generation = generation
        return copy

    @property
    def last_sequence(self) -> int:
        """The last sequence number in the log, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the producer was idle for `expiration_ms`. Open transactions never expire."""
        heard_ms = max(self.last_timestamp, self.seen_ms)
        return self.txn_first_offset < 0 and now_ms - heard_ms >= expiration_ms

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerEntry):
            return NotImplemented
        names = [name for name in self.__slots__ if name != "generation"]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"ProducerEntry({self.producer_id}, epoch={self.epoch}, batches={self.batches}, "
            f"last_timestamp={self.last_timestamp}, seen_ms={self.seen_ms}, "
            f"coordinator_epoch={self.coordinator_epoch}, "
            f"txn_first_offset={self.txn_first_offset})"
        )


class ProducerState:
    """The producers of one partition.

    `end_offset` is the offset up to which the state reflects the log. `changes` counts the batches
    since the last snapshot; the owner resets it. `damaged_below` is set if some batches below that
    offset could not be read.

    An entry that `frozen` has returned does not change any more: its next batch goes into a copy.
    So writing 100,000 producers in another thread costs this one only a list of them.

    `witness` is an entry with a coordinator epoch, if the log has had a marker. It goes into each
    snapshot, also when its producer has expired: it says that transactions may have been aborted.
    """

    __slots__ = (
        "_generation",
        "changes",
        "damaged_below",
        "end_offset",
        "entries",
        "transactions",
        "witness",
    )

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self.witness: ProducerEntry | None = None
        self._generation = 0
        self.end_offset = 0
        self.changes = 0
        self.damaged_below = 0

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Check a client's batch before it is appended; the state does not change.

        Returns the original when the batch is a duplicate, None when it may be appended.
        Raises InvalidProducerEpoch, OutOfOrderSequence and TransactionOpen (Kafka:
        ProducerAppendInfo), and ProducerInDoubt.
        """
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if self.damaged_below and self._is_in_doubt(header, entry):
            raise ProducerInDoubt(producer_id, header.base_sequence, self.damaged_below)
        if entry is None:
            return None
        epoch = header.producer_epoch
        first = header.base_sequence
        if epoch == entry.epoch:
            batches = entry.batches
            if not batches:
                last = NO_SEQUENCE
            else:
                last = batches[-1].last_sequence
                if first != last + 1:
                    # Nearly all batches are in order; only the others are searched for.
                    last_sequence = header.last_sequence
                    for batch in batches:
                        if batch.last_sequence == last_sequence and batch.first_sequence == first:
                            return batch
            if first != last + 1 and (first != 0 or last != SEQUENCE_MAX):
                raise OutOfOrderSequence(producer_id, first, (last + 1) & SEQUENCE_MAX)
        elif epoch < entry.epoch:
            raise InvalidProducerEpoch(producer_id, epoch, entry.epoch)
        elif first != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(producer_id, first, 0)
        if entry.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
            raise TransactionOpen(producer_id, entry.txn_first_offset)
        return None

    def check_begin(self, header: BatchHeader) -> None:
        """Check a batch of a transaction of version 2, which `check` lets pass.

        Each of its epochs begins with sequence 0 in each partition, so what came before the first
        batch of an unknown producer is missing. Raises OutOfOrderSequence.
        """
        if header.base_sequence and header.producer_id not in self.entries:
            raise OutOfOrderSequence(header.producer_id, header.base_sequence, 0)

    def check_marker(self, marker: Marker, version: int) -> None:
        """Check a marker of transaction version `version` that was not asked for by a coordinator.

        Version 2 ends a transaction with the epoch after its data's. Its repetition, with nothing
        open, is harmless (KIP-1228, KAFKA-19999). Raises InvalidProducerEpoch, CoordinatorFenced.
        """
        entry = self.entries.get(marker.producer_id)
        if entry is None:
            return
        epoch = marker.producer_epoch
        ends_its_own = version >= EPOCHS_RISE_SINCE and entry.txn_first_offset >= 0
        if epoch < entry.epoch or (ends_its_own and epoch == entry.epoch):
            raise InvalidProducerEpoch(marker.producer_id, epoch, entry.epoch + ends_its_own)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(
                marker.producer_id, marker.coordinator_epoch, entry.coordinator_epoch
            )

    def _is_in_doubt(self, header: BatchHeader, entry: ProducerEntry | None) -> bool:
        """Whether the batch may be one of those that could not be read.

        Never true for a producer's first batch: new producers can write to a damaged log.
        """
        if entry is None:
            return header.base_sequence > 0
        if entry.batches and entry.batches[-1].last_offset >= self.damaged_below:
            return False
        return header.producer_epoch <= entry.epoch or header.base_sequence > 0

    def take(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Add a data batch that is in the log at `base_offset`.

        Nothing is checked: the batch has passed `check`, or is replayed.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.generation != self._generation:
            entry = self._own(header.producer_id, entry)
        if entry.epoch != header.producer_epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(AppendedBatch(header.last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        entry.seen_ms = now_ms
        if header.attributes & TRANSACTIONAL and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self.transactions.begin(base_offset, header.producer_id)
        self.changes += 1

    def take_marker(
        self, header: BatchHeader, coordinator_epoch: int, offset: int, now_ms: int
    ) -> EndedTransaction:
        """Add a control batch that is in the log at `offset` and ends a producer's transaction.

        The transaction stays unsettled. The coordinator epoch is -1 if compaction has emptied the
        batch. Returns what the marker has ended.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.generation != self._generation:
            entry = self._own(header.producer_id, entry)
        first_offset = entry.txn_first_offset
        closed_epoch = entry.epoch if first_offset >= 0 else None
        if entry.epoch != header.producer_epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        if coordinator_epoch != NO_COORDINATOR_EPOCH:
            entry.coordinator_epoch = coordinator_epoch
            self.witness = entry
        entry.last_timestamp = header.max_timestamp
        entry.seen_ms = now_ms
        entry.txn_first_offset = -1
        self.changes += 1
        self.transactions.end(first_offset, offset)
        return EndedTransaction(closed_epoch, first_offset, self.transactions.first_open)

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the transactions that no marker has ended, by their first offsets."""
        entries = self.entries
        return [
            OpenTransaction(producer_id, entries[producer_id].epoch, first_offset)
            for first_offset, producer_id in self.transactions.open_ones()
        ]

    def first_open_offset_of(self, producer_id: int) -> int:
        """Return the first offset of a producer's open transaction, or -1."""
        entry = self.entries.get(producer_id)
        return -1 if entry is None else entry.txn_first_offset

    def _own(self, producer_id: int, entry: ProducerEntry | None) -> ProducerEntry:
        """Return an entry of the producer that may be changed."""
        if entry is not None:
            own = entry.copy(self._generation)
        else:
            own = ProducerEntry(producer_id)
            if self.witness is not None and self.witness.producer_id == producer_id:
                own.coordinator_epoch = self.witness.coordinator_epoch
        own.generation = self._generation
        self.entries[producer_id] = own
        return own

    def frozen(self) -> list[ProducerEntry]:
        """Return every entry as it is now; they never change again, so any thread may read them."""
        self._generation += 1
        entries, witness = list(self.entries.values()), self.witness
        if witness is not None and witness.producer_id not in self.entries:
            entries.append(witness)
        return entries

    def is_last_of_its_producer(self, header: BatchHeader) -> bool:
        """Whether a batch of the log is the newest that says what a producer sent last.

        That is its last data batch or, if no data of its epoch are in the log, a marker of that
        epoch. Another thread than the log's may call this; its answer may be a moment old.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return False
        try:
            return entry.batches[-1].last_offset == header.last_offset
        except IndexError:
            return header.is_control and header.producer_epoch == entry.epoch

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that were idle for `expiration_ms`; return how many."""
        return sum(self.expiring(now_ms, expiration_ms))

    def expiring(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """As `expire`, in steps of some thousand producers; yields how many each step forgot."""
        looked_at = list(self.entries)
        for start in range(0, len(looked_at), PRODUCERS_A_STEP):
            before = len(self.entries)
            for producer_id in looked_at[start : start + PRODUCERS_A_STEP]:
                entry = self.entries.get(producer_id)
                if entry is not None and entry.is_expired(now_ms, expiration_ms):
                    del self.entries[producer_id]
            yield before - len(self.entries)

    def replace(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        """Start over from a snapshot that reflects the log up to `end_offset`."""
        self.entries = {entry.producer_id: entry for entry in entries}
        self.witness = next((e for e in self.entries.values() if e.coordinator_epoch >= 0), None)
        self.transactions = OpenTransactions()
        for first_offset, producer_id in sorted(
            (entry.txn_first_offset, entry.producer_id)
            for entry in self.entries.values()
            if entry.txn_first_offset >= 0
        ):
            self.transactions.begin(first_offset, producer_id)
        self._generation += 1
        self.end_offset = end_offset
        self.changes = 0
