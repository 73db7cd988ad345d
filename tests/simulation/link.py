"""One connection between a client of the world and the broker: what TCP does, without packets.

A `Link` has two `Way`s. Bytes travel a way in order, in pieces that the connection's own stream of
random numbers cuts, late, and sometimes only after a long stop; an end travels behind them.

    to the broker   the client may send any amount. At most `window_bytes` of it wait unread at the
                    broker's socket; the rest waits on its way.
    to the client   what the broker wrote and the client has not read fills the window. A full
                    window takes nothing, so the broker's transport keeps the rest.

The ends are those of a kernel. Closing a socket with unread bytes resets the connection, and so do
bytes that reach a closed socket. A reset overtakes bytes on their way: some of them are lost.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tests.simulation.world import MS, US, Event, World

# Crumbs come in rows of this many: thousands of them would cost the simulator a second.
CRUMBS = 12
PIECES_MAX = 4  # of what waits at a time: where it is cut matters, and not how often
CRUMBS_AGAIN_CHANCE = 0.03  # at each message


@dataclass(frozen=True, slots=True)
class NetworkShape:
    """How the network of a history behaves. Numbers only, so that a plan can keep it."""

    latency_min_us: int = 20
    latency_max_us: int = 400
    whole_chance: float = 0.7  # that all bytes which wait travel as one piece
    crumbs_chance: float = 0.1  # that a connection sends pieces of 1 to 3 bytes
    stall_chance: float = 0.002  # that a piece waits for up to `stall_ms`
    stall_ms: int = 300
    window_bytes: int = 16 * 1024
    invalid_option_chance: float = 0.25  # that a socket which was reset refuses its options


class End(Enum):
    """How a way ends."""

    CLOSED = "closed"  # after its bytes
    RESET = "reset"


class Way:
    """One direction of a connection."""

    __slots__ = (
        "_arrive",
        "_chance",
        "_crumbs",
        "_ended",
        "_event",
        "_pieces",
        "_world",
        "data",
        "end",
        "has_ended",
        "room",
        "sends_crumbs",
        "shape",
    )  # fmt: skip

    def __init__(
        self,
        world: World,
        chance: random.Random,
        shape: NetworkShape,
        room: Callable[[], int],
        arrive: Callable[[bytes], None],
        ended: Callable[[End], None],
    ) -> None:
        self.data = bytearray()  # on its way
        self.end: End | None = None
        self.has_ended = False  # the end has arrived
        self.room = room
        self.shape = shape
        self.sends_crumbs = chance.random() < shape.crumbs_chance
        self._world = world
        self._chance = chance
        self._arrive = arrive
        self._ended = ended
        self._event: Event | None = None
        self._crumbs = CRUMBS if self.sends_crumbs else 0
        self._pieces = 0  # since nothing waited

    def send(self, data: bytes | memoryview) -> None:
        """Put bytes on their way."""
        self.data += data
        self.go()

    def finish(self, end: End) -> None:
        """Let nothing follow. A reset overtakes an end, and some of the bytes."""
        if self.end is End.RESET or self.end is end:
            return
        self.end = end
        self.has_ended = False
        if end is End.RESET and self.data:
            del self.data[self._chance.randrange(len(self.data) + 1) :]
        self.go()

    def lose(self) -> None:
        """Drop the bytes, and the end if it has not arrived."""
        self.data.clear()
        self.has_ended = True
        if self._event is not None:
            self._event.cancel()
            self._event = None

    def go(self) -> None:
        """Move the next piece after a time, if there is something and room for it."""
        if self._event is not None:
            return
        if not self.data and (self.end is None or self.has_ended):
            return
        if self.end is not End.RESET and self.room() <= 0:
            return
        self._event = self._world.after(self._delay_ns(), self._step)

    def _delay_ns(self) -> int:
        shape, chance = self.shape, self._chance
        spread_us = shape.latency_max_us - shape.latency_min_us
        delay_ns = int((shape.latency_min_us + spread_us * chance.random()) * US)
        if shape.stall_chance and chance.random() < shape.stall_chance:
            delay_ns += int(shape.stall_ms * MS * chance.random())
        return delay_ns

    def _piece_bytes(self, available: int) -> int:
        if available == 1:
            return 1
        chance = self._chance
        if self._crumbs:
            self._crumbs -= 1
            return min(available, chance.randrange(1, 4))
        self._pieces += 1
        if self._pieces > PIECES_MAX or chance.random() < self.shape.whole_chance:
            return available
        # Small pieces are more likely.
        return 1 + int((available - 1) * chance.random() ** 3)

    def _step(self) -> None:
        self._event = None
        if self.data:
            room = self.room()
            if room > 0:
                count = self._piece_bytes(min(len(self.data), room))
                piece = bytes(self.data[:count])
                del self.data[:count]
                if not self.data:
                    self._pieces = 0
                    if self.sends_crumbs:
                        self._crumbs = CRUMBS * (self._chance.random() < CRUMBS_AGAIN_CHANCE)
                self._arrive(piece)
            elif self.end is End.RESET:
                self.data.clear()
        elif self._may_end:
            self.has_ended = True
            assert self.end is not None
            self._ended(self.end)
        self.go()

    @property
    def _may_end(self) -> bool:
        """Whether the end arrives; who does not read sees only a reset."""
        if self.end is None or self.has_ended:
            return False
        return self.end is End.RESET or self.room() > 0


class Notified(Protocol):
    """A transport, as its socket sees it."""

    def readable(self) -> None:
        """Read, if the transport reads."""

    def writable(self) -> None:
        """Write, if something waits."""


class Link:
    """The two ends of a connection; the client's end is `peer`."""

    def __init__(
        self,
        world: World,
        chance: random.Random,
        shape: NetworkShape,
        client: tuple[str, int],
        server: tuple[str, int],
        gone: Callable[[], None],
    ) -> None:
        self.world = world
        self.chance = chance
        self.shape = shape
        self.client = client
        self.server = server
        self.peer = Peer(self)
        # The broker's socket.
        self.arrived = bytearray()  # and unread
        self.has_eof = False
        self.is_reset = False
        self.is_closed = False
        self.closed_ns: int | None = None  # when its process closed it, unless that was killed
        self.transport: Notified | None = None
        self.awaits_room = False  # set by the transport
        self.to_broker = Way(
            world, chance, shape, self._room_at_broker, self._arrive_at_broker, self._end_at_broker
        )
        self.to_peer = Way(
            world, chance, shape, self._room_at_peer, self._arrive_at_peer, self._end_at_peer
        )
        self._gone = gone  # called when the broker's socket is closed
        self._reset_is_told = False
        self._poll: Event | None = None

    # -- The broker's kernel ------------------------------------------------------------------

    @property
    def has_input(self) -> bool:
        """Whether a read would return something."""
        return bool(self.arrived) or self.has_eof

    def read_into(self, buffer: memoryview) -> int | None:
        """Read; 0 is the end, None means that nothing is there yet. Raises ConnectionResetError."""
        arrived = self.arrived
        if arrived:
            count = min(len(arrived), len(buffer))
            buffer[:count] = arrived[:count]
            del arrived[:count]
            self.to_broker.go()
            return count
        self._tell_reset()
        return 0 if self.has_eof else None

    def write(self, data: memoryview) -> int:
        """Take as many bytes as the window has room for. Raises OSError."""
        self._tell_reset()
        if self.is_reset or self.to_peer.end is not None:
            raise OSError(errno.EPIPE, "Broken pipe")
        room = self.shape.window_bytes - len(self.to_peer.data)
        if room <= 0:
            return 0
        piece = data[:room]
        self.to_peer.send(piece)
        return len(piece)

    def _tell_reset(self) -> None:
        if self.is_reset and not self._reset_is_told:
            self._reset_is_told = True
            raise OSError(errno.ECONNRESET, "Connection reset by peer")

    def shut(self) -> None:
        """Send nothing more."""
        self.to_peer.finish(End.CLOSED)

    def poll_soon(self) -> None:
        """Tell the transport what is possible, once the world runs."""
        if self._poll is None:
            self._poll = self.world.after(0, self._polled)

    def _polled(self) -> None:
        self._poll = None
        if self.transport is not None and self.has_input:
            self.transport.readable()
        if self.transport is not None and self.awaits_room and self._has_room:
            self.transport.writable()

    @property
    def _has_room(self) -> bool:
        return self.is_reset or len(self.to_peer.data) < self.shape.window_bytes

    def close(self, *, killed: bool = False) -> None:
        """Close the broker's socket. The process may be killed: then nothing is called."""
        if self.is_closed:
            return
        self.is_closed = True
        self.transport = None
        self.awaits_room = False
        if not killed:
            self.closed_ns = self.world.now_ns
        if killed or self.arrived:
            self.to_peer.finish(End.RESET)
        else:
            self.to_peer.finish(End.CLOSED)
        self.arrived.clear()
        self.to_broker.go()
        self._gone()

    def _room_at_broker(self) -> int:
        window = self.shape.window_bytes
        return window if self.is_closed else window - len(self.arrived)

    def _arrive_at_broker(self, piece: bytes) -> None:
        if self.is_closed:
            self.to_broker.lose()
            self.to_peer.finish(End.RESET)
            return
        self.arrived += piece
        if self.transport is not None:
            self.transport.readable()

    def _end_at_broker(self, end: End) -> None:
        if self.is_closed:
            return
        self.has_eof = True
        if end is End.RESET:
            self.is_reset = True
            self.to_peer.lose()
        if self.transport is not None:
            self.transport.readable()
        if self.is_reset and self.awaits_room and self.transport is not None:
            self.transport.writable()

    # -- The client's kernel ------------------------------------------------------------------

    def _room_at_peer(self) -> int:
        return self.shape.window_bytes if self.peer.reads or not self.peer.is_open else 0

    def _arrive_at_peer(self, piece: bytes) -> None:
        if not self.peer.is_open:
            self.to_peer.lose()
            self.to_broker.finish(End.RESET)
            return
        self.peer.on_data(piece)
        if self.awaits_room:
            self.poll_soon()

    def _end_at_peer(self, end: End) -> None:
        peer = self.peer
        if peer.is_open:
            peer.is_open = False
            reset = end is End.RESET
            if reset:
                self.to_broker.lose()
            else:
                self.to_broker.finish(End.CLOSED)
            peer.on_end(ConnectionResetError("reset by the broker") if reset else None)


