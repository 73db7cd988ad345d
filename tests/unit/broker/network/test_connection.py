"""A connection: frames in, answers out in order, and every reason to stop reading."""

import asyncio
import errno
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from broker.network.byte_budget import ByteBudget
from broker.network.connection import Connection
from broker.network.connection_limits import ConnectionLimits
from broker.network.gathered_writes import GatheredWrites
from broker.network.processor import (
    RECEIVE_BUFFER_BYTES,
    ConnectionSettings,
    Network,
    Processor,
)
from broker.network.reading import Hold
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.runtime.request import ConnectionInfo, Request
from broker.runtime.request_queue import RequestQueue
from protocol.dialect import DecodedRequest, RequestHeader
from protocol.errors import BadRequest, DecodeError, TakesLong
from protocol.messages.fetch import FetchRequest
from tests.support.fake_connection import LISTENER
from tests.support.fake_transport import FakeTransport


class NumberDialect:
    """A frame is one byte, the correlation id; 255 cannot be decoded, 254 gets only an error.

    The modules for 253 cannot be imported. From 200 on it is a fetch of 1,000 bytes. 100 and 101
    want a thread, in which 101 turns out to be one that can be only answered.
    """

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> DecodedRequest:
        assert not in_thread or frame[0] in (100, 101)
        if frame[0] in (100, 101) and not in_thread:
            raise TakesLong("many elements")
        if frame[0] == 101:
            raise BadRequest(101, "frame 101", b"bad")
        if frame[0] == 255:
            raise DecodeError("frame 255")
        if frame[0] == 253:
            raise OSError(errno.EMFILE, "Too many open files")
        if frame[0] == 254:
            raise BadRequest(254, "frame 254", b"bad")
        if frame[0] >= 200:
            body = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1_000)
            return DecodedRequest(RequestHeader(1, 4, frame[0], "test"), body)
        return DecodedRequest(RequestHeader(0, 0, frame[0], "test"), None)

    def encode_response(self, header: RequestHeader, response: Any) -> list[bytes]:
        return [response]


