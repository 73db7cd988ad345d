"""A transport over a connection of the simulated network, which behaves as uvloop's does.

What differs from asyncio's own transports, and what the broker depends on:

- reading starts after `connection_made`, even if that paused it;
- a read goes on while buffers are filled to their end, and `get_buffer` is called once more
  although nothing is left then; the end is a read of its own;
- what cannot be sent at once stays in the caller's buffers: nothing is copied before the kernel
  has room, so whoever reuses a buffer too early sends something else;
- writing goes by requests: what one turn wrote while the protocol was paused is one request, and
  `resume_writing` is only considered when a whole request has been sent;
- `write` after `close` still sends while earlier bytes wait, and `pause_writing` comes from within
  `write`;
- an OSError ends the connection without a word to the exception handler.

Events of the world call `readable` and `writable`, as uvloop's poll does.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from tests.simulation.link import Link

DEFAULT_HIGH_BYTES: Final = 64 * 1024
SIZE_HINT: Final = 64 * 1024
READS_MAX: Final = 32  # of one connection before the others get their turn


class _Request:
    """Bytes that were handed to the kernel together."""

    __slots__ = ("buffers", "unsent_bytes")

    def __init__(self, buffers: list[memoryview], unsent_bytes: int) -> None:
        self.buffers = deque(buffers)
        self.unsent_bytes = unsent_bytes


class SimTransport(asyncio.Transport):
    """See the module. `connected` is done when reading has begun."""

    def __init__(
        self, loop: Any, link: Link, protocol: asyncio.BufferedProtocol, sock: Any = None
    ) -> None:
        super().__init__()
        self._socket = sock
        self.connected: asyncio.Future[bool] = loop.create_future()
        self._loop = loop
        self._link = link
        self._protocol: Any = protocol
        self._context = contextvars.copy_context()
        self._is_connected = False  # connection_made was called
        self._is_reading = False
        self._closing = False
        self._closed = False
        self._is_lost = False  # connection_lost is scheduled
        self._eof = False
        self._paused = False  # the protocol
        self._high_water = DEFAULT_HIGH_BYTES
        self._low_water = 16  # bytes: uvloop divides the number of KiB
        self._new: list[memoryview] = []  # written, and not yet a request
        self._new_bytes = 0
        self._requests: deque[_Request] = deque()
        self._queued_bytes = 0  # of requests
        self._gathers = False
        link.transport = self
        loop.call_soon(self._connection_made, context=self._context)

    # -- Begin and end ------------------------------------------------------------------------

    def _connection_made(self) -> None:
        if self._closed:
            self._wake()
            return
        self._is_connected = True
        try:
            self._protocol.connection_made(self)
            if not self._closed:
                self._start_reading()
        finally:
            self._wake()

    def _wake(self) -> None:
        waiter = self.connected
        if not waiter.done():
            if self._closed:
                waiter.set_exception(RuntimeError("closed transport and unset waiter"))
            else:
                waiter.set_result(True)

    def _lose_soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self._connection_lost, error, context=self._context)

    def _connection_lost(self, error: Exception | None) -> None:
        if self._closed:
            return
        try:
            if self._is_connected:
                self._protocol.connection_lost(error)
        finally:
            self._protocol = None
            self.close_now()

    def close_now(self, *, killed: bool = False) -> None:
        """Close the socket and call nobody: adopting was cancelled, or the process was killed."""
        if not self._closed:
            self._closed = True
            self._is_reading = False
            self._new, self._new_bytes = [], 0
            self._requests.clear()
            self._queued_bytes = 0
            self._link.close(killed=killed)

    def _force_close(self, error: Exception | None) -> None:
        if self._is_lost or self._closed:
            return
        self._closing = True
        self._is_reading = False
        self._is_lost = True
        self._lose_soon(error)

    def _fail(self, error: Exception) -> None:
        self._force_close(error)
        if not isinstance(error, OSError):
            self._report("Fatal error on transport SimTransport", error)

    def _report(self, message: str, error: Exception) -> None:
        self._loop.call_exception_handler(
            {
                "message": message,
                "exception": error,
                "transport": self,
                "protocol": self._protocol,
            }
        )

    def abort(self) -> None:
        """Close soon; what is not sent is dropped."""
        self._force_close(None)

    def close(self) -> None:
        """Close once everything is sent."""
        if self._closing or self._closed:
            return
        self._closing = True
        self._is_reading = False
        if not self.get_write_buffer_size():
            self._is_lost = True
            self._lose_soon(None)

    def is_closing(self) -> bool:
        """Whether it closes, or is closed."""
        return self._closing

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("unable to perform operation on a transport that is closed")

    # -- Reading ------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """Whether it reads."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Stop reading; nothing happens if it does not read."""
        if not self._closing:
            self._is_reading = False

    def resume_reading(self) -> None:
        """Read again."""
        self._start_reading()

    def _start_reading(self) -> None:
        if self._is_reading or self._closing:
            return
        self._must_be_open()
        self._is_reading = True
        if self._link.has_input:
            self._link.poll_soon()

    def readable(self) -> None:
        """Read what is there; an event of the world calls this."""
        for _ in range(READS_MAX):
            if not self._is_reading:
                return
            try:
                buffer = memoryview(self._call(self._protocol.get_buffer, SIZE_HINT))
                if not buffer.nbytes or buffer.readonly:
                    raise BufferError
            except Exception:
                self._fail(RuntimeError("unhandled error (or an empty buffer) in get_buffer()"))
                return
            if not self.is_reading():  # uvloop's process ends here
                self._report("get_buffer() stopped reading", RuntimeError("read_cb is NULL"))
                return
            try:
                if self._read(buffer):
                    break
            except Exception as error:
                self._fail(error)
                return
        if self._is_reading and self._link.has_input:
            self._link.poll_soon()

    def _read(self, buffer: memoryview) -> bool:
        """Read once; return whether it was the last for now."""
        count = self._link.read_into(buffer.cast("B"))
        if count is None:
            return True
        if count:
            self._call(self._protocol.buffer_updated, count)
            return count < buffer.nbytes
        self._is_reading = False
        if not self._call(self._protocol.eof_received):
            self.close()
        else:
            self._is_reading = False
        return True

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        return self._context.run(method, *args)

    # -- Writing ------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send, or keep until there is room."""
        self._must_be_open()
        if self._eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not data or self._is_lost:
            return
        self._keep(data)
        self._begin_to_write()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send several buffers in one system call."""
        self._must_be_open()
        if self._eof:
            raise RuntimeError("Cannot call writelines() after write_eof()")
        if self._is_lost:
            return
        for data in list_of_data:
            self._keep(data)
        self._begin_to_write()

    def _keep(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if view.nbytes:
            self._new.append(view)
            self._new_bytes += view.nbytes

    def _begin_to_write(self) -> None:
        if not self._paused and not self._queued_bytes:
            if not self._write_new():
                self._pause_if_full()
        elif self._new_bytes:
            self._pause_if_full()
            if not self._gathers:
                self._gathers = True
                self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._gathers = False
        self._write_new()

    def _write_new(self) -> bool:
        """Send what is not a request yet, or make it one; return whether all is sent."""
        if self._closed:
            return False
        if not self._new:
            return True
        request = _Request(self._new, self._new_bytes)
        is_first = not self._queued_bytes
        self._new, self._new_bytes = [], 0
        if is_first:
            try:
                self._send(request)
            except OSError as error:
                self._fail(error)
                return False
            if not request.unsent_bytes:
                self._sent()
                return True
        self._requests.append(request)
        self._queued_bytes += request.unsent_bytes
        if is_first:
            self._link.awaits_room = True
        self._resume_if_empty()
        return False

    def _send(self, request: _Request) -> None:
        buffers = request.buffers
        while buffers:
            count = self._link.write(buffers[0])
            request.unsent_bytes -= count
            if count < buffers[0].nbytes:
                buffers[0] = buffers[0][count:]
                return
            buffers.popleft()

    def writable(self) -> None:
        """Send what waits; an event of the world calls this when there is room, or an error."""
        if self._closed:
            return
        self._write_new()  # the turn that wrote it is over
        ended = 0
        failure: OSError | None = None
        while self._requests and failure is None:
            request = self._requests[0]
            before_bytes = request.unsent_bytes
            try:
                self._send(request)
            except OSError as error:
                failure = error
            self._queued_bytes -= before_bytes - request.unsent_bytes
            if failure is None and request.unsent_bytes:
                break
            self._requests.popleft()
            ended += failure is None
        self._link.awaits_room = bool(self._requests) and failure is None
        for _ in range(ended):
            try:
                self._sent()
            except Exception as error:
                self._fail(error)
        if failure is not None:
            self._queued_bytes -= request.unsent_bytes
            self._fail(failure)

    def _sent(self) -> None:
        """Continue after a whole request was sent."""
        self._resume_if_empty()
        if not self.get_write_buffer_size():
            if self._closing:
                self._lose_soon(None)
            elif self._eof:
                self._link.shut()

    def write_eof(self) -> None:
        """Send the end after what is written."""
        self._must_be_open()
        if not self._eof:
            self._eof = True
            if not self.get_write_buffer_size():
                self._link.shut()

    def can_write_eof(self) -> bool:
        """TCP can."""
        return True

    # -- Limits -------------------------------------------------------------------------------

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the kernel has not taken."""
        return self._queued_bytes + self._new_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high limit."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits; the protocol may be paused at once."""
        self._must_be_open()
        if high is None:
            high = DEFAULT_HIGH_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water, self._low_water = high, low
        self._pause_if_full()

    def _pause_if_full(self) -> None:
        if not self._paused and self.get_write_buffer_size() > self._high_water:
            self._paused = True
            self._tell(self._protocol.pause_writing)

    def _resume_if_empty(self) -> None:
        if self._paused and self.get_write_buffer_size() <= self._low_water:
            self._paused = False
            self._tell(self._protocol.resume_writing)

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            self._context.copy().run(call)
        except Exception as error:
            self._report(f"protocol.{call.__name__}() failed", error)

    # -- The rest of the interface ------------------------------------------------------------

    def get_protocol(self) -> Any:
        """Return the protocol; None after the end."""
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return an address, or the socket."""
        link = self._link
        known = {"sockname": link.server, "peername": link.client, "socket": self._socket}
        return known.get(name, default)
