"""Holds the record of a transactional id against what the logs say, at a start. Nothing but that.

A crash may take the tail of any log, of each a different one. What may be missing follows from the
order of writes (docs/transactions.md): a marker of a TV2 end goes to the disk beside the decision
that it carries out, so each may outlive the other; and the record Ongoing goes there beside the
data, so data may outlive it. What is never missing: the epoch that a client was given, the decision
of an end that was answered, and, once a log has forgotten a marker or `__transaction_state` has a
later record, all markers of the end before.

TV1 ends with EndTxn up to version 4, in the epoch of the data: its markers name a producer, not a
transaction. TV2 (EndTxn 5), a timeout and a fence end in the epoch after the data's: (producer id,
epoch) names one decision for ever. With c the epoch in the record, each open transaction of the
producer is judged by the first rule that fits:

    1  a marker above c ended data of the epoch before     the marker is the decision, for all
    2  open at c-1; a decision at c, of an end that
       raises the epoch                                    that outcome
    3  open at c; Prepare of an EndTxn up to 4             that outcome: its marker is missing
    4  open at c; Prepare of TV2                           Prepare is finished, then as 5
    5  open at c; Empty, Ongoing, or TV2's Complete        it is the current transaction
    6  anything else                                       left to the operator, and named

Why in this order, and what breaks without it:

- 1 before all: the marker may be read already, so no other outcome is possible. If the record says
  Ongoing, a timeout would abort what one partition has committed. It holds with nothing left open
  too: a client that asks again, or a timeout, must get this outcome. The record may also say Empty
  or Complete (the record Ongoing is lost), or Prepare (of the transaction before).
- 2 before 3: a timeout of a TV1 transaction raises the epoch as well, so its data are at c-1. This
  rule also ends what Kafka left behind, whose Complete may be on a disk that no marker reached. But
  EndTxn up to 4 says nothing of the epoch before: a TV1 commit at c does not decide what is open at
  c-1, and a finished TV1 abort only if one of its markers shows that it was a timeout.
- 3 before 5: at c of TV1 a decision wins over "the current transaction", since the next one of TV1
  begins once Complete is durable.
- 4, not 3, for TV2: at c is the data of the next transaction, whose Ongoing is lost. A marker of
  Prepare would end it with the outcome of the one before. So what is missing of Prepare goes only
  where data of c-1 are open, and not, as in Kafka, to every partition of its list.
- 5 adds the partition: otherwise the commit of the client would leave out acknowledged records.
- 6 last: Complete of TV1 with data open at c is Kafka's (its marker is lost, or its next Ongoing).
  Which of the two cannot be told, so it is neither ended nor timed out. The producer id must not be
  used again there: its next marker would end these data too. It is retired, by an epoch that is
  used up; the next InitProducerId gives the id a new one. It is never ours, as long as an implicit
  add after an EndTxn up to 4 lets data in only once its Ongoing (not only Complete) is durable.

At epoch 32767 a producer id is used up (`EPOCH_USED_UP`). Markers carry 32767 and the old id, the
decision names the next id, and Complete has that at epoch 0. So data of the old id at 32766 are at
"c-1", and data of the next id at 0 are at "c". If the decision is lost, so is the next id, which
no client was told: the caller chooses another (`Decision.lacks_producer_id`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker.transactions.evidence import (
    Evidence,
    OpenPart,
    Place,
    ProducerEvidence,
)
from broker.transactions.transaction_states import IDLE, TransactionState
from protocol.transaction_records import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TransactionPartitions,
    TransactionValue,
)

EPOCH_USED_UP: Final = 32_767
TV2: Final = 2

_PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMMITTED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


class LeftOpen(NamedTuple):
    """An open transaction that no rule ends."""

    producer_id: int
    transaction: OpenPart


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one transactional id: its states, one after the other.

    A Prepare among `stages` names the partitions that lack its marker. Each is finished before the
    next stage. If the last one is a Prepare, its Complete follows; else the last is the state that
    clients meet. `left` is for the operator.
    """

    stages: tuple[TransactionValue, ...]
    left: tuple[LeftOpen, ...] = ()

    @property
    def lacks_producer_id(self) -> bool:
        """Whether the last stage uses up its producer id and does not name the next one."""
        last = self.stages[-1]
        return (
            TransactionState(last.transaction_status) in _PREPARED
            and last.producer_epoch == EPOCH_USED_UP
            and last.client_transaction_version >= TV2
            and last.next_producer_id == NO_PRODUCER_ID
        )