class Rig:
    """One processor with one connection; `pump` does what the processor's task would."""

    def __init__(
        self,
        *,
        in_flight_max: int = 100,
        queue_max: int = 100,
        bytes_max: int = 1_000,
        frame_bytes_max: int = 100,
        answer_bytes_max: int = 1 << 30,
    ) -> None:
        self.clock = ManualClock()
        self.clock.advance(1_000)
        self.metrics = Metrics()
        self.budget = ByteBudget(bytes_max, self.metrics, "budget_full_waits")
        self.answers = ByteBudget(answer_bytes_max, self.metrics, "answers_full_waits")
        self.queue = RequestQueue(queue_max, self.metrics)
        self.limits = ConnectionLimits(10, 10, {})
        self.limits.admit("127.0.0.1")
        self.jobs: list[Any] = []  # that a thread would do: (call, done)
        self.record_work: Any = SimpleNamespace(
            submit=lambda owner, client, call, done: self.jobs.append((call, done))
        )
        network = Network(
            settings=ConnectionSettings(
                frame_bytes_max=frame_bytes_max,
                in_flight_max=in_flight_max,
                idle_ms_max=600_000,
                frame_ms_max=30_000,
                fetch_bytes_max=1_000,
            ),
            limits=self.limits,
            queue=self.queue,
            budget=self.budget,
            answers=self.answers,
            writes=GatheredWrites(),
            record_work=self.record_work,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.processor = Processor(0, network)
        self.frame_bytes_max = frame_bytes_max
        self.connect()

    def connect(self) -> None:
        """Make a connection; the rig's own calls are about the last one."""
        info = ConnectionInfo(LISTENER, NumberDialect(), ("127.0.0.1", 9092), ("127.0.0.1", 5))
        self.connection = Connection(self.processor, info, self.frame_bytes_max)
        self.processor.connections[self.connection] = None
        self.metrics.connections_now += 1
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        while data:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            del buffer
            self.connection.buffer_updated(count)
            data = data[count:]

    async def pump(self) -> None:
        task = asyncio.create_task(self.processor.run())
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def take(self) -> list[Request]:
        taken = []
        while (request := self.queue.take()) is not None:
            taken.append(request)
        return taken


def frames(*numbers: int) -> bytes:
    return b"".join(b"\0\0\0\1" + bytes([number]) for number in numbers)


async def test_requests_start_in_order_and_answers_leave_in_order() -> None:
    rig = Rig()
    rig.receive(frames(1, 2, 3))
    await rig.pump()
    first, second, third = rig.take()
    assert [request.header.correlation_id for request in (first, second, third)] == [1, 2, 3]
    rig.connection.respond(third, [b"c"])
    rig.connection.respond(second, ())  # acks=0: nothing to send, its place is released
    assert rig.transport.written == b""
    rig.connection.respond(first, [b"a", b"A"])
    await asyncio.sleep(0)
    assert rig.transport.written == b"aAc"
    assert rig.budget.used_bytes == 0


async def test_any_split_of_the_stream_gives_the_same_requests() -> None:
    data = frames(1, 2, 3)
    for size in range(1, len(data) + 1):
        rig = Rig()
        for start in range(0, len(data), size):
            rig.receive(data[start : start + size])
        await rig.pump()
        assert [request.header.correlation_id for request in rig.take()] == [1, 2, 3], size
        assert rig.budget.used_bytes == len(data)


async def test_in_flight_bound_stops_reading_and_an_answer_goes_on() -> None:
    rig = Rig(in_flight_max=2)
    rig.receive(frames(1, 2, 3, 4))
    await rig.pump()
    first, second = rig.take()
    assert not rig.transport.reading
    rig.connection.respond(first, [b"a"])
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [3]
    assert not rig.transport.reading, "a frame still waits here"
    rig.connection.respond(second, [b"b"])
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [4]
    assert rig.transport.reading
    assert rig.metrics.connection_full_waits == 2


async def test_a_full_queue_pauses_the_connection_until_there_is_room() -> None:
    rig = Rig(queue_max=1)
    rig.receive(frames(1, 2))
    await rig.pump()
    assert not rig.transport.reading
    request = rig.queue.take()
    assert request is not None
    await rig.pump()
    assert rig.transport.reading
    assert [request.header.correlation_id for request in rig.take()] == [2]


async def test_a_full_budget_pauses_only_connections_between_frames() -> None:
    rig = Rig(bytes_max=9)
    rig.receive(frames(1))
    rig.receive(frames(2)[:4])
    assert rig.transport.reading
    rig.receive(b"\2" + frames(3)[:2])  # 12 bytes, and frame 3 is begun
    assert rig.budget.full
    assert rig.transport.reading, "a started frame must be able to end"
    rig.receive(frames(3)[2:])
    assert not rig.transport.reading
    await rig.pump()
    for request in rig.take():
        rig.connection.respond(request, [b"."])
    assert rig.transport.reading
    assert rig.budget.used_bytes == 0


async def test_a_client_that_does_not_read_its_answers_is_paused() -> None:
    rig = Rig()
    rig.connection.pause_writing()
    assert not rig.transport.reading
    rig.receive(frames(1))  # was sent before the pause
    await rig.pump()
    assert rig.take() == []
    rig.connection.resume_writing()
    await rig.pump()
    assert len(rig.take()) == 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("undecodable", frames(255)),
        ("negative size", b"\xff\xff\xff\xff"),
        ("too large", b"\x7f\xff\xff\xff"),
    ],
)
async def test_an_invalid_request_closes_only_its_connection(name: str, data: bytes) -> None:
    rig = Rig()
    rig.receive(data)
    await rig.pump()
    assert rig.transport.ended == "aborted", name
    rig.connection.connection_lost(None)
    assert rig.metrics.protocol_errors == 1
    assert rig.budget.used_bytes == 0
    assert rig.metrics.connections_now == 0
    assert rig.limits.count == 0


async def test_a_request_before_a_refused_size_is_answered_and_then_the_connection_closes() -> None:
    rig = Rig()
    rig.receive(frames(1) + b"\x7f\xff\xff\xff")
    await rig.pump()
    [request] = rig.take()
    assert not rig.transport.reading
    assert rig.transport.ended == ""
    rig.connection.respond(request, [b"a"])
    assert rig.transport.ended == "closed"
    rig.connection.connection_lost(None)
    assert rig.metrics.protocol_errors == 1
    assert rig.budget.used_bytes == 0


