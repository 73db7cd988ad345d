"""A connection over TLS: what differs from a plain one, which pays nothing for it.

- It begins after the handshake, and then knows its client's principal.
- Answers leave in pieces of at most `PIECE_BYTES`, one a turn of the loop, and wait while the
  client does not read: TLS encrypts a write at once and whole, and would hold all of it. Answers
  that wait here count as unsent.
- A client that closes its end also ends ours: TLS has no half-closed connections. Whole frames
  that it sent before are still started, since a producer with acks=0 waits for no answer; also
  those that were not delivered yet, because reading was paused.

Nothing that is sent is mapped: the page of a truncated file would end the process when TLS reads
it. The dialects of such listeners copy records (`protocol.kafka.copying`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

from broker.network.connection import (
    JOINED_BYTES_MAX,
    WRITE_HIGH_WATER_BYTES,
    Connection,
    Submitter,
)
from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.runtime.request import Buffer, ConnectionInfo
from broker.security.principal_mapping import NoMatchingRule
from broker.security.tls.server_tls import ServerTls
from protocol.errors import FrameTooLarge

# 15 records of TLS: encrypted, they are one block that the C library keeps (TLS_BLOCK_BYTES).
PIECE_BYTES: Final = 240 * 1024


class EncryptedSubmitter(Submitter, Protocol):
    """A processor as connections over TLS see it: they join it after their handshake."""

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame of a connection."""

    def join(self, connection: Connection) -> None:
        """Own `connection`, which begins."""
        ...


