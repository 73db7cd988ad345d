"""One script of calls runs on uvloop's transport and on the simulator's; both must tell the same.

A script is a list of steps. Each step is a call of the transport or of its peer; afterwards
everything that can move does. What is compared after each step: the callbacks of the protocol in
their order, what the call raised, and what the transport says of itself. At the end: what the peer
received, and how it ended.

Only what is promised is compared. How many reads a message takes is not, so consecutive reads are
one; how much a kernel takes is not, so writes are either small or far beyond any window; resets and
aborts lose bytes, so their number is not compared after one.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import pytest
import uvloop
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from config.listeners import Listener
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network, NetworkShape
from tests.simulation.world import World

SMALL = 10
BIG = 3 * 1024 * 1024
KERNEL_BYTES = 32 * 1024
QUIET_ROUNDS = 4

Step = tuple[Any, ...]


class Recorder(asyncio.BufferedProtocol):
    """Notes each callback, and runs the step that its script has for the callback, once."""

    def __init__(self, hooks: dict[str, list[Step]], *, keeps_open: bool, buffer: int) -> None:
        self.log: list[Any] = []
        self.transport: Any = None
        self.received = bytearray()
        self._hooks = {name: list(steps) for name, steps in hooks.items()}
        self._keeps_open = keeps_open
        self._buffer = bytearray(buffer)

    def _note(self, what: Any, name: str) -> None:
        self.log.append(what)
        for step in self._hooks.pop(name, ()):
            self.run(step)

    def run(self, step: Step) -> None:
        if step[0] == "raise":
            raise ValueError(step)
        try:
            call(self.transport, step)
        except (RuntimeError, ValueError) as error:
            self.log.append(("raised", step[0], type(error).__name__))

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._note("made", "made")

    def get_buffer(self, sizehint: int) -> bytearray:
        if "get_buffer" in self._hooks:
            self._note("get_buffer", "get_buffer")
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]
        if self.log[-1] == "data" and "data" not in self._hooks:
            return
        self._note("data", "data")

    def eof_received(self) -> bool:
        self._note("eof", "eof")
        return self._keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        broken = isinstance(exc, ConnectionResetError | BrokenPipeError)
        self._note(("lost", "broken" if broken else type(exc).__name__), "lost")

    def pause_writing(self) -> None:
        self._note(("pause", self.transport.get_write_buffer_size() > 0), "pause")

    def resume_writing(self) -> None:
        self._note("resume", "resume")

    def heard(self, _loop: Any, context: dict[str, Any]) -> None:
        """The loop's exception handler."""
        kind = "callback" if context["message"].startswith("Exception in") else "transport"
        if "failed" in context["message"]:
            kind = context["message"]
        self.log.append(("handler", kind, type(context["exception"]).__name__))


def call(transport: Any, step: Step) -> None:
    """Make one call of the transport."""
    match step:
        case ("write", count):
            transport.write(bytes(count))
        case ("write view", count):
            transport.write(memoryview(bytearray(count)))
        case ("writelines", *counts):
            transport.writelines([memoryview(bytes(count)) for count in counts])
        case ("limits", high, low):
            transport.set_write_buffer_limits(high, low)
        case (name,):
            getattr(transport, name)()


def told(recorder: Recorder) -> tuple[Any, ...]:
    """Return the callbacks since the last call, and the transport's words about itself."""
    log, recorder.log = list(recorder.log), ["-"]
    transport = recorder.transport
    size = transport.get_write_buffer_size()
    low, high = transport.get_write_buffer_limits()
    return (log, transport.is_reading(), transport.is_closing(), size > 0, size > high, (low, high))


