"""A broker without sockets whose turns of the loop are timed, for `benchmarks.bench_turns`.

Requests and answers are bytes. A request is decoded in a turn of its own, or in a thread if it is
large, as a processor does it; then it is handled and answered as an IO worker does it.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import frames
from benchmarks import transaction_frames as raw
from broker.handlers import HANDLERS
from broker.runtime.request import ConnectionInfo, Request
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from protocol.errors import TakesLong
from protocol.kafka.codec import encoder
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.transaction_records import TransactionPartitions, TransactionValue
from protocol.wire import message_spec
from storage.log import Log
from tests.support.broker_rig import Rig
from tests.support.fake_connection import LISTENER

ANSWER_SECONDS_MAX = 300


class Turns:
    """The CPU time of each turn of the loop's callbacks."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.total = 0.0
        self._is_over = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what runs meanwhile."""
        run = events.Handle._run  # noqa: SLF001 - there is no other way to see each turn

        def timed(handle: events.Handle) -> None:
            begun = time.thread_time()
            run(handle)
            taken = time.thread_time() - begun
            if not self._is_over:
                self.longest = max(self.longest, taken)
                self.total += taken

        events.Handle._run = timed  # type: ignore[method-assign] # noqa: SLF001
        try:
            yield
        finally:
            self._is_over = True
            events.Handle._run = run  # type: ignore[method-assign] # noqa: SLF001


class Kept:
    """A connection that keeps the last answer."""

    def __init__(self, dialect: KafkaDialect) -> None:
        self.info = ConnectionInfo(LISTENER, dialect, ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        self.answered: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()

    def respond(self, _request: Request, buffers: Sequence[Any]) -> None:
        """Keep it."""
        self.answered.set_result(buffers)

    def abort(self, reason: str) -> None:
        """Fail."""
        raise AssertionError(reason)

    def refuse(self, error: Exception) -> None:
        """Fail."""
        raise AssertionError(error)


class Broker:
    """A rig whose requests and answers are bytes."""

    def __init__(self, directory: Path) -> None:
        self.rig = Rig.__new__(Rig)  # replaced by `open`
        self._directory = directory
        self._dialect = KafkaDialect({int(row.api_key): row for row in HANDLERS})

    async def open(self) -> None:
        """Start it, and wait until its groups are loaded."""
        self.rig = Rig(self._directory, is_timed=True, group_initial_rebalance_delay_ms="0")
        await self.rig.loading

    async def loaded(self) -> None:
        """Start it; return when its transactions are loaded."""
        await self.open()
        while True:
            with suppress(TransactionError):
                self.rig.services.transactions.check_all_loaded()
                return
            await asyncio.sleep(0.01)

    async def create(self, topic: str, count: int) -> None:
        """Create a topic."""
        asked = CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
        asks = CreateTopicsRequest(topics=[asked], timeout_ms=ANSWER_SECONDS_MAX * 1000)
        answer = await self.rig.call(asks, 7, timeout_seconds=ANSWER_SECONDS_MAX)
        assert not answer.topics[0].error_code, answer

    def producer_of(self, transactional_id: str) -> tuple[int, int]:
        """Return the producer id and epoch that an id has."""
        found = self.rig.services.transactions.store.by_id[transactional_id]
        return found.producer_id, found.epoch

    async def end(self, transactional_id: str, producer_id: int, epoch: int) -> bytes:
        """Commit."""
        asked = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=True,
        )
        answer = await self.send(asked, 5)
        assert not raw.ended(answer)[0], answer[:64].hex()
        return answer

    async def durable(self, log: Log) -> None:
        """Wait until all of a log is on the disk."""
        partition = self.rig.services.partitions.get(log.topic, log.partition)
        await self.rig.services.commit.durable(partition, log.end_offset, 60_000)

    async def send(self, body: Any, version: int) -> bytes:
        """Read, handle and answer one request."""
        return await self.ready(body, version)()

    def ready(self, body: Any, version: int) -> Callable[[], Coroutine[Any, Any, bytes]]:
        """Encode a request; return what sends it."""
        spec = message_spec(type(body))
        parts: list[Any] = [bytearray()]
        encoder(type(body), version)(body, parts)
        frame = frames.framed(
            spec.api_key, version, b"".join(parts), flexible=spec.is_flexible(version)
        )
        return partial(self._handled, memoryview(bytearray(frame))[4:])

    async def _handled(self, frame: memoryview) -> bytes:
        connection = Kept(self._dialect)
        try:
            decoded = self._dialect.decode_request(frame)
        except TakesLong:  # as a processor does it
            decode = partial(self._dialect.decode_request, frame, in_thread=True)
            decoded = await self.rig.services.pool.run(decode)
        await asyncio.sleep(0)
        asked = Request(connection, decoded.header, decoded.body, len(frame))
        self.rig.dispatcher.dispatch(asked)
        del decoded, asked
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return b"".join(map(bytes, await connection.answered))

    async def begin(self, transactional_id: str) -> tuple[int, int]:
        """Give out a producer id and epoch."""
        asked = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        while True:
            answer = await self.send(asked, 4)
            code, producer_id, epoch = raw.inited(answer)
            if not code:
                return producer_id, epoch
            await asyncio.sleep(0.01)

    def put_ids(self, count: int, state: TransactionState, updated_ms: int) -> None:
        """Make so many ids, with their records."""
        store = self.rig.services.transactions.store
        by_number: dict[int, list[Transaction]] = {}
        for number in range(count):
            made = Transaction(f"id-{number}", 1_000_000 + number, 60_000)
            made.epoch, made.state, made.updated_ms = 0, state, updated_ms
            made.started_ms = updated_ms
            if state is TransactionState.ONGOING:
                made.partitions = {"one": {0: None}}
            store.put(made)
            by_number.setdefault(store.log.number_of(made.transactional_id), []).append(made)
        for number, some in by_number.items():
            for start in range(0, len(some), 200):
                pairs = [(one.transactional_id, _value(one)) for one in some[start : start + 200]]
                store.log.append_all(number, pairs)


def _value(one: Transaction) -> TransactionValue:
    return TransactionValue(
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        transaction_timeout_ms=one.timeout_ms,
        transaction_status=one.state,
        transaction_partitions=[
            TransactionPartitions(topic=topic, partition_ids=list(numbers))
            for topic, numbers in one.partitions.items()
        ],
        transaction_last_update_timestamp_ms=one.updated_ms,
        transaction_start_timestamp_ms=one.started_ms,
    )