class Peer:
    """The client's end of a connection. Its callbacks are attributes, called by the world.

    While it does not read, it does not hear of the broker's end; of a reset it does.
    """

    def __init__(self, link: Link) -> None:
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[Exception | None], None] = lambda error: None
        self.is_open = True  # neither closed here nor ended by the broker
        self.reads = True
        self._link = link

    @property
    def address(self) -> tuple[str, int]:
        """The client's own address."""
        return self._link.client

    @property
    def closed_ns(self) -> int | None:
        """When the broker closed the connection; None if it did not, or was killed."""
        return self._link.closed_ns

    def send(self, data: bytes) -> None:
        """Send; what is sent after the end is lost, as it is in a kernel."""
        if self.is_open and self._link.to_broker.end is None:
            self._link.to_broker.send(data)

    def close(self) -> None:
        """Close: the bytes sent so far arrive, unless answers wait unread. No `on_end` follows."""
        if not self.is_open:
            return
        self.is_open = False
        unread = bool(self._link.to_peer.data) and not self.reads
        self._link.to_broker.finish(End.RESET if unread else End.CLOSED)
        self._link.to_peer.go()  # what still comes resets the connection

    def reset(self) -> None:
        """Reset: bytes in both directions may be lost. No `on_end` follows."""
        if self.is_open:
            self.is_open = False
            self._link.to_peer.lose()
            self._link.to_broker.finish(End.RESET)

    def half_close(self) -> None:
        """Send nothing more, but go on reading."""
        if self.is_open:
            self._link.to_broker.finish(End.CLOSED)

    def stop_reading(self) -> None:
        """Let the window fill."""
        self.reads = False

    def read_on(self) -> None:
        """Read again."""
        self.reads = True
        self._link.to_peer.go()