class Real:
    """uvloop over TCP of this machine, with small buffers of the kernel."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.loop = uvloop.new_event_loop()
        self.loop.set_exception_handler(recorder.heard)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            self.peer = socket.socket()
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
            self.peer.connect(listener.getsockname())
            self.sock, _ = listener.accept()
        self.sock.setblocking(False)
        self.peer.setblocking(False)
        self.half_closed = False
        self.reads = True
        self.reads_max = 1 << 40
        self.received = 0
        self.end: str | None = None

    def begin(self) -> None:
        self.loop.run_until_complete(
            self.loop.connect_accepted_socket(lambda: self.recorder, self.sock)
        )

    def act(self, step: Step) -> None:
        match step:
            case ("peer.send", count):
                if self.end is None and not self.half_closed:
                    with suppress(OSError):  # the end is there, but was not read
                        self.peer.send(bytes(count))
            case ("peer.half_close",):
                if self.end is None:
                    self.half_closed = True
                    with suppress(OSError):
                        self.peer.shutdown(socket.SHUT_WR)
            case ("peer.close",):
                self._close("closed")
            case ("peer.reset",):
                if self.end is None:
                    linger = struct.pack("ii", 1, 0)
                    self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self._close("closed")
            case ("peer.stop_reading",):
                self.reads = False
            case ("peer.read_on",):
                self.reads, self.reads_max = True, 1 << 40
            case ("peer.read", count):
                self.reads, self.reads_max = True, self.received + count
            case _:
                self.loop.run_until_complete(self._inside(step))
        self.settle()

    async def _inside(self, step: Step) -> None:
        self.recorder.run(step)

    def _close(self, end: str) -> None:
        if self.end is None:
            self.end = end
            self.peer.close()

    def settle(self) -> None:
        quiet = 0
        for _ in range(3000):
            before = (len(self.recorder.log), len(self.recorder.received), self.received, self.end)
            self._read()
            pending = self.reads and self.end is None and self.recorder.transport is not None
            pending = pending and self.recorder.transport.get_write_buffer_size() > 0
            pending = pending and self.received < self.reads_max
            seconds = 0.0005 if pending else 0
            for _ in range(2):
                self.loop.run_until_complete(asyncio.sleep(seconds))
            after = (len(self.recorder.log), len(self.recorder.received), self.received, self.end)
            quiet = quiet + 1 if before == after else 0
            if quiet >= (200 if pending else QUIET_ROUNDS):
                return

    def _read(self) -> None:
        if self.end is None and self.peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._close("reset")
        while self.reads and self.end is None and self.received < self.reads_max:
            try:
                data = self.peer.recv(min(65536, self.reads_max - self.received))
            except BlockingIOError:
                return
            except ConnectionResetError:
                self._close("reset")
                return
            if not data:
                self._close("end")
                return
            self.received += len(data)

    def close(self) -> None:
        self.peer.close()
        self.recorder.transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


class Simulated:
    """The simulator's transport over its network."""

    def __init__(self, recorder: Recorder, shape: NetworkShape, seed: str) -> None:
        self.recorder = recorder
        self.world = World(seed)
        self.loop = SimLoop(self.world, lambda: None)
        self.loop.set_exception_handler(recorder.heard)
        self.network = Network(self.world, self.world.chance("network"), shape)
        self.listener = self.network.listen(Listener("A", "PLAINTEXT", "127.0.0.1", 0), -1, -1, 5)
        self.peer = self.network.connect(self.listener.getsockname()[1])
        self.received = 0
        self.reads_max = 1 << 40
        self.end: str | None = None
        self.peer.on_data = self._on_data
        self.peer.on_end = self._on_end

    def begin(self) -> None:
        self.loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        sock, _ = await self.loop.sock_accept(self.listener)
        await self.loop.connect_accepted_socket(lambda: self.recorder, sock)

    def _on_data(self, data: bytes) -> None:
        self.received += len(data)
        if self.received >= self.reads_max:
            self.peer.stop_reading()

    def _on_end(self, error: Exception | None) -> None:
        self.end = "end" if error is None else "reset"

    def act(self, step: Step) -> None:
        match step:
            case ("peer.send", count):
                self.peer.send(bytes(count))
            case ("peer.read", count):
                self.reads_max = self.received + count
                self.peer.read_on()
            case (name,) if name.startswith("peer."):
                if name in {"peer.close", "peer.reset"} and self.end is None:
                    self.end = "closed"
                self.reads_max = 1 << 40
                getattr(self.peer, name.removeprefix("peer."))()
            case _:
                self.loop.run_until_complete(self._inside(step))
        self.settle()

    async def _inside(self, step: Step) -> None:
        self.recorder.run(step)

    def settle(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(1000))
        assert self.world.next_ns is None

    def close(self) -> None:
        self.network.down()
        assert self.network.open_sockets == 0
        self.loop.close()


WHOLE = NetworkShape(whole_chance=1, crumbs_chance=0, stall_chance=0, window_bytes=64 * 1024)
PIECES = NetworkShape(whole_chance=0.3, crumbs_chance=0.5, stall_chance=0.1, window_bytes=16_000)