async def test_a_lost_connection_releases_requests_that_have_not_started() -> None:
    rig = Rig(in_flight_max=4)
    rig.receive(frames(1, 2, 3, 4, 5) + b"\0\0")
    await rig.pump()
    parked, worked_on, answered, queued = rig.take()
    abandoned: list[bool] = []
    parked.on_abandon = lambda: abandoned.append(True)
    rig.connection.respond(answered, [b"waits behind the first"])
    assert (rig.budget.used_bytes, rig.answers.used_bytes) == (22, 22)
    rig.connection.connection_lost(None)
    assert abandoned == [True]
    assert rig.budget.used_bytes == 10, "requests that are worked on still hold their bytes"
    assert rig.answers.used_bytes == 0
    for request in (
        queued,
        queued,
        worked_on,
        parked,
        answered,
    ):  # a late answer releases its bytes once
        rig.connection.respond(request, [b"late"])
    await asyncio.sleep(0)
    assert rig.budget.used_bytes == 0
    assert rig.transport.written == b""


@pytest.mark.parametrize("ends", ["peer", "abort", "idle", "frame deadline", "undecodable", "size"])
async def test_any_end_of_a_connection_releases_its_memory(ends: str) -> None:
    rig = Rig(in_flight_max=3)
    rig.receive(frames(1, 2, 3, 4) + b"\0\0\0\3ab")
    await rig.pump()
    parked, worked_on, answered = rig.take()
    parked.on_abandon = lambda: None
    rig.connection.respond(answered, [b"c"])
    if ends == "abort":
        rig.connection.abort("test")
    elif ends == "idle":
        rig.clock.advance(700_000)
        rig.processor.sweep()
    elif ends == "frame deadline":
        rig.connection.reading.hold(Hold.UNSENT)
        rig.clock.advance(40_000)
        rig.processor.sweep()
    elif ends == "undecodable":
        rig.receive(b"c" + frames(255))
    elif ends == "size":
        rig.receive(b"c" + b"\xff\xff\xff\xff")
    await rig.pump()
    rig.connection.connection_lost(None)
    assert rig.budget.used_bytes == 5, "the bytes of the request in work"
    rig.connection.respond(worked_on, [b"b"])
    assert (rig.budget.used_bytes, rig.answers.used_bytes) == (0, 0)
    assert (rig.connection.account.request_bytes, rig.queue.waiter_count) == (0, 0)


async def test_requests_sent_before_the_peer_left_are_started_then_the_connection_ends() -> None:
    rig = Rig()
    rig.receive(frames(1, 2, 3))
    assert rig.connection.eof_received()
    assert (rig.transport.ended, rig.transport.reading) == ("", False)
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [1, 2, 3]
    assert rig.transport.ended == "closed"


async def test_a_peer_that_left_with_nothing_to_start_ends_the_connection_at_once() -> None:
    rig = Rig()
    rig.receive(frames(1)[:3])
    assert not rig.connection.eof_received()


async def test_a_pipelining_client_is_paused_at_the_end_of_its_current_frame() -> None:
    rig = Rig(bytes_max=9)
    stream = frames(*range(1, 20))
    rig.receive(stream[: (taken := 12)])  # two frames, and half a size
    while rig.transport.reading:
        size = len(rig.connection.get_buffer(-1))
        rig.receive(stream[taken : taken + size])
        taken += size
    assert taken == 15, "the third frame is whole, and the fourth not begun"
    await rig.pump()
    for request in rig.take():
        rig.connection.respond(request, [b"a"])
    assert rig.transport.reading
    assert len(rig.connection.get_buffer(-1)) == RECEIVE_BUFFER_BYTES


async def test_a_connection_made_while_the_budget_is_full_is_paused_at_once() -> None:
    rig = Rig(bytes_max=9)
    rig.budget.take(10)
    rig.connect()
    rig.transport.reading = True  # as uvloop does after connection_made, without asking
    rig.receive(frames(1)[:1])
    assert not rig.transport.reading
    assert rig.budget.used_bytes == 11, "one byte was read before it could be stopped"
    rig.budget.give_back(10)
    assert rig.transport.reading
    rig.receive(frames(1)[1:])
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [1]


