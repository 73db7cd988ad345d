"""A producer for asyncio whose records and offsets become visible together, or not at all.

    async with AsyncTransactionalProducer("127.0.0.1:9094", "billing-1") as producer:
        async with producer.transaction():
            await producer.send("invoices", b"...", key=b"...")
            await producer.send_offsets("billing", {Place("orders", 0): 17})

Leaving the block commits; an exception in it aborts, and goes on. Records are collected, and sent
when they are large enough, before offsets, and before the commit, with one request under way.
Opening it fences every earlier producer of the same transactional id.

Errors, settings and batches are those of the producer that speaks Kafka's protocol
(`client.transactions`). A MSGPACK listener serves transactions of version 2 only, so partitions are
added by the first batch, and each end answers with the next epoch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Final, Self, TypeVar

from client.codes import BrokerError
from client.msgpack.transaction_calls import TransactionCalls
from client.msgpack.transport import Transport, TransportError, UnknownPlace
from client.partitioners import PARTITIONERS
from client.places import Place
from client.transactions.endings import (
    FENCED,
    REPLACED,
    ended_by_broker,
    explained,
    fenced,
    interrupted,
)
from client.transactions.epoch import Epoch, GroupMetadata
from client.transactions.errors import (
    Again,
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

FIRST_PAUSE_S: Final = 0.01
PAUSE_S_MAX: Final = 1.0

Result = TypeVar("Result")


class AsyncTransactionalProducer:
    """An async context manager. Not for several tasks at once."""

    def __init__(
        self,
        address: str,
        transactional_id: str,
        settings: TransactionSettings | None = None,
        *,
        chance: Random | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings = settings or TransactionSettings()
        self.epoch = Epoch(transactional_id, -1, -1)
        self._transport = Transport(address, self.settings.answer_s)
        self._requests = TransactionCalls(self._transport, self.settings)
        self._choose = PARTITIONERS[self.settings.partitioner](chance or Random())  # noqa: S311
        self._wall_ns = wall_ns
        self._unsent = Unsent(self.settings.codec)
        self._fenced: ProducerFenced | None = None
        self._is_open = False  # a transaction, here
        self._is_begun = False  # at the broker, perhaps
        self._must_reset = False  # the broker may have one open, or another epoch
        self._is_unsure = False  # a request to end it had no answer, or none that is final
        self._began_s = 0.0
        self._failure: Exception | None = None  # for which the transaction can only be aborted

    async def __aenter__(self) -> Self:
        """Connect, and take over the transactional id. Raises TransportError, BrokerError."""
        try:
            await self._transport.open()  # so that a wrong address is told at once
            await self._initialize()
        except BaseException:
            self._transport.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self._transport.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, and commit it at the end of the block, or abort it on an exception.

        Raises TransactionError if it was not committed: ProducerFenced, TransactionTimedOut,
        TransactionAborted, OutcomeUnknown.
        """
        await self._begin()
        try:
            yield self
        except BaseException as error:
            await self._abort(error)
            raise
        else:
            await self._commit()
        finally:
            self._is_open = False

    async def send(
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
        count = await repeat(lambda: self._requests.partition_count(topic), TOPIC_S)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise UnknownPlace(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        record = Record(0, timestamp_ms, key, value, tuple(headers))
        if not self._unsent.has_room(record, self.settings.request_bytes):
            await self.flush()
        if self._unsent.add(Place(topic, partition), record) >= self.settings.request_bytes:
            await self.flush()

    def compress(self, codec: int) -> None:
        """Compress what is sent from now on with another codec."""
        self._unsent.codec = codec

    async def send_offsets(self, group: GroupMetadata | str, offsets: Mapping[Place, int]) -> None:
        """Commit the next offset to read of partitions, for a group, with the transaction.

        With the group's name alone, any member's offsets are overwritten. With a member, the broker
        refuses the offsets of one that is no longer in the group.
        """
        self._check_open()
        if not offsets:
            return
        metadata = GroupMetadata(group) if isinstance(group, str) else group
        await self.flush()
        await self._ask(lambda: self._requests.commit_offsets(self.epoch, metadata, offsets))

    async def flush(self) -> None:
        """Send all records; return when the broker has them. They stay invisible until the end."""
        self._check_open()
        batches = self._unsent.seal(self.epoch)
        if batches:
            await self._ask(lambda: self._requests.produce(self.epoch, batches))

    async def _ask(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Repeat an attempt of the open transaction; if it fails, only an abort is left."""
        self._is_begun = True
        try:
            await repeat(attempt, self.settings.retry_s)
        except BrokerError as error:
            self._failure = await self._explained(error)
            self._must_reset = self._is_begun
            if self._failure is error:
                raise
            raise self._failure from error
        except BaseException as error:
            self._must_reset = True  # the request may still arrive, after the abort
            self._failure = interrupted(error)  # also if the caller goes on
            raise

    def _check_open(self) -> None:
        if self._failure is not None:
            raise TransactionAborted(
                f"the transaction failed before, and can only be aborted: {self._failure}"
            ) from self._failure
        if not self._is_open:
            raise RuntimeError(
                "there is no transaction: send in `async with producer.transaction():`"
            )

    async def _begin(self) -> None:
        if self._is_open:
            raise RuntimeError("a transaction is open: leave its block before the next one begins")
        if self._fenced is not None:
            raise self._fenced
        if self._must_reset:
            await self._reset()
        self._requests.forget_topics()  # they grow, and are created again
        self._failure = None
        self._is_begun = False
        self._is_open = True
        self._began_s = _now_s()

    async def _commit(self) -> None:
        if self._failure is not None:
            failure = self._failure
            await self._abort(failure)
            raise TransactionAborted(
                f"the transaction was aborted, because a part of it failed: {failure}"
            ) from failure
        try:
            await self.flush()
        except BaseException as error:
            await self._abort(error)
            raise
        if not self._is_begun:
            return
        self._must_reset = True  # until it is known how it ended
        try:
            await self._end(committed=True, within_s=self.settings.retry_s)
        except OutOfTime as error:
            raise OutcomeUnknown(
                f"it is not known whether the transaction of {self.epoch.transactional_id!r} was "
                f"committed: {error}. Read the topics with isolation read_committed to see."
            ) from error
        except RequestFailed as error:
            unsure = self._is_unsure
            found = await self._explained(error, of_commit=True)
            if isinstance(found, ProducerFenced) and unsure:
                raise OutcomeUnknown(
                    f"it is not known whether the transaction was committed: {found}"
                ) from error
            await self._abort(found)
            raise found from error
        self._must_reset = False

    async def _abort(self, error: BaseException) -> None:
        """Abort; where that fails, the next transaction begins by it, or the timeout does it."""
        self._unsent.clear()
        if not self._is_begun or self._fenced is not None:
            return
        needs_reset, self._must_reset = self._must_reset, True
        try:
            await self._end(committed=False, within_s=ABORT_S)
        except RequestFailed:
            return  # replaced, or nothing was open: the reset tells
        except BrokerError as trouble:
            error.add_note(f"The transaction was not aborted yet: {trouble}")
            return
        self._must_reset = needs_reset

    async def _end(self, *, committed: bool, within_s: float) -> None:
        self._is_unsure = False

        async def attempt() -> Epoch:
            try:
                return await self._requests.end(self.epoch, committed=committed)
            except (Again, TransportError):  # the decision may stand, and not be told yet
                self._is_unsure = True
                raise

        self.epoch = await repeat(attempt, within_s)
        self._is_begun = False

    # -- the id ----------------------------------------------------------------------------------

    async def _initialize(self) -> None:
        self.epoch = await repeat(
            lambda: self._requests.initialize(self.epoch), self.settings.retry_s
        )

    async def _reset(self) -> None:
        try:
            await self._initialize()
        except RequestFailed as error:
            if error.code in REPLACED:
                ended = await self._requests.last_end(self.epoch.transactional_id)
                self._fenced = fenced(self.epoch.transactional_id, ended)
                raise self._fenced from error
            raise
        self._must_reset = False

    async def _explained(self, error: BrokerError, *, of_commit: bool = False) -> BrokerError:
        """Return what the failure of a request means; note if it says that all is over."""
        name = self.epoch.transactional_id
        found = explained(error, name, of_commit=of_commit)
        if found is None:  # the epoch is over: by the broker, or by a newer producer
            ended = await self._requests.last_end(name)
            try:
                if ended is not None and ended.reason == FENCED:
                    self._fenced = fenced(name, ended)
                    raise self._fenced
                await self._reset()
            except ProducerFenced as replaced:
                found = replaced
            except BrokerError:
                return error
            else:
                open_s = _now_s() - self._began_s
                found = ended_by_broker(name, ended, open_s, self.settings.timeout_ms)
        if isinstance(found, TransactionError) and found.is_over:
            self._is_begun = False
        return found


async def repeat(attempt: Callable[[], Awaitable[Result]], within_s: float) -> Result:
    """Return the attempt's result, repeating it for `within_s` seconds.

    Raises OutOfTime, and at once RequestFailed and TransactionError.
    """
    until_s = _now_s() + within_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await attempt()
        except (Again, TransportError) as error:
            trouble = error
        if _now_s() + pause_s > until_s:
            raise OutOfTime(f"no success within {within_s:g} s: {trouble}") from trouble
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