def story(
    on: Callable[[Recorder], Real | Simulated],
    steps: list[Step],
    hooks: dict[str, list[Step]],
    *,
    keeps_open: bool,
    buffer: int,
) -> list[Any]:
    """Run a script, and return what is compared."""
    recorder = Recorder(hooks, keeps_open=keeps_open, buffer=buffer)
    side = on(recorder)
    try:
        side.begin()
        side.settle()
        lines: list[Any] = [told(recorder)]
        for step in steps:
            side.act(step)
            lines.append((step, told(recorder)))
        side.act(("peer.read_on",))
        lines.append(told(recorder))
        names = [step[0] for step in [*steps, *chain.from_iterable(hooks.values())]]
        counts = side.end == "end" and not {"abort", "raise"} & set(names)
        lines.append(("peer", side.end, side.received if counts else None))
        if "peer.reset" not in names:
            lines.append(("received", len(recorder.received)))
        return lines
    finally:
        side.close()


def compare(
    steps: list[Step],
    hooks: dict[str, list[Step]] | None = None,
    *,
    keeps_open: bool = False,
    buffer: int = 4096,
) -> list[Any]:
    """Run a script on both, and return what the simulator told."""
    hooks = hooks or {}
    real = story(Real, steps, hooks, keeps_open=keeps_open, buffer=buffer)
    for number, shape in enumerate((WHOLE, PIECES)):
        simulated = story(
            partial(Simulated, shape=shape, seed=f"{number}"),
            steps,
            hooks,
            keeps_open=keeps_open,
            buffer=buffer,
        )
        assert simulated == real
    return real