async def test_a_hold_stops_reading_even_if_the_transport_resumed_by_itself() -> None:
    rig = Rig()
    rig.connection.reading.hold(Hold.QUEUE_FULL)
    rig.transport.reading = True
    rig.connection.reading.hold(Hold.UNSENT)
    assert not rig.transport.reading


async def test_answers_after_a_waiting_one_are_bounded() -> None:
    rig = Rig(answer_bytes_max=400)  # 100 per connection
    rig.receive(frames(1, 2, 3, 4))
    await rig.pump()
    first, second, third, fourth = rig.take()
    rig.connection.respond(second, [b"x" * 60, memoryview(b"mapped" * 100)])
    rig.connection.respond(third, [b"y" * 41])
    assert rig.answers.used_bytes == 101
    rig.receive(frames(5, 6))
    await rig.pump()
    assert rig.take() == [], "started behind more answers than may wait"
    assert not rig.transport.reading
    assert rig.metrics.answers_full_waits == 1
    rig.connection.respond(first, [b"x"])
    assert rig.answers.used_bytes == 0
    rig.connection.respond(fourth, [b"x"])
    await rig.pump()
    assert len(rig.take()) == 2
    assert rig.transport.reading


async def test_a_request_whose_answer_may_not_fit_waits_unless_it_is_the_first() -> None:
    rig = Rig(answer_bytes_max=400)  # 100 per connection
    rig.receive(frames(*[200 + number for number in range(3)]))  # which want 1,000 bytes each
    for number in range(3):
        await rig.pump()
        (request,) = rig.take()
        assert request.header.correlation_id == 200 + number
        rig.connection.respond(request, [b"z" * 1_000])
    assert (rig.budget.used_bytes, rig.connection.account.reserved_bytes) == (0, 0)


async def test_full_answers_leave_each_connection_one_large_answer_at_a_time() -> None:
    rig = Rig(answer_bytes_max=100_000)
    rig.answers.take(100_001)
    rig.receive(frames(200, 201, 1))
    await rig.pump()
    (first,) = rig.take()
    rig.answers.give_back(100_001)
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [201, 1]
    rig.connection.respond(first, [b"."])


async def test_unread_answers_are_counted_until_the_client_reads_them() -> None:
    rig = Rig()
    rig.receive(frames(1, 2))
    await rig.pump()
    first, second = rig.take()
    rig.transport.full = rig.connection
    rig.connection.respond(first, [b"x" * 50])
    await asyncio.sleep(0)
    rig.connection.respond(second, [b"x" * 7])
    await asyncio.sleep(0)
    assert rig.answers.used_bytes == 57
    rig.connection.resume_writing()
    assert rig.answers.used_bytes == 0


async def test_a_stop_sends_answers_and_accepts_no_requests() -> None:
    rig = Rig()
    rig.receive(frames(1))
    await rig.pump()
    (request,) = rig.take()
    rig.connection.reading.hold(Hold.CLOSING)
    rig.receive(frames(2))
    await rig.pump()
    assert rig.take() == []
    rig.connection.respond(request, [b"a"])
    rig.connection.close()
    assert rig.transport.written == b"a"
    assert rig.transport.ended == "closed"


async def test_the_buffer_of_an_answered_request_is_reused() -> None:
    size = 3 * RECEIVE_BUFFER_BYTES
    rig = Rig(bytes_max=10 * size, frame_bytes_max=size)

    async def request(number: int) -> Request:
        rig.receive(size.to_bytes(4, "big") + bytes([number]) * size)
        await rig.pump()
        (taken,) = rig.take()
        assert taken.header.correlation_id == number
        return taken

    first = await request(1)
    second = await request(2)
    assert first.extras is not None
    assert first.extras.frame == bytes([1]) * size
    rig.connection.respond(second, [b"b"])
    assert rig.processor.frame_pool.kept_bytes == size, "though the first goes first"
    rig.connection.respond(first, [b"a"])
    assert first.body is None
    assert first.extras.frame is None
    assert rig.processor.frame_pool.kept_bytes == 2 * size
    third = await request(3)
    assert third.extras is not None
    assert third.extras.frame == bytes([3]) * size
    assert rig.processor.frame_pool.kept_bytes == size
    assert rig.budget.used_bytes == size + 4
    rig.processor.sweep()
    rig.processor.sweep()
    assert rig.processor.frame_pool.kept_bytes == 0
