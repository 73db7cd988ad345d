"""One client connection: reads requests in order, and sends their answers in the same order.

Reading. All connections of a processor receive into one buffer that the processor owns, so an idle
connection holds no memory. The frame reader copies whole frames out of it; they wait in `frames`
until the processor submits them.

Order (docs/design.md, I7). Requests start in the order they arrived, and several may be in flight.
Each keeps its place in `slots`; its answer is sent after every answer before it.

Answers that are ready together are gathered and sent in one write
(`broker.network.gathered_writes`).

Flow. `reading` holds the reasons that stop reading (`broker.network.reading`); `account` counts the
connection's share of the broker's memory (`broker.network.connection_account`).

End. A connection ends when the peer closes it, when the peer sends something invalid, after
`connections.max.idle.ms`, or when a frame is incomplete at its deadline. Whole frames that the peer
sent before it closed are started first, but their answers are not waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from broker.network.byte_budget import ByteBudget
from broker.network.connection_account import ConnectionAccount, own_bytes
from broker.network.gathered_writes import GatheredWrites
from broker.network.reading import Hold, Reading
from broker.network.wide_sockets import WideSockets
from broker.runtime.clock import Clock
from broker.runtime.record_work import Walk
from broker.runtime.request import Buffer, ConnectionInfo, Extras, Request
from protocol.errors import FrameTooLarge
from protocol.framing import FramePool, FrameReader

if TYPE_CHECKING:
    from broker.network.logins.frame_gate import FrameGate

logger = logging.getLogger("barnabas.network")

# Above this many unsent bytes the client is not reading fast enough, and its next requests wait.
# One fetch answer of usual size (1 MiB) may be on its way without that.
WRITE_HIGH_WATER_BYTES = 1024 * 1024

# Up to here copying small answers together is cheaper than a gathering write.
JOINED_BYTES_MAX = 16 * 1024


# These end with an answer.
_UNANSWERED: Final = Hold.IN_FLIGHT | Hold.ANSWERS


class Submitter(Protocol):
    """The processor as its connections see it: their shared parts, and its callbacks."""

    budget: ByteBudget  # of request bytes
    answers: ByteBudget
    writes: GatheredWrites
    wide_sockets: WideSockets
    frame_pool: FramePool
    receive_buffer: memoryview
    clock: Clock

    def ready(self, connection: Connection) -> None:
        """Submit the whole frames of `connection` soon."""
        ...

    def received(self, connection: Connection, now_ns: int) -> None:
        """Submit the whole frames that `connection` has just received, soon or at once."""
        ...

    def forget(self, connection: Connection) -> None:
        """Drop `connection`, which has ended."""
        ...

    def count_refusal(self, connection: Connection, error: Exception) -> None:
        """Count `connection` as closed because of what it sent."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The socket of one client, and the requests it has in flight."""

    __slots__ = (
        "_out", "_peer_has_ended", "_processor", "account", "decoded", "decoding", "frames", "gate",
        "in_ready_list", "info", "last_active_ns", "reader", "reading", "refusal", "slots",
    )  # fmt: skip

    def __init__(self, processor: Submitter, info: ConnectionInfo, frame_bytes_max: int) -> None:
        self.info = info
        self.frames: deque[bytearray] = deque()
        self.slots: deque[Request] = deque()
        self.account = ConnectionAccount(processor.budget, processor.answers)
        self.reading = Reading(self.frames, processor.clock)
        # The first of `frames` decoded, if it may not start yet, or the error of decoding it.
        self.decoded: Request | BaseException | None = None
        self.decoding: Walk | None = None  # in a thread
        self.in_ready_list = False
        self.gate: FrameGate | None = None  # of a listener with SASL
        self.last_active_ns = 0
        self._processor = processor
        self.reader = FrameReader(frame_bytes_max, processor.frame_pool)
        self._out: list[Buffer] = []  # gathered since the last flush
        self._peer_has_ended = False
        self.refusal: Exception | None = None  # closes the connection after the last answer

    # -- the event loop calls these ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the loop's transport."""
        self.reading.transport = cast("asyncio.Transport", transport)
        self.reading.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.last_active_ns = self._processor.clock.monotonic_ns()
        if self._processor.budget.full:
            self.reading.hold(Hold.BUDGET)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the buffer to receive into: a large frame's own, or the processor's.

        The bytes leave the processor's buffer before the next read. uvloop reads a new connection
        once even if it is held, which gets room for one byte. While the budget is full, only the
        begun frame is read: a client that never pauses would always be within one, and never wait.
        """
        reader = self.reader
        if reader.has_room:
            return reader.room
        processor = self._processor
        buffer = processor.receive_buffer
        if (holds := self.reading.holds) or reader.reads_size_alone:
            return buffer[: 1 if holds else reader.missing_bytes]
        if processor.budget.full or (self.gate is not None and self.gate.is_closed):
            return buffer[: reader.missing_bytes]
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process `nbytes` that have just arrived in the buffer."""
        processor = self._processor
        reading, reader = self.reading, self.reader
        try:
            if reader.has_room:
                frames = reader.received(nbytes)
                processor.wide_sockets.widen(self)
            else:
                frames = reader.receive(processor.receive_buffer[:nbytes])
        except FrameTooLarge as error:
            self.refuse(error)
            return
        self.last_active_ns = now_ns = processor.clock.monotonic_ns()
        if frames:
            self.frames.extend(frames)
            reading.frame_begun_ns = 0
            if self.gate is not None and self.gate.is_closed:
                reading.hold(Hold.ONE_FRAME)
        begun = reader.begun
        if begun and not reading.frame_begun_ns:
            reading.frame_begun_ns = now_ns
        self.account.received(nbytes)
        if processor.budget.full and not begun:
            reading.hold(Hold.BUDGET)
        elif reading.holds:
            reading.pause_or_resume()
        if reader.refused is not None:
            self.refusal = reader.refused
            reading.hold(Hold.REFUSED)
        if frames:
            processor.received(self, now_ns)

    def eof_received(self) -> bool:
        """End the connection when the peer has sent its last byte, as Kafka does.

        Its earlier frames are started first, since a producer with acks=0 does not wait for
        answers. Returns whether the connection stays open for that.
        """
        if self.frames and not self.reading.holds & Hold.CLOSING:
            self._peer_has_ended = True
            self.reading.hold(Hold.REFUSED)
        return self._peer_has_ended

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Release everything that is not being handled."""
        self.reading.end()
        self._processor.forget(self)
        self.reader.drop()
        self.frames.clear()
        self.decoded = None
        if self.decoding is not None:
            self.decoding.withdraw()
        self._out.clear()
        slots, self.slots = self.slots, deque()
        working_bytes = 0
        for request in slots:
            if request.buffers is not None:
                continue
            if request.abandon():
                request.buffers = ()
            else:
                working_bytes += request.frame_bytes
        self.account.end(working_bytes)

    def pause_writing(self) -> None:
        """Stop reading a client that does not read its answers."""
        self.reading.hold(Hold.UNSENT)

    def resume_writing(self) -> None:
        """Continue: the client has read its answers."""
        self.last_active_ns = self._processor.clock.monotonic_ns()
        self.account.all_sent()
        self.release(Hold.UNSENT)

    # -- the broker calls these ----------------------------------------------------------------

    def release(self, reason: int) -> None:
        """Drop one reason; submit waiting frames, and resume reading if it was the last."""
        reading = self.reading
        if not reading.holds & reason:
            return
        reading.holds &= ~reason
        if self.frames and not reading.held:
            self._processor.ready(self)
        reading.pause_or_resume()

    def hear_of_room(self) -> bool:
        """Continue, since the queue has room; return whether the connection will use it."""
        self.release(Hold.QUEUE_FULL)
        return self.in_ready_list

    def submitted(self) -> None:
        """Continue after the last waiting frame has become a request."""
        self.reading.holds &= ~Hold.ONE_FRAME
        self.reading.pause_or_resume()
        if self._peer_has_ended:
            self.close()
        elif self.refusal is not None:
            self._close_if_refused()

    def _close_if_refused(self) -> None:
        if self.refusal is not None and not self.frames and not self.slots:
            self._processor.count_refusal(self, self.refusal)
            self.refusal = None
            self.close()

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Send the answer to `request` in its turn (I7), with the answers that waited behind it."""
        reading = self.reading
        if reading.transport is None:
            self._answered_late(request)
            return
        request.buffers = buffers
        if request.extras is not None:
            self._settle(request, request.extras)
        self.account.answered(request.frame_bytes, request.answer_bytes_max)
        slots = self.slots
        if slots[0] is not request:
            self.account.keep(own_bytes(buffers))
            return
        out = self._out
        if not out:
            self._processor.writes.add(self)
        out += buffers
        del slots[0]
        if slots and slots[0].buffers is not None:
            self._send_kept()
        if reading.holds & _UNANSWERED:
            self.release(_UNANSWERED)
        if self.refusal is not None:
            self._close_if_refused()

    def _send_kept(self) -> None:
        """Send the answers that have waited behind the one that is sent now."""
        slots, out, kept_bytes = self.slots, self._out, 0
        while slots and (ready := slots[0].buffers) is not None:
            out += ready
            kept_bytes += own_bytes(ready)
            if (extras := slots.popleft().extras) is not None and extras.timing is not None:
                self._processor.writes.note(extras.timing)
        self.account.let_go(kept_bytes)

    def _settle(self, request: Request, extras: Extras) -> None:
        """Give the frame of an answered request back, and take its times."""
        timing = extras.timing
        if timing is not None:
            timing.answered_ns = self._processor.clock.monotonic_ns()
            if self.slots[0] is request:  # else it is noted when it leaves
                self._processor.writes.add(self)
                self._processor.writes.note(timing)
        if (frame := request.give_frame()) is not None:
            self._processor.frame_pool.give(frame)

    def _answered_late(self, request: Request) -> None:
        """Release a request whose connection ended while it was handled."""
        if request.buffers is None:
            request.buffers = ()
            self.account.answered(request.frame_bytes, 0)

    def flush(self) -> None:
        """Send the answers gathered since the last flush, small ones in one piece."""
        out, self._out = self._out, []
        transport = self.reading.transport
        if transport is None or not out:
            return
        size = self.account.sent(out)
        if len(out) == 1:
            transport.write(out[0])
        elif size <= JOINED_BYTES_MAX:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self.reading.holds & Hold.UNSENT:
            self.account.unsent(own_bytes(out))

    def refuse(self, error: Exception) -> None:
        """Close because of what the client sent: counted always, logged at a limited rate."""
        self._processor.count_refusal(self, error)
        self.abort(str(error))

    def abort(self, reason: str) -> None:
        """Close immediately, dropping unsent answers."""
        transport = self.reading.transport
        if transport is None:
            return
        logger.debug("closing %(host)s:%(port)d: %(reason)s", self.info.log_fields(reason))
        self.reading.holds |= Hold.CLOSING
        transport.abort()

    def close(self) -> None:
        """Close after the given answers are sent."""
        self.reading.holds |= Hold.CLOSING
        self.flush()
        if self.reading.transport is not None:
            self.reading.transport.close()
