"""The world around the broker: its time, its events, and the clients that live in it.

Time is a number of nanoseconds. It moves when the next event is due, and a little whenever the
broker reads a clock. Nothing here waits, and nothing here reads the machine's clock.

    events    calls at a time, in a heap; the seed orders those of the same time
    actors    coroutines of clients and faults; they await `Waiter`s only, never asyncio
    chance    one stream of random numbers for each name, so that a client that is taken out of a
              history leaves the draws of the others as they were
    trace     what happened, one line per note: its digest tells whether two runs are the same

The world outlives the broker: actors go on while it is down. A broker's event loop
(`tests.simulation.loop`) runs the world whenever it has nothing else to do; between two lives of
the broker, `run_until` does.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
NEVER_NS: Final = 1 << 62


class TimedOut(Exception):
    """A waiter was not set in time."""


class Defect(Exception):
    """An actor has failed: the simulator is wrong, not the broker."""


class Stuck(Exception):
    """The world has no event left, but somebody waits."""


class Event:
    """A call at a time. `cancel` drops it."""

    __slots__ = ("call", "when_ns")

    def __init__(self, when_ns: int, call: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do not call."""
        self.call = None


class Waiter:
    """What an actor awaits: set once, with a value or an exception. One actor awaits it."""

    __slots__ = ("_actor", "_error", "_value", "_world", "is_set", "set_ns")

    def __init__(self, world: World) -> None:
        self._world = world
        self._actor: Actor | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_set = False
        self.set_ns = 0  # when it got its value

    def set(self, value: Any = None) -> None:
        """Give the value, unless the waiter is set already."""
        if not self.is_set:
            self.is_set = True
            self.set_ns = self._world.now_ns
            self._value = value
            self._wake()

    def fail(self, error: BaseException) -> None:
        """Raise `error` in the actor, unless the waiter is set already."""
        if not self.is_set:
            self.is_set = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._actor is not None:
            actor, self._actor = self._actor, None
            self._world.after(0, actor.step)

    def __await__(self) -> Generator[Waiter, None, Any]:
        if not self.is_set:
            yield self
        if self._error is not None:
            raise self._error
        return self._value

    def awaited_by(self, actor: Actor) -> None:
        """Continue `actor` once the waiter is set."""
        if self.is_set:
            self._world.after(0, actor.step)
        else:
            self._actor = actor


class Actor:
    """A coroutine of the world. Its exceptions are the simulator's own defects."""

    __slots__ = ("_coroutine", "_world", "ended", "name")

    def __init__(self, world: World, name: str, coroutine: Coroutine[Waiter, None, Any]) -> None:
        self.name = name
        self.ended = Waiter(world)
        self._world = world
        self._coroutine = coroutine

    def step(self) -> None:
        """Run to the next await."""
        if self.ended.is_set:
            return
        try:
            waiter = self._coroutine.send(None)
        except StopIteration as end:
            self.ended.set(end.value)
        except Exception as error:
            self.ended.set(None)
            self._world.defects.append((self.name, error))
            raise Defect(f"{self.name}: {error!r}") from error
        else:
            waiter.awaited_by(self)

    def stop(self) -> None:
        """End it where it waits."""
        if not self.ended.is_set:
            self.ended.set(None)
            self._coroutine.close()


class World:
    """Time, events, actors, chance and trace of one history."""

    def __init__(self, seed: str, *, keeps_story: bool = False) -> None:
        self.seed = seed
        self.now_ns = 0
        self.actors: list[Actor] = []
        self.defects: list[tuple[str, Exception]] = []  # of the simulator itself
        self.story: list[tuple[int, str]] | None = [] if keeps_story else None
        self._events: list[tuple[int, float, int, Event]] = []  # when, tie, number
        self._numbers = 0
        self._tie = self.chance("ties").random
        self._digest = hashlib.blake2b(digest_size=16)

    # -- Chance and trace ---------------------------------------------------------------------

    def chance(self, name: str) -> random.Random:
        """Return the stream of random numbers of that name, from its beginning."""
        return random.Random(f"{self.seed}/{name}")

    def note(self, who: str, what: str) -> None:
        """Add a line to the trace. It must not name addresses, ids of objects or real time."""
        self._digest.update(b"%d %s %s\n" % (self.now_ns, who.encode(), what.encode()))
        if self.story is not None:
            self.story.append((self.now_ns, f"{who}: {what}"))

    @property
    def digest(self) -> str:
        """The digest of the trace so far."""
        return self._digest.hexdigest()

    # -- Events -------------------------------------------------------------------------------

    def at(self, when_ns: int, call: Callable[[], None]) -> Event:
        """Call at a time; soon, if it is over."""
        self._numbers += 1
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        event = Event(when_ns, call)
        heapq.heappush(self._events, (when_ns, self._tie(), self._numbers, event))
        return event

    def after(self, delay_ns: int, call: Callable[[], None]) -> Event:
        """Call after a time."""
        return self.at(self.now_ns + delay_ns, call)

    @property
    def next_ns(self) -> int | None:
        """When the next event is due; None if there is none."""
        events = self._events
        while events and events[0][3].call is None:
            heapq.heappop(events)
        return events[0][0] if events else None

    def step(self) -> None:
        """Run the next event. Raises Stuck."""
        if not self.step_by(NEVER_NS):
            raise Stuck("the world has no event left")

    def step_by(self, latest_ns: int) -> bool:
        """Run the next event, unless it is due later than that; return whether one was run."""
        events = self._events
        while events:
            when_ns, _, _, event = events[0]
            call = event.call
            if call is None:
                heapq.heappop(events)
                continue
            if when_ns > latest_ns:
                return False
            heapq.heappop(events)
            event.call = None
            if when_ns > self.now_ns:
                self.now_ns = when_ns
            call()
            return True
        return False

    def run_until(self, is_over: Callable[[], bool]) -> None:
        """Run events until `is_over`. Raises Stuck."""
        while not is_over():
            self.step()

    # -- Actors -------------------------------------------------------------------------------

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> Actor:
        """Start an actor soon."""
        actor = Actor(self, name, coroutine)
        self.actors.append(actor)
        self.after(0, actor.step)
        return actor

    def waiter(self) -> Waiter:
        """Return a waiter that is not set."""
        return Waiter(self)

    async def sleep_ms(self, ms: float) -> None:
        """Wait for a time."""
        waiter = self.waiter()
        self.after(int(ms * MS), waiter.set)
        await waiter

    async def wait(self, waiter: Waiter, ms: float) -> Any:
        """Await a waiter for at most a time. Raises TimedOut, and what the waiter raises."""
        timer = self.after(int(ms * MS), lambda: waiter.fail(TimedOut(f"after {ms} ms")))
        try:
            return await waiter
        finally:
            timer.cancel()
