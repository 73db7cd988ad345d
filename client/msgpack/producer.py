"""A producer for asyncio: `send` puts records into batches, one task sends them.

    async with Producer("127.0.0.1:9094") as producer:
        sent = await producer.send("words", b"value", key=b"key")     # waits only for memory
        offset = await sent.offset()                                  # waits for the answer

What is kept, in which order, and what a failure means, is `client.msgpack.unacknowledged`'s; here
are the connection, the waiting, and the reading of answers. One task writes requests, each with at
most one batch of a partition, while at most IN_FLIGHT_MAX wait for their answers (Kafka's
max.in.flight.requests.per.connection); a task of each request waits for its answer. After a lost
connection the same batches are sent again on a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Self, TypeAlias

from client.codes import code_of, code_text
from client.msgpack.partitioners import PARTITIONERS
from client.msgpack.transport import (
    NotConnected,
    RequestRefused,
    Topics,
    Transport,
    TransportError,
    UnknownPlace,
)
from client.msgpack.unacknowledged import (
    IN_FLIGHT_MAX,
    Batch,
    DeliveryError,
    ProducerSettings,
    Unacknowledged,
    record_bytes,
)
from client.places import Place
from protocol.errors import ErrorCode
from protocol.records import Record

BACKOFF_S: Final = 0.1
REQUEST_TIMEOUT_S: Final = 30.0
TIMESTAMP_MS_MAX: Final = (1 << 63) - 1
_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# The broker knows the producer otherwise than it knows itself.
_IDENTITY: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)

Places: TypeAlias = dict[tuple[bytes, int], Batch]  # (topic id, partition) of what a request holds


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
        settings: ProducerSettings | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        chance: Random | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        on_retry: Callable[[str], None] = lambda _trouble: None,
    ) -> None:
        settings = settings or ProducerSettings(idempotent=acks == -1)
        if settings.idempotent and acks != -1:
            raise ValueError(f"idempotent needs acks -1 (all), found {acks}")
        self.acknowledged_count = 0
        self.failed_count = 0
        self.first_error: DeliveryError | None = None
        self.gave_up = False  # on a batch that had no success within `delivery_ms`
        self._acks = acks
        self._timeout_s = timeout_s
        self._choose = PARTITIONERS[partitioner](chance or Random())  # noqa: S311 - no secret
        self._wall_ns = wall_ns
        self._on_retry = on_retry  # told why a batch is sent again
        self._held = Unacknowledged(settings)
        self._transport = Transport(address, timeout_s)
        self._asking = Transport(address, timeout_s)  # metadata, beside what is under way
        self._topics = Topics(self._asking)
        self._flushing = 0
        self._wake = asyncio.Event()
        self._moved: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Connect; raises TransportError if nobody answers now (later, it is retried)."""
        await self._transport.open()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Flush, unless an error leaves the block, and hang up."""
        try:
            if kind is None:
                await self.flush()
        finally:
            tasks = [*self._under_way, *([self._task] if self._task else [])]
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
        """Queue a record, waiting while the buffer is full, or the broker away.

        Raises UnknownPlace for an unknown topic, ValueError for a time before 1970 (as Kafka's
        ProducerRecord), and TransportError when nobody could be asked
        about it for `delivery_ms`.
        """
        self._check_alive()
        count = await self._partition_count(topic)
        if partition is None:
            partition = self._choose(topic, key, count)
        elif not 0 <= partition < count:
            raise UnknownPlace(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
        if timestamp_ms is None:
            timestamp_ms = self._wall_ns() // 1_000_000
        elif not 0 <= timestamp_ms <= TIMESTAMP_MS_MAX:
            raise ValueError(f"timestamp {timestamp_ms} is not between 0 and {TIMESTAMP_MS_MAX} ms")
        record = Record(0, timestamp_ms, key, value, tuple(headers))
        size = record_bytes(record)
        while not self._held.room(size):
            self._wake.set()
            await self._next_move()
        batch, index = self._held.add(Place(topic, partition), record, self._now_ms())
        if index == 0 or batch.size_bytes >= self._held.settings.batch_bytes:
            self._wake.set()
        return Sent(self, batch, index)

    async def _partition_count(self, topic: str) -> int:
        until_ms = self._now_ms() + self._held.settings.delivery_ms
        while True:
            try:
                _, count = await self._topics.find(topic, create=True)
            except TransportError as error:
                if self._now_ms() > until_ms:
                    raise
                self._on_retry(str(error))
                await asyncio.sleep(BACKOFF_S)
            else:
                return count

    async def flush(self) -> None:
        """Wait until everything sent before is acknowledged or has failed."""
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

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

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
        now_ms = self._now_ms()
        for batch in self._held.overdue(now_ms):
            self._give_up(batch)
        due_ms = self._held.due_ms(flush=self._flushing > 0)
        if len(self._under_way) >= IN_FLIGHT_MAX:
            due_ms = None  # an answer wakes
        if due_ms is None or due_ms > now_ms:
            wait_s = None if due_ms is None else (due_ms - now_ms) / 1000
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
        elif self._held.settings.idempotent and self._held.identity is None:
            await self._identify()
        else:
            await self._send(self._held.take(now_ms, flush=self._flushing > 0))

    def _give_up(self, batch: Batch) -> None:
        seconds = self._held.settings.delivery_ms / 1000
        told = "it may have been appended" if batch.unsure else "it was not appended"
        last = f". The last answer: {batch.trouble}" if batch.trouble else ""
        self.gave_up = True
        self._fail(batch, f"no success within {seconds:g} s; {told}{last}")
        self._move()

    async def _identify(self) -> None:
        asked = {"transactional_id": None, "transaction_timeout_ms": 0}
        try:
            answer = await self._transport.call("init_producer_id", asked)
        except TransportError as error:
            self._on_retry(str(error))
            await asyncio.sleep(BACKOFF_S)
            return
        number = answer["error_code"]
        if not number:
            self._held.identity = answer["producer_id"], answer["producer_epoch"]
        elif code_of(number).retriable:
            await asyncio.sleep(BACKOFF_S)
        else:
            raise DeliveryError(f"the broker gives no producer id: {code_text(number)}")

    async def _send(self, batches: list[Batch]) -> None:
        """Write a request; its answer is a task's. Without answers (acks 0) it is done here."""
        places = await self._places(batches)
        if not places:
            return
        try:
            if self._acks:
                answer = await self._transport.ask("produce", self._body(places))
                self._under_way.add(asyncio.create_task(self._settle(places, answer)))
                return
            await self._transport.post("produce", self._body(places))
            for batch in places.values():
                self._succeed(batch, -1)
        except TransportError as error:
            unsure = not isinstance(error, NotConnected)
            self._retry(places.values(), str(error), unsure=unsure)
            self._topics.forget()
        self._move()

    async def _places(self, batches: list[Batch]) -> Places:
        """Find the ids of the batches' topics; those that cannot be sent are retried, or fail."""
        places = {}
        for batch in batches:
            try:
                topic_id, _ = await self._topics.find(batch.place.topic, create=False)
            except UnknownPlace as error:
                self._fail(batch, str(error))
                self._move()
            except TransportError as error:
                self._retry([batch], str(error), unsure=False)
            else:
                places[topic_id, batch.place.partition] = batch
        return places

    def _body(self, places: Places) -> dict[str, Any]:
        topics: dict[bytes, list[dict[str, Any]]] = {}
        for (topic_id, partition), batch in places.items():
            data = {"index": partition, "records": batch.packed}
            topics.setdefault(topic_id, []).append(data)
        topic_data = [{"topic_id": one, "partition_data": data} for one, data in topics.items()]
        timeout_ms = int(self._timeout_s * 1000)
        return {"acks": self._acks, "timeout_ms": timeout_ms, "topic_data": topic_data}

    async def _settle(self, places: Places, answer: asyncio.Future[dict[str, Any]]) -> None:
        try:
            self._read(places, await answer)
        except TransportError as error:
            self._retry(places.values(), str(error), unsure=True)
            self._topics.forget()
        except (LookupError, TypeError):
            self._retry(places.values(), "an answer lacks what it must say", unsure=True)
            self._topics.forget()
        except RequestRefused as error:
            for batch in places.values():
                self._fail(batch, str(error))
        finally:
            self._under_way.discard(asyncio.current_task())
            self._move()

    def _read(self, places: Places, answer: dict[str, Any]) -> None:
        found = {
            (topic["topic_id"], partition["index"]): partition
            for topic in answer["responses"]
            for partition in topic["partition_responses"]
        }
        for place, batch in places.items():
            self._read_one(batch, found[place])
        if any(one["error_code"] for one in found.values()):
            self._topics.forget()

    def _read_one(self, batch: Batch, said: dict[str, Any]) -> None:
        code = code_of(said["error_code"])
        if code in _APPENDED:
            self._succeed(batch, said["base_offset"])
        elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._held.settings.idempotent:
            self._held.out_of_order(batch, self._now_ms())
        elif code.retriable:
            text = code_text(said["error_code"], said["error_message"])
            self._retry([batch], f"{batch.place}: {text}", unsure=True)
        else:
            text = code_text(said["error_code"], said["error_message"])
            self._fail(batch, text, unsure=code is ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in _IDENTITY:
                self._held.identity = None

    def _succeed(self, batch: Batch, base_offset: int) -> None:
        self.acknowledged_count += len(batch.records)
        self._held.succeed(batch, base_offset)

    def _retry(self, batches: Iterable[Batch], trouble: str, *, unsure: bool) -> None:
        for batch in batches:
            if batch.records:  # it has not ended
                batch.trouble = trouble
                self._on_retry(trouble)
                self._held.retry(batch, self._now_ms(), unsure=unsure)

    def _fail(self, batch: Batch, reason: str, *, unsure: bool = False) -> None:
        count = len(batch.records)
        noun = "record" if count == 1 else "records"
        error = DeliveryError(f"{count} {noun} for {batch.place}: {reason}")
        self.failed_count += count
        self.first_error = self.first_error or error
        self._held.fail(batch, error, unsure=unsure)