SCRIPTS: dict[str, tuple[list[Step], dict[str, list[Step]], bool]] = {
    "a message": ([("peer.send", SMALL), ("write", SMALL)], {}, False),
    "paused in connection_made": ([("peer.send", SMALL)], {"made": [("pause_reading",)]}, False),
    "paused and resumed twice": (
        [("pause_reading",), ("pause_reading",), ("peer.send", SMALL), ("resume_reading",),
         ("resume_reading",), ("peer.send", SMALL)],
        {},
        False,
    ),
    "closed in connection_made": ([("peer.send", SMALL)], {"made": [("close",)]}, False),
    "aborted in connection_made": ([("write", SMALL)], {"made": [("abort",)]}, False),
    "written in connection_made": ([], {"made": [("write", BIG), ("write", SMALL)]}, False),
    "the peer ends": ([("peer.send", SMALL), ("peer.close",)], {}, False),
    "the peer ends, kept open": ([("peer.half_close",), ("write", SMALL), ("close",)], {}, True),
    "the end again": ([("peer.half_close",), ("resume_reading",), ("abort",)], {}, True),
    "the end while paused": ([("pause_reading",), ("peer.send", SMALL), ("peer.close",),
                              ("resume_reading",)], {}, False),
    "the peer resets": ([("peer.reset",)], {}, False),
    "the peer resets while paused": ([("pause_reading",), ("peer.reset",), ("write", SMALL),
                                      ("write", SMALL)], {}, False),
    "the peer resets while a write waits": (
        [("peer.stop_reading",), ("pause_reading",), ("write", BIG), ("peer.reset",)], {}, False),
    "closed with unread bytes": ([("pause_reading",), ("peer.send", SMALL), ("close",)], {}, False),
    "a client that does not read": (
        [("peer.stop_reading",), ("write", SMALL), ("write", BIG), ("write", SMALL),
         ("write view", SMALL), ("peer.read_on",)],
        {},
        False,
    ),
    "one request is sent whole before writing resumes": (
        [("limits", BIG // 2, BIG // 2), ("peer.stop_reading",), ("write", BIG),
         ("peer.read", BIG * 3 // 4), ("peer.read_on",)],
        {},
        False,
    ),
    "the first of two requests is enough": (
        [("limits", BIG // 2, BIG // 2), ("peer.stop_reading",), ("write", BIG),
         ("write", BIG // 3),
         ("peer.read", BIG + BIG // 6), ("peer.read_on",)],
        {},
        False,
    ),
    "writelines": ([("peer.stop_reading",), ("writelines", SMALL, BIG, SMALL),
                    ("writelines", SMALL, 0), ("writelines",), ("peer.read_on",)], {}, False),
    "limits below what waits": ([("limits", 16 * BIG, None), ("peer.stop_reading",),
                                 ("write", BIG), ("limits", SMALL, None), ("limits", 5, 9),
                                 ("peer.read_on",)], {}, False),
    "limits of nothing": ([("limits", 0, 0), ("write", SMALL), ("peer.stop_reading",),
                           ("write", BIG), ("peer.read_on",)], {}, False),
    "close sends what waits": ([("peer.stop_reading",), ("write", BIG), ("close",),
                                ("write", SMALL), ("peer.read_on",), ("write", SMALL)], {}, False),
    "abort after close": ([("peer.stop_reading",), ("write", BIG), ("close",), ("abort",),
                           ("close",), ("write", SMALL)], {}, False),
    "write_eof": ([("write", SMALL), ("write_eof",), ("write_eof",), ("write", SMALL),
                   ("writelines", SMALL)], {}, False),
    "write_eof after what waits": ([("peer.stop_reading",), ("write", BIG), ("write_eof",),
                                    ("peer.read_on",)], {}, False),
    "connection_made raises": ([("peer.send", SMALL), ("resume_reading",)],
                               {"made": [("raise",)]}, False),
    "get_buffer raises": ([("peer.send", SMALL)], {"get_buffer": [("raise",)]}, False),
    "buffer_updated raises": ([("peer.send", 1)], {"data": [("raise",)]}, False),
    "eof_received raises": ([("peer.half_close",)], {"eof": [("raise",)]}, True),
    "pause_writing raises": ([("peer.stop_reading",), ("write", BIG), ("peer.read_on",)],
                             {"pause": [("raise",)]}, False),
    "resume_writing raises": ([("peer.stop_reading",), ("write", BIG), ("peer.read_on",)],
                              {"resume": [("raise",)]}, False),
    "connection_lost raises": ([("close",), ("write", SMALL)], {"lost": [("raise",)]}, False),
    "abort within pause_writing": ([("peer.stop_reading",), ("write", BIG), ("write", SMALL)],
                                   {"pause": [("abort",)]}, False),
    "more within resume_writing": ([("peer.stop_reading",), ("write", BIG), ("peer.read_on",)],
                                   {"resume": [("write", BIG), ("close",)]}, False),
    "paused while reading": ([("peer.send", 9000), ("resume_reading",)],
                             {"data": [("pause_reading",)]}, False),
    "a reset answers a peer that has closed": (
        [("peer.close",), ("write", SMALL), ("write", SMALL)], {}, True),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_both_transports_tell_the_same(name: str) -> None:
    steps, hooks, keeps_open = SCRIPTS[name]
    compare(steps, hooks, keeps_open=keeps_open)


@pytest.mark.parametrize("name", ["a message", "paused while reading", "the end while paused"])
def test_both_transports_tell_the_same_with_a_tiny_buffer(name: str) -> None:
    steps, hooks, keeps_open = SCRIPTS[name]
    compare(steps, hooks, keeps_open=keeps_open, buffer=1)


WRITES = [("write", SMALL), ("write", BIG), ("write view", SMALL), ("writelines", SMALL, BIG)]
CALLS = st.sampled_from(
    [
        *WRITES,
        ("pause_reading",),
        ("resume_reading",),
        ("close",),
        ("abort",),
        ("limits", SMALL, None),
        ("limits", 0, 0),
        ("limits", 2 * BIG, BIG),
    ]
)
# One byte at a time: a larger message may be read in pieces, between which a hook acts.
PEER_CALLS = st.sampled_from(
    [
        ("peer.send", 1),
        ("peer.half_close",),
        ("peer.close",),
        ("peer.reset",),
        ("peer.stop_reading",),
        ("peer.read_on",),
    ]
)
# Not `get_buffer`: uvloop's process crashes if that stops reading.
CALLBACKS = ("made", "data", "eof", "pause", "resume", "lost")


@given(
    steps=st.lists(CALLS | PEER_CALLS, min_size=1, max_size=9),
    hooks=st.dictionaries(
        st.sampled_from(CALLBACKS), st.lists(CALLS | st.just(("raise",)), max_size=2), max_size=3
    ),
    keeps_open=st.booleans(),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_both_transports_tell_the_same_of_any_script(
    steps: list[Step], hooks: dict[str, list[Step]], keeps_open: bool
) -> None:
    # What a reader that is paused sees of an end and a reset behind it is the kernel's choice.
    calls = [step[0] for step in steps]
    if "peer.half_close" in calls:
        assume("peer.reset" not in calls[calls.index("peer.half_close") :])
    compare(steps, hooks, keeps_open=keeps_open)
