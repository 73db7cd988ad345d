"""Processors: each owns a share of the connections and submits their requests.

The loop receives for a connection, which adds itself to its processor's ready list. The processor's
task then takes all ready connections, decodes their whole frames and puts the requests on the
queue: one wake-up for many frames, like the ready keys of the selector in Kafka's Processor. If one
connection was ready, a worker that rests takes them in the same step. A frame that takes long to
decode goes to a thread, and its connection waits. The processor also ends connections that are
idle for too long, or whose frame is incomplete at its deadline.

A request that comes alone (`broker.network.lone_senders`) does not wait for the processor's task,
which would take a turn of the loop: it is submitted, handled and answered as soon as it is
received. The requests of many connections do wait, since it is cheaper to handle them together.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.network.bad_requests import BadRequests
from broker.network.byte_budget import ByteBudget
from broker.network.connection import Connection
from broker.network.connection_account import answer_bytes_max
from broker.network.connection_limits import ConnectionLimits
from broker.network.gathered_writes import GatheredWrites
from broker.network.hang_ups import let_go
from broker.network.logins.login_errors import LoginEnded
from broker.network.lone_senders import LoneSenders
from broker.network.reading import HOLDS_FRAMES, Hold
from broker.network.slow_decodes import LARGE_BYTES, SlowDecodes, TurnUsedUp
from broker.network.wide_sockets import WideSockets
from broker.runtime import owners
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.log_lines import RateLimiter
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.record_work import RecordWork
from broker.runtime.request import ConnectionInfo, Extras, Request
from broker.runtime.request_queue import RequestQueue
from broker.runtime.request_times import RequestTiming
from protocol.api_keys import ApiKey
from protocol.errors import BadRequest, ProtocolError, TakesLong
from protocol.framing import REUSED_BYTES_MIN, FramePool

if TYPE_CHECKING:
    from broker.network.logins.frame_gate import FrameGate, FrameSource

logger = logging.getLogger("barnabas.network")

# The most that one read takes from a socket: a few large batches, yet small for any core's cache.
RECEIVE_BUFFER_BYTES = 256 * 1024
# Decoded and handled in the step that has received it, if it comes alone.
SMALL_FRAME_BYTES_MAX = 32 * 1024
_PRODUCE = int(ApiKey.PRODUCE)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The keys that bound one connection."""

    frame_bytes_max: int  # socket.request.max.bytes
    in_flight_max: int  # barnabas.requests.per.connection.max
    idle_ms_max: int  # connections.max.idle.ms
    frame_ms_max: int  # barnabas.frame.deadline.ms
    fetch_bytes_max: int  # fetch.max.bytes


@dataclass(frozen=True, slots=True)
class Network:
    """The parts that all processors of a broker share."""

    settings: ConnectionSettings
    limits: ConnectionLimits
    queue: RequestQueue
    budget: ByteBudget  # of request bytes
    answers: ByteBudget
    writes: GatheredWrites
    record_work: RecordWork
    metrics: Metrics
    clock: Clock
    # If a listener has SASL.
    make_gate: Callable[[Connection, FrameSource], FrameGate] | None = None
    lone_senders: LoneSenders = field(default_factory=LoneSenders)
    wide_sockets: WideSockets = field(default_factory=WideSockets)


