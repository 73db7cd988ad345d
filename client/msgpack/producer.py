"""A producer for asyncio: `send` adds records to batches, and one task sends them.

    async with Producer("127.0.0.1:9094") as producer:
        sent = await producer.send("words", b"value", key=b"key")     # waits only for memory
        offset = await sent.offset()                                  # waits for the answer

`unacknowledged` holds the batches and decides their order and retries; `delivery` sends requests
and reads answers. This module does the waiting: callers wait for room in the buffer or for the
result of a record, and the task waits for the next due batch, with at most IN_FLIGHT_MAX requests
in flight (Kafka's max.in.flight.requests.per.connection).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, Self

from client.msgpack.backoff import Backoff
from client.msgpack.delivery import Delivery
from client.msgpack.transport import Topics, Transport, TransportError, UnknownPlace, now_ms
from client.msgpack.unacknowledged import (
    IN_FLIGHT_MAX,
    Batch,
    DeliveryError,
    ProducerSettings,
    Unacknowledged,
)
from client.partitioners import PARTITIONERS
from client.places import Place
from client.record_size import record_bytes
from protocol.records import Record

REQUEST_TIMEOUT_S: Final = 30.0
TIMESTAMP_MS_MAX: Final = (1 << 63) - 1
NO_TIMESTAMP: Final = -1


class Sent(NamedTuple):
    """A record that was sent: its batch, and its index in the batch."""

    producer: Producer
    batch: Batch
    index_in_batch: int

    async def offset(self) -> int:
        """Wait for the acknowledgement; return the offset, -1 with acks 0. DeliveryError."""
        batch, index = self.batch, self.index_in_batch
        await self.producer.closed(batch)
        while batch.halves is not None:
            batch, index = batch.half_of(index)
            await self.producer.closed(batch)
        if batch.error is not None:
            raise batch.error
        return batch.base_offset + index if batch.base_offset >= 0 else -1


class Producer:
    """Sends records to a listener of either dialect. An async context manager; its end flushes."""

    def __init__(
        self,
        address: str,
        *,
        acks: int = -1,
        partitioner: str = "key_hash",
        settings: ProducerSettings | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        chance: Random | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        on_retry: Callable[[str], None] = lambda _trouble: None,
    ) -> None:
        settings = settings or ProducerSettings(idempotent=acks == -1)
        if settings.idempotent and acks != -1:
            raise ValueError(f"idempotent needs acks -1 (all), found {acks}")
        self._choose = PARTITIONERS[partitioner](chance or Random())  # noqa: S311 - no secret
        self._wall_ns = wall_ns
        self._on_retry = on_retry  # called with the reason of each retry
        self._held = Unacknowledged(settings)
        self._transport = Transport(address, timeout_s)
        self._asking = Transport(address, timeout_s)  # for metadata, beside the requests in flight
        self._topics = Topics(self._asking)
        self._delivery = Delivery(
            self._held,
            self._transport,
            self._topics,
            acks=acks,
            timeout_s=timeout_s,
            on_retry=on_retry,
            on_move=self._move,
        )
        self.tally = self._delivery.tally
        self._flushing = 0
        self._wake = asyncio.Event()
        self._moved: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises TransportError if nobody answers; later failures are retried."""
        await self._transport.open()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush, unless the block raised an error, and close the connections."""
        try:
            if kind is None:
                await self.flush()
        finally:
            tasks = [*self._delivery.under_way, *([self._task] if self._task else [])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            self._transport.close()
            self._asking.close()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> Sent:
        """Queue a record; wait while the buffer is full or the topic cannot be looked up.

        A record with the time -1 has none. Raises UnknownPlace for an unknown topic, ValueError for
        other times before 1970 (as Kafka's ProducerRecord), and TransportError if no broker
        answered about the topic for `delivery_ms`.
        """
        self._check_alive()
        count = await self._partition_count(topic)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise UnknownPlace(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        elif not NO_TIMESTAMP <= timestamp_ms <= TIMESTAMP_MS_MAX:
            raise ValueError(
                f"timestamp {timestamp_ms} is neither -1, for none, nor between 0 and"
                f" {TIMESTAMP_MS_MAX} ms"
            )
        record = Record(0, timestamp_ms, key, value, tuple(headers))
        size = record_bytes(record)
        while not self._held.room(size):
            self._wake.set()
            await self._next_move()
        batch, index = self._held.add(Place(topic, partition), record, now_ms())
        if index == 0 or batch.size_bytes >= self._held.settings.batch_bytes:
            self._wake.set()
        return Sent(self, batch, index)

    async def _partition_count(self, topic: str) -> int:
        until_ms = now_ms() + self._held.settings.delivery_ms
        backoff = Backoff()
        while True:
            try:
                _, count = await self._topics.find(topic, create=True)
            except TransportError as error:
                if now_ms() > until_ms:
                    raise
                self._on_retry(str(error))
                await backoff.pause()
            else:
                return count

    async def flush(self) -> None:
        """Wait until all records sent before are acknowledged or have failed."""
        self._flushing += 1
        try:
            while not self._held.is_empty:
                self._wake.set()
                await self._next_move()
        finally:
            self._flushing -= 1

    async def closed(self, batch: Batch) -> None:
        """Wait until a batch is acknowledged or has failed."""
        while batch.records:
            await self._next_move()

    def _check_alive(self) -> None:
        if self._task is None or self._task.done():
            died = None if self._task is None or self._task.cancelled() else self._task.exception()
            raise died or DeliveryError("the producer is closed")

    async def _next_move(self) -> None:
        self._check_alive()
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._moved)

    def _move(self) -> None:
        self._wake.set()
        if self._moved is not None:
            self._moved.set_result(None)
            self._moved = None

    async def _run(self) -> None:
        try:
            while True:
                await self._step()
        finally:
            self._move()

    async def _step(self) -> None:
        self._wake.clear()
        moment_ms = now_ms()
        for batch in self._held.overdue(moment_ms):
            self._delivery.give_up(batch)
        due_ms = self._held.due_ms(flush=self._flushing > 0)
        if len(self._delivery.under_way) >= IN_FLIGHT_MAX:
            due_ms = None  # an answer wakes
        if due_ms is None or due_ms > moment_ms:
            wait_s = None if due_ms is None else (due_ms - moment_ms) / 1000
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
        elif self._held.settings.idempotent and self._held.identity is None:
            await self._delivery.identify()
        else:
            await self._delivery.send(self._held.take(moment_ms, flush=self._flushing > 0))
