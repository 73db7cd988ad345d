"""A producer for asyncio: `send` puts records into the outbox, one task sends them.

    async with Producer("127.0.0.1:9094") as producer:
        sent = await producer.send("words", b"value", key=b"key")     # waits only for memory
        offset = await sent.offset()                                  # waits for the answer

What is kept, in which order, and what a failure means, is `client.outbox`'s; here are the
connection, the waiting, and the reading of answers. One request is under way at a time, with one
batch of every partition that has one: the answer to it is the pause in which the next batches fill.
After a lost connection the same batches are sent again on a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Self

from client.outbox import (
    Batch,
    DeliveryError,
    Outbox,
    OutboxSettings,
    Place,
    record_bytes,
)
from client.partitioners import PARTITIONERS
from client.transport import RequestRefused, Topics, Transport, TransportError, UnknownPlace
from protocol.errors import ErrorCode
from protocol.records import Record

BACKOFF_MS: Final = 100
REQUEST_TIMEOUT_S: Final = 30.0
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# The broker no longer knows the producer as this one knows itself.
_IDENTITY: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class Sent(NamedTuple):
    """A record on its way: its batch, and its place in it."""

    producer: Producer
    batch: Batch
    index_in_batch: int

    async def offset(self) -> int:
        """Wait until the record is acknowledged; its offset, -1 with acks 0. DeliveryError."""
        await self.producer.closed(self.batch)
        if self.batch.error is not None:
            raise self.batch.error
        return self.batch.base_offset + self.index_in_batch if self.batch.base_offset >= 0 else -1


class Producer:
    """Sends records to a MSGPACK listener. An async context manager; leaving it flushes."""

    def __init__(
        self,
        address: str,
        *,
        acks: int = -1,
        partitioner: str = "key_hash",
        settings: OutboxSettings | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        chance: Random | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        settings = settings or OutboxSettings(idempotent=acks == -1)
        if settings.idempotent and acks != -1:
            raise ValueError(f"idempotent needs acks -1 (all), found {acks}")
        self.acknowledged_count = 0
        self.failed_count = 0
        self.first_error: DeliveryError | None = None
        self._acks = acks
        self._timeout_s = timeout_s
        self._choose = PARTITIONERS[partitioner](chance or Random())  # noqa: S311 - no secret
        self._wall_ns = wall_ns
        self._outbox = Outbox(settings)
        self._transport = Transport(address, timeout_s)
        self._asking = Transport(address, timeout_s)  # metadata, beside what is under way
        self._topics = Topics(self._asking)
        self._flushing = 0
        self._wake = asyncio.Event()
        self._moved: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect; raises TransportError if nobody answers now (later, it is retried)."""
        await self._transport.open()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush, unless an error leaves the block, and hang up."""
        if kind is None:
            await self.flush()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
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
        """Queue a record, waiting while the buffer is full. UnknownPlace for an unknown topic."""
        _, count = await self._topics.find(topic, create=True)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise UnknownPlace(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        record = Record(0, timestamp_ms, key, value, tuple(headers))
        size = record_bytes(record)
        while not self._outbox.room(size):
            self._wake.set()
            await self._next_move()
        batch, index = self._outbox.add(Place(topic, partition), record, self._now_ms())
        if index == 0 or batch.size_bytes >= self._outbox.settings.batch_bytes:
            self._wake.set()
        return Sent(self, batch, index)

    async def flush(self) -> None:
        """Wait until everything sent before is acknowledged or has failed."""
        self._flushing += 1
        try:
            while not self._outbox.is_empty:
                self._wake.set()
                await self._next_move()
        finally:
            self._flushing -= 1

    async def closed(self, batch: Batch) -> None:
        """Wait until a batch is acknowledged or has failed."""
        while batch.records:
            await self._next_move()

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    async def _next_move(self) -> None:
        if self._task is not None and self._task.done():
            raise self._task.exception() or DeliveryError("the producer is closed")
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._moved)

    def _move(self) -> None:
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
        now_ms = self._now_ms()
        for batch in self._outbox.overdue(now_ms):
            self._give_up(batch)
        due_ms = self._outbox.due_ms(flush=self._flushing > 0)
        if due_ms is None or due_ms > now_ms:
            wait_s = None if due_ms is None else (due_ms - now_ms) / 1000
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            return
        if self._outbox.settings.idempotent and self._outbox.identity is None:
            if not await self._identify():
                await asyncio.sleep(BACKOFF_MS / 1000)
            return
        batches = self._outbox.take(now_ms, flush=self._flushing > 0)
        await self._exchange(batches)
        self._move()

    def _give_up(self, batch: Batch) -> None:
        count = len(batch.records)
        seconds = self._outbox.settings.delivery_ms // 1000
        told = "may have been appended" if batch.attempts else "were not sent"
        place = f"{batch.place.topic}-{batch.place.partition}"
        text = f"{count} records for {place} {told}: no success within {seconds} s"
        self._outbox.give_up(batch, self._failed(count, text))
        self._move()

    async def _identify(self) -> bool:
        asked = {"transactional_id": None, "transaction_timeout_ms": 0}
        try:
            answer = await self._transport.call("init_producer_id", asked)
        except TransportError:
            return False
        if answer["error_code"]:
            return False
        self._outbox.identity = answer["producer_id"], answer["producer_epoch"]
        return True

    async def _exchange(self, batches: list[Batch]) -> None:
        try:
            body, batches = await self._body(batches)
            if self._acks == 0:
                await self._transport.post("produce", body)
                for batch in batches:
                    self._succeed(batch, -1)
                return
            answer = await self._transport.call("produce", body)
        except TransportError:
            for batch in batches:
                if batch.error is None:
                    self._retry(batch)
            return
        except RequestRefused as error:
            for batch in batches:
                self._refuse(batch, str(error))
            return
        self._read(batches, answer)

    async def _body(self, batches: list[Batch]) -> tuple[dict[str, Any], list[Batch]]:
        """Return the request, and the batches that are in it; the others have no topic any more."""
        topics: dict[bytes, list[dict[str, Any]]] = {}
        kept = []
        for batch in batches:
            try:
                topic_id, _ = await self._topics.find(batch.place.topic, create=False)
            except UnknownPlace as error:
                self._refuse(batch, str(error))
                continue
            data = {"index": batch.place.partition, "records": batch.packed}
            topics.setdefault(topic_id, []).append(data)
            kept.append(batch)
        topic_data = [{"topic_id": one, "partition_data": data} for one, data in topics.items()]
        timeout_ms = int(self._timeout_s * 1000)
        return {"acks": self._acks, "timeout_ms": timeout_ms, "topic_data": topic_data}, kept

    def _read(self, batches: list[Batch], answer: dict[str, Any]) -> None:
        found = {
            (topic["topic_id"], partition["index"]): partition
            for topic in answer["responses"]
            for partition in topic["partition_responses"]
        }
        for batch in batches:
            known = self._topics.known(batch.place.topic)
            said = found.get((known, batch.place.partition))
            if said is None:
                self._retry(batch)
                continue
            code = ErrorCode(said["error_code"])  # type: ignore[call-arg]
            if code in _APPENDED:
                self._succeed(batch, said["base_offset"])
            elif code.retriable:
                self._retry(batch)
            else:
                self._refuse(batch, said["error_message"] or code.message, code)
                if code in _IDENTITY:
                    self._outbox.identity_lost()
        if any(one["error_code"] for one in found.values()):
            self._topics.forget()

    def _succeed(self, batch: Batch, base_offset: int) -> None:
        self.acknowledged_count += len(batch.records)
        self._outbox.succeed(batch, base_offset)

    def _retry(self, batch: Batch) -> None:
        self._outbox.retry(batch, self._now_ms(), BACKOFF_MS)

    def _refuse(self, batch: Batch, reason: str, code: ErrorCode | None = None) -> None:
        count = len(batch.records)
        named = f"{code.name} ({int(code)}): " if code is not None else ""
        text = f"{count} records for {batch.place.topic}-{batch.place.partition}: {named}{reason}"
        self._outbox.refuse(batch, self._failed(count, text))

    def _failed(self, count: int, text: str) -> DeliveryError:
        error = DeliveryError(text)
        self.failed_count += count
        self.first_error = self.first_error or error
        return error