class TlsConnection(Connection):
    """The TLS connection of one client."""

    __slots__ = (
        "_closes",
        "_encrypted_for",
        "_is_ending",
        "_is_full",
        "_is_lost",
        "_is_scheduled",
        "_tls",
        "_waiting",
    )

    def __init__(self, processor: EncryptedSubmitter, info: ConnectionInfo, tls: ServerTls) -> None:
        super().__init__(processor, info, processor.frame_bytes_max)
        self._encrypted_for = processor
        self._tls = tls
        self._waiting: deque[Buffer] = deque()  # pieces that the transport does not have yet
        self._is_ending = False  # the client has; nothing more is sent to it
        self._is_full = False  # the transport's buffer
        self._is_scheduled = False
        self._closes = False  # after what waits
        self._is_lost = False  # but its last frames are still started

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with the transport after its handshake; refuse a client without a principal."""
        self._encrypted_for.join(self)
        super().connection_made(transport)
        if self.gate is not None:  # who the client is, its login says
            return
        peer = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        try:
            self.info.principal = self._tls.principal_of(peer)
        except NoMatchingRule as error:
            self.refuse(error)

    def eof_received(self) -> bool:
        """Note that the client has sent its last byte; the transport ends by itself.

        It drops what is written from now on, and counts that as our mistake.
        """
        super().eof_received()
        self._is_ending = True
        self._waiting.clear()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything, but first start the frames of a client that has closed orderly."""
        self._waiting.clear()
        reading = self.reading
        is_closing = self._is_lost or reading.holds & Hold.CLOSING
        if exc is None and not is_closing:
            self._take_the_rest()
        if self._peer_has_ended and self.frames and not is_closing:
            self._is_lost = True
            self._is_full = False
            ended = _Ended(lambda: super(TlsConnection, self).connection_lost(exc))
            reading.transport = cast("asyncio.Transport", ended)
            self.account.all_sent()
            self.release(Hold.UNSENT)
            self._processor.ready(self)
        else:
            super().connection_lost(exc)

    def _take_the_rest(self) -> None:
        """Take what the loop has received and not delivered, since we did not read.

        It closes at the client's end even so. Over TCP those bytes wait in the kernel.
        """
        transport, reader = self.reading.transport, self.reader
        is_closed = self.gate is not None and self.gate.is_closed
        if transport is None or is_closed or self.reading.holds & Hold.REFUSED:
            return
        tls = transport.get_extra_info("ssl_object")
        shared = self._processor.receive_buffer
        with suppress(ssl.SSLError, FrameTooLarge):  # there is no more, or nothing that is sound
            while True:
                has_room = reader.has_room
                room = reader.room if has_room else shared
                count = tls.read(len(room), room)
                if not count:
                    break
                self.account.received(count)
                self.frames.extend(
                    reader.received(count) if has_room else reader.receive(room[:count])
                )
        self._peer_has_ended = bool(self.frames)

    def pause_writing(self) -> None:
        """Wait: the client does not read its answers."""
        self._is_full = True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Send what waits; after the last of it, continue to read."""
        self._is_full = False
        if self._waiting:
            self._send_next()
        else:
            super().resume_writing()

    def flush(self) -> None:
        """Send the answers gathered since the last flush, or let them wait behind others."""
        out, self._out = self._out, []
        transport = self.reading.transport
        if transport is None or not out or self._is_ending:
            return
        size = sum(map(len, out))
        if size <= PIECE_BYTES and not self._waiting and not self._is_full:
            _write(transport, out, size)
            if self.reading.holds & Hold.UNSENT:  # since this write
                self.account.unsent(size)
            return
        self.account.unsent(size)
        self._waiting.extend(_pieces(out))
        if sum(map(len, self._waiting)) > WRITE_HIGH_WATER_BYTES:
            self.reading.hold(Hold.UNSENT)
        if not self._is_full and not self._is_scheduled:
            self._send_next()

    def _send_next(self) -> None:
        """Hand one piece to the transport, and the next in another turn of the loop."""
        self._is_scheduled = False
        transport = self.reading.transport
        if transport is None or self._is_full or not self._waiting:
            return
        waiting, piece, size = self._waiting, [], 0
        while waiting and size + len(waiting[0]) <= PIECE_BYTES + JOINED_BYTES_MAX:
            size += len(waiting[0])
            piece.append(waiting.popleft())
        _write(transport, piece, size)
        if waiting:
            if not self._is_full:
                self._is_scheduled = True
                owners.soon(Owner.ANSWERS, self._send_next)
        elif self._closes:
            transport.close()
        elif not self._is_full:
            super().resume_writing()

    def close(self) -> None:
        """Close after the given answers are sent."""
        self.reading.holds |= Hold.CLOSING
        self.flush()
        if self._waiting:
            self._closes = True
        elif self.reading.transport is not None:
            self.reading.transport.close()


def _write(transport: asyncio.Transport, buffers: list[Buffer], size: int) -> None:
    """Encrypt and send buffers in one write, small ones in as few records as they fit in."""
    if len(buffers) == 1:
        transport.write(buffers[0])
    elif size <= JOINED_BYTES_MAX:
        transport.write(b"".join(buffers))
    else:
        transport.writelines(buffers)


def _pieces(buffers: list[Buffer]) -> list[Buffer]:
    """Cut buffers into pieces of at most PIECE_BYTES, small neighbours joined."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    small_bytes = 0
    for buffer in buffers:
        if len(buffer) <= JOINED_BYTES_MAX and small_bytes + len(buffer) <= PIECE_BYTES:
            small.append(buffer)
            small_bytes += len(buffer)
            continue
        if small:
            pieces.append(b"".join(small))
            small, small_bytes = [], 0
        view = memoryview(buffer)
        pieces += [view[at : at + PIECE_BYTES] for at in range(0, len(view), PIECE_BYTES)]
    if small:
        pieces.append(b"".join(small))
    return pieces


class _Ended:
    """Stands for a transport that has ended, while the last frames of its client are started."""

    __slots__ = ("_finish",)

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish

    def is_reading(self) -> bool:
        """Nothing is read any more."""
        return False

    def pause_reading(self) -> None:
        """Nothing is read any more."""

    def resume_reading(self) -> None:
        """Nothing is read any more."""

    def get_extra_info(self, name: str) -> None:
        """Return that there is no socket any more."""

    def write(self, data: Buffer) -> None:
        """Drop an answer: nobody receives it."""

    def writelines(self, buffers: list[Buffer]) -> None:
        """Drop an answer: nobody receives it."""

    def close(self) -> None:
        """End the connection."""
        self._finish()

    def abort(self) -> None:
        """End the connection."""
        self._finish()
