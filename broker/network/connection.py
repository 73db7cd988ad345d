"""One client connection: bytes in, requests in order, answers out in the same order.

Reading. All connections of a processor receive into one buffer that the processor owns, so an
idle connection holds no memory; the frame reader takes from it what arrived. Whole frames wait
here until their processor submits them.

Order (docs/design.md, I7). Requests are started in the order they arrived and several may be in
flight; each keeps its place in `slots`, and an answer leaves when everything before it has left.

Answers that become ready together are gathered and leave in one write
(`broker.network.gathered_writes`).

Flow. What stops reading is in `reading` (`broker.network.reading`), what the connection holds of
the broker's memory in `account` (`broker.network.connection_account`).

End. A connection ends by the peer's close, by an error in what it sent, by
`connections.max.idle.ms`, or by a frame that was begun and not ended in time. Whole frames that a
peer sent before it closed are started first; nobody waits for their answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

from broker.network.byte_budget import ByteBudget
from broker.network.connection_account import ConnectionAccount, own_bytes
from broker.network.gathered_writes import GatheredWrites
from broker.network.reading import Hold, Reading
from broker.partitions.record_work import Walk
from broker.runtime.clock import Clock
from broker.runtime.request import Buffer, ConnectionInfo, Request
from protocol.errors import FrameTooLarge
from protocol.framing import FramePool, FrameReader

logger = logging.getLogger("barnabas.network")

# Above this many unsent bytes the client is not reading fast enough, and its next requests wait.
# One fetch answer of usual size (1 MiB) may be on its way without that.
WRITE_HIGH_WATER_BYTES = 1024 * 1024

# Up to here copying small answers together is cheaper than a gathering write.
JOINED_BYTES_MAX = 16 * 1024


# These end with an answer.
_UNANSWERED: Final = Hold.IN_FLIGHT | Hold.ANSWERS


class Submitter(Protocol):
    """The processor as its connections see it: what they share, and what it is told of them."""

    budget: ByteBudget  # of request bytes
    answers: ByteBudget
    writes: GatheredWrites
    frame_pool: FramePool
    receive_buffer: memoryview
    clock: Clock

    def ready(self, connection: Connection) -> None:
        """Submit the whole frames of `connection` soon."""
        ...

    def forget(self, connection: Connection) -> None:
        """Drop `connection`, which has ended."""
        ...

    def count_refusal(self, connection: Connection, error: Exception) -> None:
        """Count `connection` as closed for what it sent."""
        ...


class Connection(asyncio.BufferedProtocol):
    """The socket of one client, and the requests it has in flight."""

    __slots__ = (
        "_out",
        "_peer_has_ended",
        "_processor",
        "_reader",
        "_refusal",
        "account",
        "decoded",
        "decoding",
        "frames",
        "in_ready_list",
        "info",
        "last_active_ns",
        "reading",
        "slots",
    )

    def __init__(self, processor: Submitter, info: ConnectionInfo, frame_bytes_max: int) -> None:
        self.info = info
        self.frames: deque[bytearray] = deque()
        self.slots: deque[Request] = deque()
        self.account = ConnectionAccount(processor.budget, processor.answers)
        self.reading = Reading(self.frames, processor.clock)
        # The first of `frames`, if it may not be started yet, or why it cannot be.
        self.decoded: Request | BaseException | None = None
        self.decoding: Walk | None = None  # the same, in a thread
        self.in_ready_list = False
        self.last_active_ns = 0
        self._processor = processor
        self._reader = FrameReader(frame_bytes_max, processor.frame_pool)
        self._out: list[Buffer] = []  # gathered since the last flush
        self._peer_has_ended = False
        self._refusal: Exception | None = None  # closes the connection after the last answer

    # -- the event loop calls these ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the transport is the loop's."""
        self.reading.transport = cast("asyncio.Transport", transport)
        self.reading.transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.last_active_ns = self._processor.clock.monotonic_ns()
        if self._processor.budget.full:
            self.reading.hold(Hold.BUDGET)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Return the processor's receive buffer: what is read is taken out before the next read.

        Or the memory that a large frame has already. A new connection is read once even if it is
        held, since uvloop does not ask: then it gets a byte, and is stopped. While the budget is
        full nothing is read beyond the frame that was begun: whoever sends one request after the
        other would else always be within one, and never wait.
        """
        reader = self._reader
        if reader.has_room:
            return reader.room
        processor = self._processor
        buffer = processor.receive_buffer
        if self.reading.holds:
            return buffer[:1]
        return buffer[: reader.missing_bytes] if processor.budget.full else buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take `nbytes` that have just arrived in the buffer."""
        processor = self._processor
        reading = self.reading
        reader = self._reader
        try:
            if reader.has_room:
                frames = reader.received(nbytes)
            else:
                frames = reader.receive(processor.receive_buffer[:nbytes])
        except FrameTooLarge as error:
            self.refuse(error)
            return
        self.last_active_ns = now_ns = processor.clock.monotonic_ns()
        if frames:
            self.frames.extend(frames)
            reading.frame_begun_ns = 0
            processor.ready(self)
        begun = reader.begun
        if begun and not reading.frame_begun_ns:
            reading.frame_begun_ns = now_ns
        self.account.received(nbytes)
        if processor.budget.full and not begun:
            reading.hold(Hold.BUDGET)
        elif reading.holds:
            reading.pause_or_resume()
        if reader.refused is not None:
            self._refusal = reader.refused
            reading.hold(Hold.REFUSED)

    def eof_received(self) -> bool:
        """End the connection when the peer has sent its last byte, as Kafka does.

        What it sent before is started first: a producer with acks=0 leaves without an answer. No
        answer is waited for. Returns whether the connection stays for that.
        """
        if self.frames and not self.reading.holds & Hold.CLOSING:
            self._peer_has_ended = True
            self.reading.hold(Hold.REFUSED)
        return self._peer_has_ended

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Let go of everything that is not being worked on."""
        self.reading.holds |= Hold.CLOSING
        self.reading.transport = None
        self._processor.forget(self)
        self._reader.drop()
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
        """Go on: the client has read."""
        self.last_active_ns = self._processor.clock.monotonic_ns()
        self.account.all_sent()
        self.release(Hold.UNSENT)

    # -- the broker calls these ----------------------------------------------------------------

    @property
    def within_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._reader.begun

    def release(self, reason: int) -> None:
        """Forget one reason; submit what waited, and read on when it was the last."""
        reading = self.reading
        if not reading.holds & reason:
            return
        reading.holds &= ~reason
        if self.frames and not reading.held:
            self._processor.ready(self)
        reading.pause_or_resume()

    def hear_of_room(self) -> bool:
        """Go on, there is room in the queue; whether the connection will use it."""
        self.release(Hold.QUEUE_FULL)
        return self.in_ready_list

    def submitted(self) -> None:
        """Go on after the last frame that was here has become a request."""
        self.reading.pause_or_resume()
        if self._peer_has_ended:
            self.close()
        else:
            self._close_if_refused()

    def _close_if_refused(self) -> None:
        if self._refusal is not None and not self.frames and not self.slots:
            self._processor.count_refusal(self, self._refusal)
            self._refusal = None
            self.close()

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        """Send the answer to `request` in its turn (I7), with all that waited behind it."""
        reading = self.reading
        if reading.transport is None:
            self._answered_late(request)
            return
        request.buffers = buffers
        if request.frame is not None:
            self._processor.frame_pool.give(request.give_frame())
        self.account.answered(request.frame_bytes, request.answer_bytes_max)
        slots = self.slots
        if slots[0] is not request:
            self.account.keep(own_bytes(buffers))
            return
        out = self._out
        if not out:
            self._processor.writes.add(self)
        kept_bytes = 0
        while slots and (ready := slots[0].buffers) is not None:
            out += ready
            if slots.popleft() is not request:
                kept_bytes += own_bytes(ready)
        if kept_bytes:
            self.account.let_go(kept_bytes)
        if reading.holds & _UNANSWERED:
            self.release(_UNANSWERED)
        if self._refusal is not None:
            self._close_if_refused()

    def _answered_late(self, request: Request) -> None:
        """Let go of a request whose connection ended while it was worked on."""
        if request.buffers is None:
            request.buffers = ()
            self.account.answered(request.frame_bytes, 0)

    def flush(self) -> None:
        """Send the answers gathered since the last flush, small ones in one piece."""
        out, self._out = self._out, []
        transport = self.reading.transport
        if transport is None or not out:
            return
        if len(out) == 1:
            transport.write(out[0])
        elif sum(map(len, out)) <= JOINED_BYTES_MAX:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
        if self.reading.holds & Hold.UNSENT:
            self.account.unsent(own_bytes(out))

    def refuse(self, error: Exception) -> None:
        """Close for something the client sent; said once in a while, counted always."""
        self._processor.count_refusal(self, error)
        self.abort(str(error))

    def abort(self, reason: str) -> None:
        """Close at once, dropping what was not sent."""
        transport = self.reading.transport
        if transport is None:
            return
        logger.debug("closing %s:%d: %s", self.info.peer_host, self.info.peer_port, reason)
        self.reading.holds |= Hold.CLOSING
        transport.abort()

    def close(self) -> None:
        """Close after what has been answered is sent."""
        self.reading.holds |= Hold.CLOSING
        self.flush()
        if self.reading.transport is not None:
            self.reading.transport.close()
