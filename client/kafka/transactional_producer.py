"""A producer whose records and offsets become visible together, or not at all. It blocks.

    with TransactionalProducer("127.0.0.1:9092", "billing-1") as producer:
        with producer.transaction():
            producer.send("invoices", b"...", key=b"...")
            producer.send_offsets("billing", {Place("orders", 0): 17})

Leaving the block commits; an exception in it aborts, and goes on. `send` collects records into a
batch for each partition; the batches are sent when they are large enough, before offsets, and
before the commit. One request is under way at a time, so nothing can overtake.

Opening it fences every earlier producer of the same transactional id; `held_id` says what an
answer about a fenced producer means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Self

from client.kafka import transaction_requests as requests
from client.kafka.connection import BrokerError, Connection
from client.kafka.held_id import HeldId
from client.kafka.patience import PatientConnection
from client.partitioners import PARTITIONERS
from client.places import Place
from client.transactions.endings import interrupted
from client.transactions.epoch import Epoch, GroupMetadata
from client.transactions.errors import (
    OutcomeUnknown,
    OutOfTime,
    ProducerFenced,
    RequestFailed,
    TransactionAborted,
    TransactionError,
)
from client.transactions.transaction_settings import ABORT_S, TOPIC_S, TransactionSettings
from client.transactions.unsent import Unsent
from protocol.records import Record


class TransactionalProducer:
    """A context manager. Not for several threads at once."""

    def __init__(
        self,
        address: str,
        transactional_id: str,
        settings: TransactionSettings | None = None,
        *,
        chance: Random | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self._broker = PatientConnection(address, self.settings.answer_s, clock=clock, wait=wait)
        self._held = HeldId(
            self._broker, transactional_id, self.settings.timeout_ms, self.settings.retry_s
        )
        self._choose = PARTITIONERS[self.settings.partitioner](chance or Random())  # noqa: S311
        self._wall_ns = wall_ns
        self._clock = clock
        self._counts: dict[str, int] = {}
        self._unsent = Unsent(self.settings.codec)
        self._is_open = False  # a transaction, here
        self._is_begun = False  # at the broker, perhaps
        self._began_s = 0.0
        self._added: set[Place] = set()
        self._version_2 = False
        self._is_unsure = False  # a request to end it had no answer, or none that is final
        self._failure: BrokerError | None = None  # for which the transaction can only be aborted

    def __enter__(self) -> Self:
        """Connect, and take over the transactional id. Raises BrokerError."""
        try:
            self._broker.opened()  # so that a wrong address is told at once
            self._held.initialize()
        except BaseException:
            self._broker.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._broker.close()

    @property
    def epoch(self) -> Epoch:
        """The transactional id, and the producer id and epoch that it has now."""
        return self._held.epoch

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction, and commit it at the end of the block, or abort it on an exception.

        Raises TransactionError if it was not committed: ProducerFenced, TransactionTimedOut,
        TransactionAborted, OutcomeUnknown.
        """
        self._begin()
        try:
            yield self
        except BaseException as error:
            self._abort(error)
            raise
        else:
            self._commit()
        finally:
            self._is_open = False

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Add a record to the transaction. Raises BrokerError, and TransactionError."""
        self._check_open()
        count = self._partition_count(topic)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise BrokerError(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        record = Record(0, timestamp_ms, key, value, tuple(headers))
        if not self._unsent.has_room(record, self.settings.request_bytes):
            self.flush()
        if self._unsent.add(Place(topic, partition), record) >= self.settings.request_bytes:
            self.flush()

    def send_offsets(self, group: GroupMetadata | str, offsets: Mapping[Place, int]) -> None:
        """Commit the next offset to read of partitions, for a group, with the transaction.

        With the group's name alone, any member's offsets are overwritten. With a member, the broker
        refuses the offsets of one that is no longer in the group.
        """
        self._check_open()
        if not offsets:
            return
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        self.flush()

        def attempt(connection: Connection) -> None:
            self._is_begun = True
            if not self._version_2:
                requests.add_offsets(connection, self.epoch, metadata.group_id)
            requests.commit_offsets(
                connection, self.epoch, metadata, offsets, version_2=self._version_2
            )

        self._ask(attempt)

    def flush(self) -> None:
        """Send all records; return when the broker has them. They stay invisible until the end."""
        self._check_open()
        batches = self._unsent.seal(self.epoch)
        if not batches:
            return

        def attempt(connection: Connection) -> None:
            self._is_begun = True
            if not self._version_2 and (new := batches.keys() - self._added):
                requests.add_partitions(connection, self.epoch, sorted(new))
                self._added |= new
            timeout_ms = int(self.settings.answer_s * 1000)
            requests.produce(connection, self.epoch, batches, timeout_ms, version_2=self._version_2)

        self._ask(attempt)

    def _ask(self, attempt: Callable[[Connection], None]) -> None:
        """Repeat an attempt of the open transaction; if it fails, only an abort is left."""
        try:
            self._broker.repeat(attempt, self.settings.retry_s)
        except BrokerError as error:
            self._failure = self._explained(error)
            self._held.must_reset = self._is_begun
            if self._failure is error:
                raise
            raise self._failure from error
        except BaseException as error:
            self._held.must_reset = True  # the request may still arrive, after the abort
            self._failure = interrupted(error)  # also if the caller goes on
            raise

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = self._broker.repeat(
                lambda connection: requests.partition_count(connection, topic), TOPIC_S
            )
        return self._counts[topic]

    def _check_open(self) -> None:
        if self._failure is not None:
            raise TransactionAborted(
                f"the transaction failed before, and can only be aborted: {self._failure}"
            ) from self._failure
        if not self._is_open:
            raise RuntimeError("there is no transaction: send in `with producer.transaction():`")

    def _begin(self) -> None:
        if self._is_open:
            raise RuntimeError("a transaction is open: leave its block before the next one begins")
        self._held.prepare()
        self._version_2 = self._broker.repeat(requests.has_version_2, self.settings.retry_s)
        self._counts.clear()  # topics grow, and are created again
        self._added.clear()
        self._failure = None
        self._is_begun = False
        self._is_open = True
        self._began_s = self._clock()

    def _commit(self) -> None:
        if self._failure is not None:
            failure = self._failure
            self._abort(failure)
            raise TransactionAborted(
                f"the transaction was aborted, because a part of it failed: {failure}"
            ) from failure
        try:
            self.flush()
        except BaseException as error:
            self._abort(error)
            raise
        if not self._is_begun:
            return
        self._held.must_reset = True  # until it is known how it ended
        try:
            self._end(committed=True, within_s=self.settings.retry_s)
        except OutOfTime as error:
            raise OutcomeUnknown(
                f"it is not known whether the transaction of {self.epoch.transactional_id!r} was "
                f"committed: {error}. Read the topics with isolation read_committed to see."
            ) from error
        except RequestFailed as error:
            unsure = self._is_unsure
            explained = self._explained(error, of_commit=True)
            if isinstance(explained, ProducerFenced) and unsure:
                raise OutcomeUnknown(
                    f"it is not known whether the transaction was committed: {explained}"
                ) from error
            self._abort(explained)
            raise explained from error
        self._held.must_reset = False

    def _abort(self, error: BaseException) -> None:
        """Abort; where that fails, the next transaction begins by it, or the timeout does it."""
        self._unsent.clear()
        if not self._is_begun or self._held.is_fenced:
            return
        needs_reset = self._held.must_reset
        self._held.must_reset = True
        try:
            self._end(committed=False, within_s=ABORT_S)
        except RequestFailed:
            return  # replaced, or nothing was open: the reset tells
        except BrokerError as trouble:
            error.add_note(f"The transaction was not aborted yet: {trouble}")
            return
        self._held.must_reset = needs_reset

    def _end(self, *, committed: bool, within_s: float) -> None:
        self._is_unsure = False

        def attempt(connection: Connection) -> Epoch:
            try:
                return requests.end(
                    connection, self.epoch, committed=committed, version_2=self._version_2
                )
            except RequestFailed:
                raise
            except BrokerError:  # also Again: the decision may stand, and not be told yet
                self._is_unsure = True
                raise

        self._held.epoch = self._broker.repeat(attempt, within_s)
        self._is_begun = False

    def _explained(self, error: BrokerError, *, of_commit: bool = False) -> BrokerError:
        """Return what the failure of a request means; note if it says that all is over."""
        open_s = self._clock() - self._began_s
        explained = self._held.explained(error, open_s, of_commit=of_commit)
        if isinstance(explained, TransactionError) and explained.is_over:
            self._is_begun = False
        return explained
