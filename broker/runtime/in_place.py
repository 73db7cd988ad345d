"""Coroutines that need no task: they run in the step of the caller, and of what they wait for.

A task begins in the next turn of the loop, and goes on a turn after the future that it waits for.
Both cost CPU and time, each time. Here a coroutine begins at once. What it waits for is mostly a
`Told`: whoever tells it lets the coroutine go on at once, within the same call.

    begin ── runs ── awaits a Told ── [tell] ── runs ── ended(result) or failed(error)

It may also await futures and `asyncio.sleep(0)`, and then goes on in a later turn, as a task does.
So do those that are told when `PER_TURN` have gone on in this turn already: thousands may wait for
one flush, and would hold up all other clients (design.md, I13).

It is no task, so nothing cancels it, and it must not ask for one: no `asyncio.timeout`, no
`asyncio.wait_for`. A `Told` may be awaited by a task as well.

What tells must be ready for what the coroutine does next: it is called as a callback would be.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from broker.runtime import owners
from broker.runtime.owners import Owner

T = TypeVar("T")

PER_TURN: Final = 50  # of those that are told, each some 50 to 100 us up to its answer


class _Depth:
    """Whether the code that runs just now is a coroutine's that runs in place."""

    __slots__ = ("is_in_place",)

    def __init__(self) -> None:
        self.is_in_place = False


_now = _Depth()


class Told(Generic[T]):
    """A result that comes once, for one coroutine that awaits it."""

    __slots__ = ("_go_on", "_is_told", "_result")

    _result: T

    def __init__(self) -> None:
        self._is_told = False
        self._go_on: Callable[[], object] | None = None

    def tell(self, result: T) -> None:
        """Give the result; the coroutine that awaits it goes on, in place if it runs so."""
        assert not self._is_told, "a result comes once"
        self._is_told = True
        self._result = result
        if self._go_on is not None:
            self._go_on()

    def when_told(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` within `tell`."""
        self._go_on = go_on

    def __await__(self) -> Generator[Any, None, T]:
        if not self._is_told:
            if _now.is_in_place:
                yield self
            else:
                yield from self._future().__await__()
        return self._result

    def _future(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if not future.done():  # its task was cancelled
                future.set_result(None)

        self._go_on = go_on
        return future


class InPlace:
    """The coroutines of one owner that run in place."""

    __slots__ = ("_idle", "_later", "_left", "count", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner  # of their steps
        self._idle: asyncio.Future[None] | None = None
        self._left = PER_TURN  # may go on in this turn
        self._later: deque[Callable[[], None]] = deque()  # the others; bounded by `count`
        self.count = 0  # have begun, and not ended

    def begin(
        self,
        coroutine: Coroutine[Any, Any, T],
        ended: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run a coroutine; then call one of the two, with its result or its exception."""
        self.count += 1
        _Run(self, coroutine, ended, failed).step()

    def go_on(self, step: Callable[[], None]) -> None:
        """Let one that was told go on: now, or behind others in a turn to come."""
        if self._later or not self._left:
            self._later.append(step)
            return
        if self._left == PER_TURN:
            owners.soon(self.owner, self._turn)
        self._left -= 1
        step()

    def _turn(self) -> None:
        """Begin another turn, with those that are left of the last."""
        later = self._later
        count = min(len(later), PER_TURN)
        self._left = PER_TURN - count
        if count:
            owners.soon(self.owner, self._turn)
        for _ in range(count):
            owners.step(self.owner, later.popleft())

    def has_ended(self) -> None:
        """Count one that has begun as ended."""
        self.count -= 1
        if not self.count and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    async def finish(self) -> None:
        """Wait for those that have begun."""
        while self.count:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)


class _Run(Generic[T]):
    """One coroutine."""

    __slots__ = ("_among", "_coroutine", "_ended", "_failed")

    def __init__(
        self,
        among: InPlace,
        coroutine: Coroutine[Any, Any, T],
        ended: Callable[[T], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._among = among
        self._coroutine = coroutine
        self._ended = ended
        self._failed = failed

    def step(self) -> None:
        """Let the coroutine run until it waits or ends."""
        was_in_place, _now.is_in_place = _now.is_in_place, True
        tell: Callable[[], None]
        try:
            waits_for = self._coroutine.send(None)
        except StopIteration as end:
            tell = partial(self._ended, end.value)
        except Exception as error:
            tell = partial(self._failed, error)
        else:
            self._wait(waits_for)
            return
        finally:
            _now.is_in_place = was_in_place
        self._among.has_ended()
        tell()

    def _told(self) -> None:
        self._among.go_on(self.step)

    def _wait(self, waits_for: Any) -> None:
        if type(waits_for) is Told:
            waits_for.when_told(self._told)
        elif waits_for is None:  # asyncio.sleep(0)
            owners.soon(self._among.owner, self.step)
        else:  # a future, which marks itself as awaited, as a task expects of it
            waits_for._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's protocol
            owners.when_done(self._among.owner, waits_for, self.step)
