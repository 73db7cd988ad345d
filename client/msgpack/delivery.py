"""Delivering a producer's batches: the requests, and the results of their answers.

A request holds at most one batch per partition. `send` waits until it is written; a task per
request waits for the answer, so that several are in flight (`under_way`; the producer bounds how
many). After a lost connection the same batches are sent again; `unacknowledged` keeps their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from client.codes import code_of, code_text
from client.msgpack.backoff import Backoff
from client.msgpack.transport import (
    NotConnected,
    RequestRefused,
    Topics,
    Transport,
    TransportError,
    UnknownPlace,
    now_ms,
)
from client.msgpack.unacknowledged import Batch, DeliveryError, Unacknowledged
from protocol.errors import ErrorCode

_APPENDED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# The broker has another id or epoch for this producer.
_IDENTITY: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
# Parts of the batch may be appended; RECORD_LIST_TOO_LARGE is about the segment's size.
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

Places: TypeAlias = dict[
    tuple[bytes, int], Batch
]  # the batches of a request, by (topic id, partition)


@dataclass(slots=True)
class Tally:
    """How many records succeeded and failed; `gave_up`: a batch exceeded `delivery_ms`."""

    acknowledged_count: int = 0
    failed_count: int = 0
    first_error: DeliveryError | None = None
    gave_up: bool = False


class Delivery:
    """Sends batches of `held`. `on_move` is called when a batch has ended or can be resent."""

    def __init__(
        self,
        held: Unacknowledged,
        transport: Transport,
        topics: Topics,
        *,
        acks: int,
        timeout_s: float,
        on_retry: Callable[[str], None],
        on_move: Callable[[], None],
    ) -> None:
        self.tally = Tally()
        self.under_way: set[asyncio.Task[None]] = set()
        self._held = held
        self._transport = transport
        self._topics = topics
        self._acks = acks
        self._timeout_s = timeout_s
        self._on_retry = on_retry
        self._on_move = on_move
        self._backoff = Backoff()

    async def identify(self) -> None:
        """Request a producer id once; pause if that failed. Raises DeliveryError if refused."""
        asked = {"transactional_id": None, "transaction_timeout_ms": 0}
        try:
            answer = await self._transport.call("init_producer_id", asked)
        except TransportError as error:
            self._on_retry(str(error))
            await self._backoff.pause()
            return
        number = answer["error_code"]
        if not number:
            self._held.identity = answer["producer_id"], answer["producer_epoch"]
            self._backoff.reset()
        elif code_of(number).retriable:
            await self._backoff.pause()
        else:
            raise DeliveryError(f"the broker refused a producer id: {code_text(number)}")

    def give_up(self, batch: Batch) -> None:
        """Fail a batch whose delivery time is over."""
        seconds = self._held.settings.delivery_ms / 1000
        told = "it may have been appended" if batch.unsure else "it was not appended"
        last = f". The last answer: {batch.trouble}" if batch.trouble else ""
        self.tally.gave_up = True
        self._fail(batch, f"no success within {seconds:g} s; {told}{last}")
        self._on_move()

    async def send(self, batches: list[Batch]) -> None:
        """Send a request, and start a task for its answer. With acks 0 there is none."""
        places = await self._places(batches)
        if not places:
            return
        try:
            if self._acks:
                answer = await self._transport.ask("produce", self._body(places))
                self.under_way.add(asyncio.create_task(self._settle(places, answer)))
                return
            await self._transport.post("produce", self._body(places))
            for batch in places.values():
                self._succeed(batch, -1)
        except TransportError as error:
            unsure = not isinstance(error, NotConnected)
            self._retry(places.values(), str(error), unsure=unsure)
            self._topics.forget()
        self._on_move()

    async def _places(self, batches: list[Batch]) -> Places:
        """Look up the topic ids of batches; fail or retry those without."""
        places = {}
        for batch in batches:
            try:
                topic_id, _ = await self._topics.find(batch.place.topic, create=False)
            except UnknownPlace as error:
                self._fail(batch, str(error))
                self._on_move()
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
            self._retry(places.values(), "the answer is incomplete", unsure=True)
            self._topics.forget()
        except RequestRefused as error:
            for batch in places.values():
                self._fail(batch, str(error))
        finally:
            self.under_way.discard(asyncio.current_task())
            self._on_move()

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
            self._held.out_of_order(batch, now_ms())
        elif code in _TOO_LARGE and self._held.may_split(batch):
            self._held.split(batch)
        elif code.retriable:
            text = code_text(said["error_code"], said["error_message"])
            self._retry([batch], f"{batch.place}: {text}", unsure=True)
        else:
            text = code_text(said["error_code"], said["error_message"])
            self._fail(batch, text, unsure=code is ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in _IDENTITY:
                self._held.identity = None

    def _succeed(self, batch: Batch, base_offset: int) -> None:
        self.tally.acknowledged_count += len(batch.records)
        self._held.succeed(batch, base_offset)

    def _retry(self, batches: Iterable[Batch], trouble: str, *, unsure: bool) -> None:
        for batch in batches:
            if batch.records:  # not ended yet
                batch.trouble = trouble
                self._on_retry(trouble)
                self._held.retry(batch, now_ms(), unsure=unsure)

    def _fail(self, batch: Batch, reason: str, *, unsure: bool = False) -> None:
        count = len(batch.records)
        noun = "record" if count == 1 else "records"
        error = DeliveryError(f"{count} {noun} for {batch.place}: {reason}")
        self.tally.failed_count += count
        self.tally.first_error = self.tally.first_error or error
        self._held.fail(batch, error, unsure=unsure)
