"""A request that comes alone is answered in the step that received it; others wait for a turn."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker.io_worker import IoWorker
from broker.network.connection import Connection
from broker.network.lone_senders import LoneSenders
from broker.network.processor import SMALL_FRAME_BYTES_MAX
from broker.runtime.clock import MS_NS
from broker.runtime.request import Request
from tests.unit.broker.network.test_connection import Rig, frames


def test_the_last_sender_is_alone_and_so_is_one_after_a_pause() -> None:
    senders = LoneSenders()
    one, other = object(), object()
    now_ns = 10 * MS_NS
    assert senders.is_alone(one, now_ns)
    assert senders.is_alone(one, now_ns)
    assert not senders.is_alone(other, now_ns)
    assert senders.is_alone(other, now_ns)
    assert not senders.is_alone(one, now_ns + MS_NS)
    assert senders.is_alone(other, now_ns + 2 * MS_NS + 1)
    senders.forget(one)
    assert senders.is_alone(other, now_ns + 2 * MS_NS + 1)
    senders.forget(other)
    assert not senders.is_alone(other, now_ns + 2 * MS_NS + 1), "nobody was last"


class Place(Rig):
    """A rig with a worker at rest, whose handler answers with the request's number."""

    def __init__(self) -> None:
        super().__init__(frame_bytes_max=1 << 20, bytes_max=1 << 22)
        self.handled: list[int] = []
        worker = IoWorker(0, self.queue, self, self.processor.writes, self.clock)  # type: ignore[arg-type]
        self.tasks = [asyncio.create_task(one.run()) for one in (worker, self.processor)]
        self.answers = True

    def dispatch(self, request: Request) -> None:
        number = request.header.correlation_id
        self.handled.append(number)
        if self.answers:
            request.connection.respond(request, [bytes([number])])


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    made = Place()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_lone_request_is_answered_at_once(place: Place) -> None:
    for number in range(3):
        place.receive(frames(number))
        assert place.transport.written == bytes(range(number + 1))
    await settled()
    assert place.handled == [0, 1, 2]
    assert place.budget.used_bytes == 0


async def test_requests_of_two_clients_by_turns_are_handled_together(place: Place) -> None:
    first, first_transport = place.connection, place.transport
    place.receive(frames(1))
    assert first_transport.written == b"\1"
    place.connect()
    place.receive(frames(2))
    assert place.transport.written == b"", "the other has just sent"
    place.connection, place.transport = first, first_transport
    place.receive(frames(3))
    assert place.transport.written == b"\1"
    await settled()
    assert place.handled == [1, 2, 3]
    assert place.transport.written == b"\1\3"


async def test_a_processor_has_a_worker_serve_in_its_own_turn(place: Place) -> None:
    place.receive(frames(1, 2))
    assert place.handled == []
    await asyncio.sleep(0)
    assert place.handled == [1, 2]
    assert place.transport.written == b"\1\2"


async def test_requests_of_many_clients_are_left_to_the_task_of_a_worker(place: Place) -> None:
    place.receive(frames(1, 2))
    place.connect()
    place.receive(frames(3, 4))
    await asyncio.sleep(0)
    assert place.handled == [], "the processor's turn: other processors may add theirs"
    await asyncio.sleep(0)
    assert place.handled == [1, 2, 3, 4]


@pytest.mark.parametrize("why", ["two", "large", "in flight", "queued", "login"])
async def test_what_else_waits_for_a_turn(place: Place, why: str) -> None:
    data = frames(1)
    if why == "two":
        data += frames(2)
    elif why == "large":
        size = SMALL_FRAME_BYTES_MAX + 1
        data = size.to_bytes(4, "big") + b"\1" + bytes(size - 1)
    elif why == "in flight":
        place.answers = False
        place.receive(frames(9))
        assert place.handled == [9], "it came alone"
        place.answers = True
    elif why == "queued":
        place.queue.held = True
        place.queue.put(Request(place.connection, None, None, 0))  # type: ignore[arg-type]
    else:
        place.connection.gate = Closed()  # type: ignore[assignment]
    handled = list(place.handled)
    place.receive(data)
    assert place.handled == handled
    assert place.connection.in_ready_list
    place.queue.take()
    place.connection.abort("the end of the test")


class Closed:
    """The gate of a client that has not logged in."""

    is_closed = True

    def pass_on(self) -> bool:
        return False


async def test_a_lone_request_that_cannot_be_read_costs_its_connection(place: Place) -> None:
    place.receive(frames(253))
    assert place.transport.ended == "aborted"
    place.connection.connection_lost(None)
    place.connect()
    place.receive(frames(1))
    await settled()
    assert place.transport.written == b"\1"


async def test_a_lone_request_is_held_as_others_are(place: Place) -> None:
    place.connection.reading.holds |= 16  # CLOSING: the broker stops
    place.receive(frames(1))
    await settled()
    assert place.handled == []


def test_a_connection_that_has_ended_is_forgotten() -> None:
    rig = Rig()
    rig.receive(frames(1))
    senders = rig.processor._lone_senders
    assert isinstance(senders._last, Connection)
    rig.connection.connection_lost(None)
    assert senders._last is None