class Processor:
    """One of `num.network.threads` processors."""

    def __init__(self, index: int, network: Network) -> None:
        self.name = f"processor-{index}"
        self.budget, self.answers = network.budget, network.answers
        self.writes, self.clock = network.writes, network.clock
        self.frame_pool = FramePool()
        self.receive_buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.connections: dict[Connection, None] = {}  # in the order of their beginning
        self.queue = network.queue
        self._record_work = network.record_work
        self._settings, self._limits = network.settings, network.limits
        self._make_gate = network.make_gate
        self._lone_senders, self.wide_sockets = network.lone_senders, network.wide_sockets
        self.metrics = network.metrics
        self.bad_requests = BadRequests(network.metrics)
        self._slow_decodes = SlowDecodes(network.clock)
        self._ready: list[Connection] = []
        self._wake: asyncio.Future[None] | None = None
        self._refusals = RateLimiter(network.clock, per_second_max=5)
        network.budget.listen(self._budget_changed)
        network.answers.listen(self._answers_changed)

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame of a connection."""
        return self._settings.frame_bytes_max

    def join(self, connection: Connection) -> None:
        """Own a connection that begins."""
        self.connections[connection] = None
        self.metrics.connections_now += 1
        if connection.info.listener.has_sasl:
            assert self._make_gate is not None, "a listener with SASL needs gates"
            connection.gate = self._make_gate(connection, self)

    async def adopt(self, sock: socket.socket, info: ConnectionInfo) -> None:
        """Make `sock` a connection of this processor."""
        self.wide_sockets.accepted(sock)
        connection = Connection(self, info, self._settings.frame_bytes_max)
        self.join(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock)
        except OSError as error:
            logger.debug("connection of %(host)s was gone: %(reason)s", info.log_fields(error))
            self.forget(connection)
            sock.close()
        except asyncio.CancelledError:
            # uvloop closes the transport without calling connection_lost, even after it began.
            if connection in self.connections:
                connection.connection_lost(None)
            raise

    def forget(self, connection: Connection) -> None:
        """Drop a connection that has ended."""
        self.queue.forget(connection)
        self._lone_senders.forget(connection)
        self.wide_sockets.forget(connection)
        if connection in self.connections:
            del self.connections[connection]
            self.metrics.connections_now -= 1
            (info := connection.info).has_ended = True
            self._limits.leave(info.peer_host, info.listener.name)
            self.metrics.traffic.listener(info.listener.name).closed += 1

    def ready(self, connection: Connection) -> None:
        """Note that `connection` has whole frames."""
        if connection.in_ready_list:
            return
        connection.in_ready_list = True
        self._ready.append(connection)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def received(self, connection: Connection, now_ns: int) -> None:
        """Submit the whole frames that have just arrived: at once if one comes alone, or soon."""
        is_alone = self._lone_senders.is_alone(connection, now_ns)
        if is_alone and not self._ready and self.queue.is_idle and _sends_one_small(connection):
            self._take((connection,), now_ns)
        else:
            self.ready(connection)

    async def run(self) -> None:
        """Submit the frames of ready connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._ready:
                self._wake = loop.create_future()
                await self._wake
            ready, self._ready = self._ready, []
            self._take(ready, self.clock.monotonic_ns())

    def _take(self, ready: Sequence[Connection], begun_ns: int) -> None:
        """Submit the frames of ready connections; a worker begins now if there is only one."""
        queue = self.queue
        queue.held = len(ready) == 1
        for connection in ready:
            connection.in_ready_list = False
            try:
                self._submit(connection)
            except Exception as error:  # the other ready connections must go on
                owners.failed(Owner.PROCESSOR, error, self.name)
                connection.abort("internal error")
            queue.tell_next()
        queue.pass_on(begun_ns)

    def _submit(self, connection: Connection) -> None:
        frames = connection.frames
        slots = connection.slots
        reading = connection.reading
        account = connection.account
        queue = self.queue
        in_flight_max = self._settings.in_flight_max
        gate = connection.gate
        while frames and not reading.holds & HOLDS_FRAMES and (gate is None or gate.pass_on()):
            if queue.full:
                reading.hold(Hold.QUEUE_FULL)
                queue.wait_for_room(connection)
                return
            if len(slots) >= in_flight_max:
                self.metrics.connection_full_waits += 1
                reading.hold(Hold.IN_FLIGHT)
                return
            request = connection.decoded
            if type(request) is not Request:
                try:
                    if isinstance(request, BaseException):
                        connection.decoded = None
                        raise request
                    request = self.decode(connection, frames[0])
                except TakesLong as error:
                    self._decode_later(connection, frames[0], error)
                    return
                except BadRequest as error:
                    self.bad_requests.take(connection, error)
                    continue
                except (ProtocolError, OSError, ImportError) as error:
                    # The first request of an API imports its module: a file must be opened.
                    connection.refuse(error)
                    return
            reserved = request.answer_bytes_max
            if slots and (reserved or account.answer_bytes) and not account.may_start(reserved):
                self.metrics.answers_full_waits += 1
                connection.decoded = request
                reading.hold(Hold.ANSWERS)
                return
            connection.decoded = None
            frames.popleft()
            account.reserved_bytes += reserved
            slots.append(request)
            metrics = self.metrics
            metrics.requests_received = count = metrics.requests_received + 1
            if count >= queue.timed_at:
                _time(request, count, queue, self.clock.monotonic_ns())
            queue.put(request)
        if not frames:
            connection.submitted()

    def _decode_later(self, connection: Connection, frame: bytearray, why: TakesLong) -> None:
        """Decode a connection's first frame in a turn to come, or a thread; its others wait."""
        if isinstance(why, TurnUsedUp):
            self._slow_decodes.wait(connection)
            return
        decoded: list[Request] = []

        def decode() -> None:
            decoded.append(self.decode(connection, frame, in_thread=True))

        def ended(error: BaseException | None) -> None:
            connection.decoding = None
            if connection.frames and connection.frames[0] is frame:  # it has not gone meanwhile
                connection.decoded = error or decoded[0]
            connection.release(Hold.DECODING)

        connection.reading.hold(Hold.DECODING)
        walk = self._record_work.submit(Owner.PROCESSOR, connection, decode, ended)
        connection.decoding = walk

    def decode(
        self, connection: Connection, frame: bytearray, *, in_thread: bool = False
    ) -> Request:
        """Return the request of a frame. Raises what its dialect and its imports raise."""
        dialect, view = connection.info.dialect, memoryview(frame)
        frame_bytes = len(frame) + 4
        if in_thread:
            decoded = dialect.decode_request(view, in_thread=True)
        elif frame_bytes > LARGE_BYTES and frame[1]:  # 0 in Kafka's Produce
            decoded = self._slow_decodes.decode(dialect, view)
        else:
            decoded = dialect.decode_request(view)
        header = decoded.header
        request = Request(
            connection,
            header,
            decoded.body,
            frame_bytes,
            0  # as there, without a call: the answer is smaller than the request
            if header.api_key == _PRODUCE
            else answer_bytes_max(header.api_key, decoded.body, self._settings.fetch_bytes_max),
        )
        if frame_bytes > REUSED_BYTES_MIN:
            request.extras = extras = Extras()
            extras.frame = frame
        return request

    def sweep(self) -> None:
        """End connections past a deadline, and release unused memory; about once a second."""
        self.frame_pool.trim()
        now_ns = self.clock.monotonic_ns()
        _end_late(tuple(self.connections), now_ns, self._settings, self.metrics)

    def count_refusal(self, connection: Connection, error: Exception) -> None:
        """Count a connection closed for what it sent; log that a few times a second at most."""
        if isinstance(error, LoginEnded):
            return
        self.metrics.protocol_errors += 1
        dropped = self._refusals.allow()
        if dropped is not None:
            info = connection.info
            logger.warning(
                "closing connection of %(host)s:%(port)d on listener %(listener)s:"
                " %(reason)s%(note)s",
                info.log_fields(error, dropped),
            )

    def pause_all(self) -> None:
        """Stop reading everywhere: the broker is stopping."""
        for connection in tuple(self.connections):
            connection.reading.hold(Hold.CLOSING)

    def close_all(self, *, abort: bool) -> None:
        """End all connections, immediately or after their answers are sent."""
        for connection in tuple(self.connections):
            if abort:
                connection.abort("the broker is stopping")
            else:
                connection.close()

    def _budget_changed(self, full: bool) -> None:  # noqa: FBT001 - the budget's callback
        for connection in tuple(self.connections):
            if full:
                connection.reading.hold_for_budget(within_frame=connection.reader.begun)
            else:
                connection.release(Hold.BUDGET)

    def _answers_changed(self, full: bool) -> None:  # noqa: FBT001 - the budget's callback
        if not full:
            for connection in tuple(self.connections):
                connection.release(Hold.ANSWERS)


