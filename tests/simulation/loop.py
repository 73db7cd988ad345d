"""An event loop on the world's time, for one life of the broker.

It is asyncio's own loop without a selector. Callbacks run first in, first out, as asyncio
promises. When no callback is ready, the world runs: bytes arrive, file calls end, clients act. The
seed decides how much of that falls into one turn, and how late a turn begins.

Timers are uvloop's: in whole milliseconds, so that some ring up to half a millisecond early, and
a delay that rounds to nothing is a callback of the next turn. Timers due at the same time ring in
an order of the seed.

Before the loop waits, `at_rest` is called: no callback is ready, and none is about to be.

Signals arrive by `receive`. `Killed` ends a life from within: asyncio lets a KeyboardInterrupt
through wherever it is raised.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Final
from weakref import WeakValueDictionary

from tests.simulation.pool import Killed
from tests.simulation.tls_transport import SimTls
from tests.simulation.world import MS, NEVER_NS, SECOND, US, Stuck, World

JOINED_EVENTS_MAX: Final = 6
LATE_NS_MAX: Final = 2 * MS
TURN_NS_MAX: Final = 20 * US
BUSY_TURNS_MAX: Final = 100_000  # without a rest


class SimLoop(asyncio.BaseEventLoop):
    """See the module. `at_turn` is called before each turn's callbacks."""

    def __init__(
        self,
        world: World,
        at_turn: Callable[[], None],
        at_rest: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.world = world
        self.at_turn = at_turn
        self.at_rest = at_rest
        self._busy_turns = 0
        self._select: Callable[[float | None], object] = self.turn
        self._clock_resolution = 1e-9
        self._random = world.chance("loop").random
        self._signals: dict[int, Callable[[], object]] = {}
        self._readers: dict[int, Callable[[], object]] = {}
        self._accepted: WeakValueDictionary[int, Any] = WeakValueDictionary()  # sockets

    # -- Time ---------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of the world."""
        return self.world.now_ns / SECOND

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Call at a time in whole milliseconds from now."""
        ms = round(max(0.0, when - self.time()) * 1000)
        if ms == 0:
            return self.call_soon(callback, *args, context=context)
        due = (self.world.now_ns + ms * MS + int(self._random() * 1000)) / SECOND
        return super().call_at(due, callback, *args, context=context)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        """Call in the next turn."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # one thread runs at a time, and nobody sleeps in a selector

    # -- Turns --------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Do one turn, as asyncio's own does: half the work, since nobody debugs it."""
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        timeout: float | None = None
        if ready or self._stopping:
            timeout = 0
        elif scheduled:
            timeout = max(0.0, scheduled[0]._when - self.time())
        self._select(timeout)
        if scheduled:
            end = self.time() + self._clock_resolution
            while scheduled and scheduled[0]._when < end:
                handle = heapq.heappop(scheduled)
                handle._scheduled = False
                ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It leaves the heap when it comes to its top."""

    def turn(self, timeout: float | None) -> None:
        """Run the world until something is ready here, or a timer is due."""
        world = self.world
        if timeout == 0:
            self._busy_turns += 1
            if self._busy_turns > BUSY_TURNS_MAX:
                raise Stuck("the broker's loop never rests")
            world.now_ns += int(self._random() * TURN_NS_MAX)
            self._join_due_events()
        else:
            self._busy_turns = 0
            self.at_rest()
            due_ns = NEVER_NS if timeout is None else world.now_ns + math.ceil(timeout * SECOND)
            while not self._ready:
                if not world.step_by(due_ns):
                    if due_ns == NEVER_NS:
                        raise Stuck("the broker's loop waits, and nothing will happen any more")
                    world.now_ns = max(world.now_ns, due_ns) + 2
                    break
            if self._random() < 0.2:
                world.now_ns += int(self._random() * LATE_NS_MAX)
            self._join_due_events()
        self.at_turn()

    def rests_until(self, ns: int) -> bool:
        """Whether nothing would happen before a time, neither here nor in the world."""
        if self._ready or self._stopping:
            return False
        next_ns = self.world.next_ns
        if next_ns is not None and next_ns <= ns:
            return False
        return not self._scheduled or self._scheduled[0]._when * SECOND > ns + US

    def _join_due_events(self) -> None:
        """Let some of the events that are due arrive in this turn."""
        world = self.world
        for _ in range(int(self._random() * JOINED_EVENTS_MAX)):
            if not world.step_by(world.now_ns):
                return

    # -- Sockets and signals ------------------------------------------------------------------

    async def sock_accept(self, sock: Any) -> Any:
        """Accept a connection of the simulated network."""
        accepted, address = await sock.accept(self)
        self._accepted[accepted.fileno()] = accepted
        return accepted, address

    async def connect_accepted_socket(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        sock: Any,
        *,
        ssl: SSLContext | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        **_: Any,
    ) -> Any:
        """Make a transport of a socket of the simulated network; with `ssl`, when it is shaken."""
        if ssl is None:
            return await sock.connect(self, protocol_factory())
        waiter, protocol = self.create_future(), protocol_factory()
        outer = SimTls(
            self,
            protocol,
            ssl,
            waiter,
            server_side=True,
            ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )
        transport, _ = await sock.connect(self, outer)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return outer._app_transport, protocol

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        """Call each time `readable` is told that a descriptor is."""
        self._readers[fd] = lambda: callback(*args)
        sock = self._accepted.get(fd)
        if sock is not None:
            sock.tell(lambda: self.readable(fd))

    def remove_reader(self, fd: Any) -> bool:
        """Forget the callback."""
        sock = self._accepted.get(fd)
        if sock is not None:
            sock.tell(None)
        return self._readers.pop(fd, None) is not None

    def readable(self, fd: int) -> None:
        """Call what waits for a descriptor, in the next turn."""
        self.call_soon(lambda: self._readers.get(fd, bool)())

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        """Call when the signal is received."""
        self._signals[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Forget the handler."""
        return self._signals.pop(sig, None) is not None

    def receive(self, signal_number: int) -> None:
        """Deliver a signal to the process; without a handler it kills."""
        handler = self._signals.get(signal_number)
        if handler is None:
            raise Killed
        self.call_soon(handler)

    # -- The end ------------------------------------------------------------------------------

    def bury(self) -> None:
        """End what still runs after a kill: nothing it does reaches the world any more."""
        self.set_exception_handler(lambda _loop, _context: None)
        self._select = lambda _timeout: None
        self._scheduled.clear()
        for _ in range(9):  # tasks that await ending tasks end a turn later
            tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
            for task in tasks:
                task.cancel()
            self.stop()
            try:
                self.run_forever()
            except KeyboardInterrupt:
                continue
            if not tasks:
                break
        self._ready.clear()
        known = getattr(asyncio.tasks, "_all_tasks", ())  # up to Python 3.11, a set of all loops'
        for task in [*known]:
            if task.get_loop() is self:  # else every later life would look at it again
                asyncio.tasks._unregister_task(task)
        self.close()