class _Position(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class _Known:
    """What the record says: the decision it has made, and where the next data would be."""

    current: _Position
    is_current_open: bool = True  # whether data at `current` are the transaction in progress
    decided: _Position | None = None
    is_commit: bool = False
    ends_same_epoch: bool = False  # rule 3
    ends_epoch_before: bool = False  # rule 2


def reconcile(value: TransactionValue, evidence: Evidence, now_ms: int) -> Decision:
    """Return what the record and the logs say together; `now_ms` is the time of the start."""
    if value.transaction_status in IDLE and not evidence.has_any(_producer_ids(value)):
        return Decision((value,))  # nearly every id: a start may have 100,000 of them
    return _Reconciliation(value, evidence, now_ms).decide()


def each_place(value: TransactionValue) -> Iterator[Place]:
    """Yield the partitions of a record."""
    for topic in value.transaction_partitions or ():
        for number in topic.partition_ids:
            yield topic.topic, number


def places_of(value: TransactionValue) -> list[Place]:
    """Return the partitions of a record."""
    return list(each_place(value))


def grouped(places: Iterable[Place]) -> list[TransactionPartitions]:
    """Return partitions as a record has them: by topic, each once."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(set(places)):
        topics[topic].append(number)
    return [TransactionPartitions(topic=topic, partition_ids=topics[topic]) for topic in topics]


class _Reconciliation:
    """One id: its record, what the logs say of it, and what becomes of each open transaction."""

    def __init__(self, value: TransactionValue, evidence: Evidence, now_ms: int) -> None:
        self._value = value
        self._state = TransactionState(value.transaction_status)
        self._evidence = evidence
        self._now_ms = now_ms
        self._known = _read(value, evidence)
        current = self._known.current
        self._adopted = _adopted(evidence.of(current.producer_id), current.epoch)
        self._by_marker: dict[int, list[Place]] = {epoch: [] for epoch in self._adopted}
        self._by_record: list[Place] = []
        self._current: list[Place] = []
        self._left: list[LeftOpen] = []

    def decide(self) -> Decision:
        """Judge every open transaction, and return the stages that follow."""
        for producer_id in sorted({*_producer_ids(self._value)} - {NO_PRODUCER_ID}):
            for one in self._evidence.of(producer_id).open:
                self._judge(producer_id, one)
        stages = [*self._decided(), *self._decided_by_markers()]
        if self._state is TransactionState.ONGOING and not self._adopted:
            stages.append(self._going_on(places_of(self._value)))
        elif self._current:
            stages.append(self._begun())
        elif self._is_spoilt():
            stages.append(self._retired())
        elif not stages:
            stages.append(self._value)
        return Decision(tuple(stages), tuple(self._left))

    def _judge(self, producer_id: int, one: OpenPart) -> None:
        """Put an open transaction where it belongs: the rules in their order."""
        known = self._known
        is_current = producer_id == known.current.producer_id
        if is_current and one.epoch + 1 in self._adopted:
            self._by_marker[one.epoch + 1].append(one.place)
        elif _ends(known, producer_id, one.epoch):
            self._by_record.append(one.place)
        elif is_current and one.epoch == self._current_epoch and self._is_current_open:
            self._current.append(one.place)
        else:
            self._left.append(LeftOpen(producer_id, one))

    @property
    def _current_epoch(self) -> int:
        return max(self._adopted, default=self._known.current.epoch)

    @property
    def _is_current_open(self) -> bool:
        return self._known.is_current_open or bool(self._adopted)

    def _decided(self) -> list[TransactionValue]:
        """Return the Prepare that the record has made, with the partitions that lack its marker."""
        value, decided = self._value, self._known.decided
        if self._state in _PREPARED:
            places = self._by_record + self._unseen()
            return [replace(value, transaction_partitions=grouped(places))]
        if not self._by_record or decided is None:
            return []
        is_used_up = decided.producer_id != value.producer_id
        return [
            replace(
                value,
                producer_id=decided.producer_id,
                producer_epoch=decided.epoch,
                transaction_status=_prepare(is_commit=self._known.is_commit),
                transaction_partitions=grouped(self._by_record),
                next_producer_id=value.producer_id if is_used_up else NO_PRODUCER_ID,
            )
        ]

    def _unseen(self) -> list[Place]:
        """Return the partitions of the record whose logs could not be looked at."""
        return [place for place in places_of(self._value) if place not in self._evidence.seen]

    def _decided_by_markers(self) -> list[TransactionValue]:
        """Return a Prepare for each decision of markers; the last one also if all have it."""
        stages = []
        for epoch, is_commit in self._adopted.items():
            places = self._by_marker[epoch]
            if self._state is TransactionState.ONGOING and epoch == self._value.producer_epoch + 1:
                places = places + self._unseen()
            if places or epoch == self._current_epoch:
                stages.append(self._adopting(epoch, places, is_commit=is_commit))
        return stages

    def _adopting(self, epoch: int, places: list[Place], *, is_commit: bool) -> TransactionValue:
        return replace(
            self._value,
            producer_id=self._known.current.producer_id,
            producer_epoch=epoch,
            transaction_status=_prepare(is_commit=is_commit),
            transaction_partitions=grouped(places),
            transaction_last_update_timestamp_ms=self._now_ms,
            transaction_start_timestamp_ms=self._started_ms(),
            previous_producer_id=self._known.current.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            client_transaction_version=TV2,  # as of every end that raises the epoch
        )

    def _begun(self) -> TransactionValue:
        """Return the Ongoing that was lost."""
        current = self._known.current
        went_over = current.producer_id != self._value.producer_id
        return replace(
            self._going_on([]),
            producer_id=current.producer_id,
            producer_epoch=self._current_epoch,
            previous_producer_id=(
                self._value.producer_id if went_over else self._value.previous_producer_id
            ),
            next_producer_id=NO_PRODUCER_ID,
            client_transaction_version=TV2,  # TV1 adds a partition before it gets data
        )

    def _going_on(self, listed: list[Place]) -> TransactionValue:
        is_whole = set(self._current) <= set(listed)
        if self._state is TransactionState.ONGOING and not self._adopted and is_whole:
            return self._value
        return replace(
            self._value,
            transaction_status=TransactionState.ONGOING,
            transaction_partitions=grouped([*listed, *self._current]),
            transaction_last_update_timestamp_ms=self._now_ms,
            transaction_start_timestamp_ms=self._started_ms(),
        )

    def _started_ms(self) -> int:
        if self._state is TransactionState.ONGOING:
            return self._value.transaction_start_timestamp_ms
        return self._now_ms

    def _is_spoilt(self) -> bool:
        """Whether the next transaction of the producer id would end data that are left."""
        current = self._known.current
        return any(
            left.producer_id == current.producer_id
            and left.transaction.epoch >= self._current_epoch
            for left in self._left
        )

    def _retired(self) -> TransactionValue:
        return replace(
            self._value,
            producer_id=self._known.current.producer_id,
            producer_epoch=EPOCH_USED_UP,
            transaction_status=TransactionState.EMPTY,
            transaction_partitions=None,
            transaction_start_timestamp_ms=NO_TIMESTAMP,
            next_producer_id=NO_PRODUCER_ID,
        )


def _producer_ids(value: TransactionValue) -> tuple[int, int, int]:
    return value.producer_id, value.previous_producer_id, value.next_producer_id


def _read(value: TransactionValue, evidence: Evidence) -> _Known:
    state = TransactionState(value.transaction_status)
    position = _Position(value.producer_id, value.producer_epoch)
    if state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return _Known(position)
    known = _Known(position, decided=position, is_commit=state in _COMMITTED)
    if value.client_transaction_version >= TV2:
        known.ends_epoch_before = True
        if state in _PREPARED:
            if value.next_producer_id != NO_PRODUCER_ID:
                known.current = _Position(value.next_producer_id, 0)
        elif position.epoch == 0 and _has_former_id(value):
            known.decided = _Position(value.previous_producer_id, EPOCH_USED_UP)
        return known
    known.is_current_open = False
    if state in _PREPARED:
        known.ends_same_epoch = True
        known.ends_epoch_before = not known.is_commit  # a timeout, or a fence
    elif not known.is_commit:
        known.ends_epoch_before = _shows_timeout(evidence.of(position.producer_id), position.epoch)
    return known


def _has_former_id(value: TransactionValue) -> bool:
    return value.previous_producer_id not in (NO_PRODUCER_ID, value.producer_id)


def _shows_timeout(producer: ProducerEvidence, epoch: int) -> bool:
    return any(
        ended.epoch == epoch and ended.closed_epoch == epoch - 1 and not ended.is_commit
        for ended in producer.ended
    )


def _adopted(producer: ProducerEvidence, epoch: int) -> dict[int, bool]:
    """Return the outcome of each epoch above `epoch` that markers have decided, lowest first.

    Markers that contradict each other, which only a hand can write, decide nothing.
    """
    outcomes: dict[int, set[bool]] = defaultdict(set)
    for ended in producer.ended:
        if ended.epoch > epoch and ended.closed_epoch == ended.epoch - 1:
            outcomes[ended.epoch].add(ended.is_commit)
    return {each: found.pop() for each, found in sorted(outcomes.items()) if len(found) == 1}


def _ends(known: _Known, producer_id: int, epoch: int) -> bool:
    """Whether the decision of the record ends data of `epoch`: rules 2 and 3."""
    decided = known.decided
    if decided is None or decided.producer_id != producer_id:
        return False
    return (known.ends_epoch_before and epoch == decided.epoch - 1) or (
        known.ends_same_epoch and epoch == decided.epoch
    )


def _prepare(*, is_commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
