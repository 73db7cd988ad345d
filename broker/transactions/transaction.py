"""One transactional id: what it is, and the rules for what may become of it. Pure: no I/O.

Each operation is refused with a TransactionError, or planned as a `TransactionStep`: the fields
after it. The coordinator writes the record of the step, then lets the transaction `take` it:

    check, plan ── append the record (raises: nothing has changed) ── take ── answer when durable

Epochs (KIP-360, KIP-890; transaction version 1 = TV1, 2 = TV2). An id and an epoch name one
producer. InitProducerId raises the epoch, which fences whoever had it before. With TV2, every end
of a transaction raises it too, so (producer id, epoch + 1) names one decision for ever: a delayed
EndTxn cannot touch the next transaction. TV1 keeps the epoch, except where the coordinator itself
aborts: after a timeout, for a new instance and for an operator. Epochs end at 32,767, which no
client ever holds: an end that raises 32,766 prepares a new producer id as well, which takes over
with epoch 0 when the transaction is complete.

A retry is known by the epoch before: for InitProducerId `last_epoch`, which is in memory alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from broker.partitions.partition import Partition
from broker.runtime.clock import MS_NS
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import (
    EndReason,
    TransactionEvent,
    TransactionState,
    next_state,
)
from broker.transactions.transaction_step import TV1, TV2, TransactionStep
from protocol.errors import ErrorCode
from protocol.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionPartitions,
    TransactionValue,
)

EPOCH_LAST: Final = 32_766  # that a client ever gets
_STEP_FIELDS: Final = [name for name in TransactionStep._fields if name != "added"]

Place = tuple[str, int]  # topic and partition


class Written(NamedTuple):
    """Where a record of `__transaction_state` is: durable with its partition up to `end_offset`."""

    partition: Partition
    end_offset: int

    @property
    def is_durable(self) -> bool:
        """Whether it is on the disk."""
        return self.partition.log.durable_offset >= self.end_offset


class LastEnd(NamedTuple):
    """How the last transaction of an id ended; in memory only."""

    is_commit: bool
    reason: EndReason
    ended_ms: int


class TransactionFields:
    """A transactional id and its transaction as they are; times in ms of the wall clock."""

    __slots__ = (
        "awaited",
        "client_version",
        "due_ns",
        "epoch",
        "is_ending",
        "is_held",
        "is_reopened",
        "last_end",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_id",
        "started_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "updated_ms",
        "written",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER_ID
        self.next_producer_id = NO_PRODUCER_ID
        self.epoch = NO_PRODUCER_EPOCH
        self.last_epoch = NO_PRODUCER_EPOCH
        self.timeout_ms = timeout_ms
        self.state = TransactionState.EMPTY
        self.partitions: dict[str, dict[int, None]] = {}  # by topic, in the order they came
        self.updated_ms = NO_TIMESTAMP
        self.started_ms = NO_TIMESTAMP
        self.due_ns: int | None = None  # of the open transaction, once somebody has looked
        self.client_version = TV1
        self.is_ending = False  # closed to everything from the first step of its end
        self.is_held = False  # closed to everything until a log says how it ended
        self.is_reopened = False  # for an implicit add after TV1 (`broker.transactions.reopening`)
        self.awaited: Written | None = None  # before it is durable, no data may come
        self.written: Written | None = None  # its last record
        self.last_end: LastEnd | None = None

    @classmethod
    def of_value(cls, transactional_id: str, value: TransactionValue) -> Self:
        """Return the transaction of a record."""
        made = cls(transactional_id, value.producer_id, value.transaction_timeout_ms)
        made.previous_producer_id = value.previous_producer_id
        made.next_producer_id = value.next_producer_id
        made.epoch = value.producer_epoch
        made.state = TransactionState(value.transaction_status)
        made.updated_ms = value.transaction_last_update_timestamp_ms
        made.started_ms = value.transaction_start_timestamp_ms
        made.client_version = value.client_transaction_version
        for topic in value.transaction_partitions or ():
            made.partitions[topic.topic] = dict.fromkeys(topic.partition_ids)
        return made

    @property
    def is_busy(self) -> bool:
        """Whether it is being ended, or held: everything else is refused for as long."""
        return self.is_held or self.is_busy_ending

    @property
    def is_busy_ending(self) -> bool:
        """Whether it is being ended."""
        return self.is_ending or self.state.is_prepared

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left that a client may have: a new producer id comes next."""
        return self.epoch >= EPOCH_LAST

    @property
    def partition_count(self) -> int:
        """How many partitions the open transaction has."""
        return sum(map(len, self.partitions.values()))

    def is_open_in(self, topic: str, partition: int) -> bool:
        """Whether a transaction is open, and has a partition."""
        is_open = self.state is TransactionState.ONGOING
        return is_open and partition in self.partitions.get(topic, ())

    def places(self) -> Iterable[Place]:
        """Yield the partitions of the open transaction."""
        for topic, numbers in self.partitions.items():
            for number in numbers:
                yield topic, number

    def is_due(self, now_ms: int, now_ns: int) -> bool:
        """Whether an open transaction has lasted longer than it may; `now_ns` is monotonic time.

        The first look says when it will have: who sets the wall clock later changes nothing.
        """
        if self.state is not TransactionState.ONGOING or self.is_busy:
            return False
        if self.due_ns is None:
            left_ms = min(self.started_ms + self.timeout_ms - now_ms, self.timeout_ms)
            self.due_ns = now_ns + left_ms * MS_NS
        return self.due_ns < now_ns

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id was unused for `expiration_ms`. An open transaction never expires."""
        is_idle = self.state.is_idle and not self.is_busy
        return is_idle and self.updated_ms + expiration_ms <= now_ms

    def value_after(self, step: TransactionStep) -> TransactionValue:
        """Return the record of `step`, as Kafka 4.3 writes it."""
        partitions: list[TransactionPartitions] | None = []
        if step.state is TransactionState.EMPTY:
            partitions = None
        elif step.state is TransactionState.ONGOING or step.state.is_prepared:
            partitions = self._partitions_after(step.added)
        return TransactionValue(
            producer_id=step.producer_id,
            producer_epoch=step.epoch,
            transaction_timeout_ms=step.timeout_ms,
            transaction_status=step.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=step.updated_ms,
            transaction_start_timestamp_ms=step.started_ms,
            previous_producer_id=self.producer_id,
            next_producer_id=step.next_producer_id,
            client_transaction_version=step.client_version,
        )

    def value(self) -> TransactionValue:
        """Return the record of the transaction as it is."""
        value = self.value_after(TransactionStep(*(getattr(self, name) for name in _STEP_FIELDS)))
        return replace(value, previous_producer_id=self.previous_producer_id)

    def _partitions_after(
        self, added: Mapping[str, Mapping[int, None]]
    ) -> list[TransactionPartitions]:
        return [
            TransactionPartitions(
                topic=topic,
                partition_ids=[*self.partitions.get(topic, ()), *added.get(topic, ())],
            )
            for topic in {**self.partitions, **added}
        ]

    def take(self, step: TransactionStep) -> None:
        """Become what `step` says: its record is in the log."""
        self.previous_producer_id = self.producer_id
        self.producer_id = step.producer_id
        self.next_producer_id = step.next_producer_id
        self.epoch = step.epoch
        self.last_epoch = step.last_epoch
        self.timeout_ms = step.timeout_ms
        self.state = step.state
        self.updated_ms = step.updated_ms
        self.started_ms = step.started_ms
        self.client_version = step.client_version
        self.is_reopened = False
        if step.state is not TransactionState.ONGOING:
            self.due_ns = None
        if step.state.is_idle:
            self.partitions = {}
        for topic, numbers in step.added.items():
            self.partitions.setdefault(topic, {}).update(numbers)


class Transaction(TransactionFields):
    """One transactional id, with its rules."""

    __slots__ = ()

    def _step(self, event: TransactionEvent, now_ms: int, **changed: Any) -> TransactionStep:
        fields = {
            "producer_id": self.producer_id,
            "epoch": self.epoch,
            "last_epoch": self.last_epoch,
            "timeout_ms": self.timeout_ms,
            "started_ms": self.started_ms,
            "client_version": self.client_version,
            **changed,
        }
        return TransactionStep(state=next_state(self.state, event), updated_ms=now_ms, **fields)

    # -- InitProducerId ---------------------------------------------------------------------------

    def check_init(self, expected: tuple[int, int] | None) -> None:
        """Refuse a producer that is not the one it says it is; `expected`: its id and epoch.

        Raises TransactionError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        if self.is_busy:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is None or self.epoch == NO_PRODUCER_EPOCH:
            return
        producer_id, epoch = expected
        is_before_exhaustion = producer_id == self.previous_producer_id and epoch >= EPOCH_LAST
        if producer_id != self.producer_id and not is_before_exhaustion:
            raise TransactionError(ErrorCode.PRODUCER_FENCED)
        is_current = producer_id == self.producer_id and epoch == self.epoch
        # Kafka lets any epoch abort what is open. A fenced instance could do that to its successor.
        is_retry = epoch == self.last_epoch and self.state is not TransactionState.ONGOING
        if not (is_current or is_retry):
            raise TransactionError(ErrorCode.PRODUCER_FENCED)

    def wants_producer_id(self, expected: tuple[int, int] | None) -> bool:
        """Whether InitProducerId gives out a new producer id, since the epochs are used up."""
        return self.is_exhausted and (expected is None or expected[1] == self.epoch)

    def init_step(
        self,
        expected: tuple[int, int] | None,
        timeout_ms: int,
        now_ms: int,
        new_producer_id: int = NO_PRODUCER_ID,
    ) -> TransactionStep:
        """Return the step of a checked InitProducerId while nothing is open.

        `new_producer_id` is needed if `wants_producer_id` says so.
        """
        changed = {
            "timeout_ms": timeout_ms,
            "started_ms": NO_TIMESTAMP,
            "epoch": self.epoch + 1,
            "last_epoch": self.epoch,
        }
        if self.wants_producer_id(expected):
            assert new_producer_id != NO_PRODUCER_ID, "the caller gets one"
            changed |= {"producer_id": new_producer_id, "epoch": 0}
        elif expected is None:
            changed["last_epoch"] = NO_PRODUCER_EPOCH
        elif self.epoch not in (NO_PRODUCER_EPOCH, expected[1]):  # a retry
            changed |= {"epoch": self.epoch, "last_epoch": self.last_epoch}
        return self._step(TransactionEvent.INIT, now_ms, **changed)

    # -- Adding partitions ------------------------------------------------------------------------

    def check_producer(self, producer_id: int, epoch: int) -> None:
        """Refuse another producer than the id's current one, and all while it is being ended.

        Raises TransactionError: CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING,
        PRODUCER_FENCED.
        """
        if self.is_busy:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if producer_id != self.producer_id:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != self.epoch:
            raise TransactionError(ErrorCode.PRODUCER_FENCED)

    def add_step(
        self, wanted: Mapping[str, Iterable[int]], now_ms: int, client_version: int
    ) -> TransactionStep | None:
        """Return the step that adds partitions; None if all are in the open transaction."""
        is_open = self.state is TransactionState.ONGOING
        added: dict[str, dict[int, None]] = {}
        for topic, numbers in wanted.items():
            known = self.partitions.get(topic, ())  # perhaps many: not to be walked
            new = {number: None for number in numbers if number not in known}
            if new:
                added[topic] = new
        if is_open and not added:
            return None
        return self._step(
            TransactionEvent.ADD,
            now_ms,
            started_ms=self.started_ms if is_open else now_ms,
            client_version=client_version,
            added=added,
        )

    def check_end(self, producer_id: int, epoch: int, *, is_commit: bool, bumps: bool) -> bool:
        """Return whether an EndTxn ends something; False: it did already, and is answered again.

        `bumps`: it is of TV2. Raises TransactionError: CONCURRENT_TRANSACTIONS,
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE.
        """
        if self.is_busy:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS)
        is_retry = False
        if producer_id != self.producer_id:
            was_used_up = producer_id == self.previous_producer_id and epoch == EPOCH_LAST
            is_retry = bumps and was_used_up and self.epoch == 0
            if not is_retry:
                raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif epoch != self.epoch:
            is_retry = bumps and epoch + 1 == self.epoch
            if not is_retry:
                raise TransactionError(ErrorCode.PRODUCER_FENCED)
        if self.state is TransactionState.ONGOING:
            if is_retry:  # of an EndTxn of the transaction before
                raise TransactionError(ErrorCode.PRODUCER_FENCED)
            return True
        return self._check_end_of_nothing(is_commit=is_commit, bumps=bumps, is_retry=is_retry)

    def _check_end_of_nothing(self, *, is_commit: bool, bumps: bool, is_retry: bool) -> bool:
        done = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        if self.state is done and is_retry and self.client_version < TV2:
            # An end of TV1 has raised no epoch: the one before it is a fenced instance's.
            raise TransactionError(ErrorCode.PRODUCER_FENCED)
        if self.state is done and (is_retry or not bumps):
            return False
        if bumps and not is_commit and not is_retry:
            return True  # an abort of nothing raises the epoch
        if bumps and not is_commit and self.state is TransactionState.EMPTY:
            raise TransactionError(ErrorCode.PRODUCER_FENCED)
        raise TransactionError(ErrorCode.INVALID_TXN_STATE)

    def end_step(
        self, now_ms: int, *, is_commit: bool, bumps: bool, new_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionStep:
        """Return the step to Prepare*, in which all markers get the new epoch.

        `new_producer_id` is needed with `bumps` when the epochs are exhausted.
        """
        event = TransactionEvent.COMMIT if is_commit else TransactionEvent.ABORT
        changed = {"client_version": TV2 if bumps else TV1}
        if bumps:
            changed |= {"epoch": self.epoch + 1, "last_epoch": self.epoch}
            if self.is_exhausted:
                assert new_producer_id != NO_PRODUCER_ID, "the caller gets one"
                changed |= {"epoch": EPOCH_LAST + 1, "next_producer_id": new_producer_id}
        if self.state is not TransactionState.ONGOING:
            changed["started_ms"] = now_ms
        return self._step(event, now_ms, **changed)

    def complete_step(self, now_ms: int) -> TransactionStep:
        """Return the step from Prepare* to Complete*."""
        changed = {}
        if self.next_producer_id != NO_PRODUCER_ID:
            changed = {"producer_id": self.next_producer_id, "epoch": 0}
        return self._step(TransactionEvent.COMPLETED, now_ms, **changed)