def _sends_one_small(connection: Connection) -> bool:
    """Whether one small frame is all that the client has sent and has no answer to."""
    frames = connection.frames
    return (
        len(frames) == 1
        and len(frames[0]) <= SMALL_FRAME_BYTES_MAX
        and not connection.slots
        and (connection.gate is None or not connection.gate.is_closed)
    )


def _time(request: Request, count: int, queue: RequestQueue, now_ns: int) -> None:
    """Take the times of a request that has arrived now as the broker's `count`-th."""
    stands_for, queue.timed_at = queue.sampling.take(count, now_ns)
    queue.has_timed = True
    if request.extras is None:
        request.extras = Extras()
    request.extras.timing = RequestTiming(request.header.api_key, now_ns, stands_for)


def _end_late(
    connections: Sequence[Connection], now_ns: int, settings: ConnectionSettings, metrics: Metrics
) -> None:
    """End connections past a deadline, and those that wait for us and have lost their client."""
    for connection in connections:
        _end_if_late(connection, now_ns, settings, metrics)
    let_go(connections, now_ns, settings.idle_ms_max, metrics)


def _end_if_late(
    connection: Connection, now_ns: int, settings: ConnectionSettings, metrics: Metrics
) -> None:
    """End a connection whose frame is late, or that is idle for too long."""
    reading = connection.reading
    frame_begun_before_ns = now_ns - settings.frame_ms_max * MS_NS
    if 0 < reading.frame_begun_ns < frame_begun_before_ns and reading.waits_for_client:
        metrics.frames_timed_out += 1
        connection.refuse(TimeoutError(f"frame incomplete after {settings.frame_ms_max} ms"))
    elif connection.gate is not None and connection.gate.is_closed:
        connection.gate.login.end_if_silent(now_ns)
    elif reading.holds & Hold.THROTTLED:
        return  # it waits for us (`broker.network.hang_ups`)
    elif settings.idle_ms_max > 0 and (
        connection.last_active_ns < now_ns - settings.idle_ms_max * MS_NS
    ):
        metrics.connections_closed_idle += 1
        connection.abort(f"idle for {settings.idle_ms_max} ms")
