"""Delivery: the effect of each answer on a batch, and the counts."""

from __future__ import annotations

import asyncio

import pytest

from client.msgpack.backoff import FIRST_S, LONGEST_S
from client.msgpack.delivery import Delivery
from client.msgpack.transport import NotConnected, Topics, TransportError, UnknownPlace
from client.msgpack.unacknowledged import DeliveryError, ProducerSettings, Unacknowledged
from client.places import Place
from protocol.records import Record
from tests.support.msgpack_peer import metadata, produced


class Answering:
    """A transport: `fates` are the next answers to Produce: codes, or connection errors."""

    def __init__(self, *fates):
        self.fates = list(fates)

    async def call(self, api, _body, *, wait_ms=0):
        return metadata(1) if api == "metadata" else self.fates.pop(0)

    async def ask(self, api, body, *, wait_ms=0):
        assert api == "produce"
        fate = self.fates.pop(0)
        if isinstance(fate, NotConnected):
            raise fate
        answer = asyncio.get_running_loop().create_future()
        if isinstance(fate, Exception):
            answer.set_exception(fate)
        else:
            answer.set_result(produced(body, fate, base_offset=7))
        return answer


def delivery_of(transport, **settings):
    held = Unacknowledged(ProducerSettings(linger_ms=0, **{"idempotent": False, **settings}))
    told = []
    delivery = Delivery(
        held, transport, Topics(transport),
        acks=-1, timeout_s=5, on_retry=told.append, on_move=lambda: None,
    )  # fmt: skip
    return delivery, held, told


async def send(delivery, held, topic="t"):
    batch, _ = held.add(Place(topic, 0), Record(0, 1, None, b"v"), 0)
    await delivery.send(held.take(0, flush=True))
    while delivery.under_way:
        await asyncio.sleep(0)
    return batch


@pytest.mark.parametrize("code", [0, 46])
async def test_a_batch_appended_now_or_earlier_is_acknowledged(code):
    delivery, held, told = delivery_of(Answering(code))
    batch = await send(delivery, held)
    assert (batch.base_offset, batch.error) == (7, None)
    assert (delivery.tally.acknowledged_count, delivery.tally.failed_count) == (1, 0)
    assert (held.is_empty, told) == (True, [])


async def test_a_refusal_fails_the_batch_and_the_first_refusal_is_kept():
    delivery, held, _ = delivery_of(Answering(10, 29))
    first = await send(delivery, held)
    await send(delivery, held)
    assert delivery.tally.failed_count == 2
    assert delivery.tally.first_error is first.error
    assert "1 record for t-0: MESSAGE_TOO_LARGE" in str(first.error)


@pytest.mark.parametrize(
    ("fate", "unsure"),
    [(NotConnected("gone"), False), (TransportError("gone"), True), (6, True)],
)
async def test_a_retriable_batch_stays_and_the_reason_is_reported(fate, unsure):
    delivery, held, told = delivery_of(Answering(fate))
    batch = await send(delivery, held)
    assert (batch.attempts, batch.unsure, batch.error) == (1, unsure, None)
    assert len(told) == 1
    assert not held.is_empty
    delivery.give_up(batch)
    words = "it may have been appended" if unsure else "it was not appended"
    assert words in str(batch.error)
    assert "The last answer: " in str(batch.error)
    assert delivery.tally.gave_up


async def test_a_missing_topic_fails_its_batches():
    class Missing(Topics):
        async def find(self, topic, *, create):
            raise UnknownPlace(f"topic {topic!r}")

    transport = Answering()
    delivery, held, _ = delivery_of(transport)
    delivery._topics = Missing(transport)
    assert "topic 't'" in str((await send(delivery, held)).error)


async def test_requests_for_a_producer_id_back_off(monkeypatch):
    """The client used to ask a wrong port ten times a second."""
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    class Unreachable(Answering):
        async def call(self, api, _body, *, wait_ms=0):
            raise NotConnected("unreachable")

    delivery, _, told = delivery_of(Unreachable(), idempotent=True)
    monkeypatch.setattr(asyncio, "sleep", pause)
    for _ in range(6):
        await delivery.identify()
    assert (pauses[0], pauses[-1]) == (FIRST_S, LONGEST_S)
    assert pauses == sorted(pauses)
    assert told == ["unreachable"] * 6


async def test_a_refused_producer_id_ends_the_producer():
    answer = {"error_code": 53, "producer_id": -1, "producer_epoch": -1}
    delivery, held, _ = delivery_of(Answering(answer), idempotent=True)
    with pytest.raises(DeliveryError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        await delivery.identify()
    assert held.identity is None
