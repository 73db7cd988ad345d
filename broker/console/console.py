"""The console of one broker: what its endpoints share. Made with the first request for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError, packed
from broker.console.entry import Doorkeeper
from broker.console.inquiry import Inquiry
from broker.console.visitor import Visitor
from broker.console.walks import Rates, Row, SharedRows, Turns
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.http.routes import PageRules
from broker.runtime.clock import MS_NS

if TYPE_CHECKING:
    from broker.http.surroundings import Surroundings

VIEWERS_MAX: Final = 16
READERS_MAX: Final = 4  # requests that read records at a time; others wait
REST_SECONDS: Final = 0.003
BUSY_NS: Final = 100 * MS_NS
EVENTS: Final = "text/event-stream; charset=utf-8"


class Console:
    """Shared by all endpoints."""

    def __init__(self, surroundings: Surroundings, rules: PageRules) -> None:
        self.surroundings = surroundings
        self.assembly = surroundings.assembly
        self.services = surroundings.assembly.services
        self.history = surroundings.history
        self.keeper = Doorkeeper(self.services, rules)
        self.inquiry = Inquiry(surroundings.assembly)
        self.rates = Rates(self.services.clock)
        self._turns = 0
        self._others = -1  # requests of clients, at the last rest
        self._busy_until_ns = 0
        self.readers = asyncio.Semaphore(READERS_MAX)
        self.exports_now = 0
        self._rows: dict[str, SharedRows[Any]] = {}  # of each list
        # By partition: the topic's id, an offset, and when the batch arrived that has it.
        self.arrivals: dict[tuple[str, int], tuple[Any, int, int]] = {}
        self.columns: dict[str, tuple[int, bytes]] = {}  # of the history, by range
        self.glance: dict[str, Any] | None = None  # of the newest sample
        self._beat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.history.listen(self._sampled)

    def changed(self) -> None:
        """Show what a visitor has changed to the next one who looks."""
        for rows in self._rows.values():
            rows.forget()

    async def rows(
        self, name: str, make: Callable[[Console, Turns], Awaitable[list[Row]]]
    ) -> list[Row]:
        """Return the rows of a list, shared by all who ask at about the same time."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = SharedRows(self.services.clock, partial(make, self))
        return await found.get()

    async def rest(self) -> None:
        """Let others have the loop between two slices of a search; for longer while clients ask."""
        others = self.services.metrics.requests_received - self.inquiry.asked
        now_ns = self.services.clock.monotonic_ns()
        if others != self._others:
            self._others, self._busy_until_ns = others, now_ns + BUSY_NS
        await asyncio.sleep(REST_SECONDS if now_ns < self._busy_until_ns else 0)

    def next_turn(self) -> int:
        """Return a number that grows: whose turn it is among partitions."""
        self._turns += 1
        return self._turns

    def _sampled(self) -> None:
        """Wake the viewers: the history has a new row."""
        beat, self._beat = self._beat, asyncio.get_running_loop().create_future()
        beat.set_result(None)

    async def next_sample(self) -> None:
        """Wait for the next row of the history."""
        await asyncio.shield(self._beat)

    def stream(
        self,
        request: HttpRequest,
        visitor: Visitor,
        make: Callable[[], AsyncGenerator[bytes, None]],
        still_may: Callable[[], bool],
    ) -> HttpAnswer:
        """Return an answer of server-sent events, for one of at most `VIEWERS_MAX` viewers.

        Before each event it is asked again whether the visitor still may see it, and is logged in.
        """
        metrics = self.services.metrics
        if metrics.http_viewers_now >= VIEWERS_MAX:
            metrics.http_viewers_refused += 1
            raise ConsoleError(
                503, "VIEWERS", f"{VIEWERS_MAX} viewers are watching, the most there may be"
            )

        async def watched() -> AsyncGenerator[bytes, None]:
            if metrics.http_viewers_now >= VIEWERS_MAX:  # others have begun meanwhile
                return
            events = make()
            metrics.http_viewers_now += 1
            try:
                async for piece in events:
                    if not still_may() or not self.keeper.still_lets_in(request, visitor):
                        yield event("ended", {"reason": "Your right to see this has ended"})
                        return
                    yield piece
            except ConsoleError as error:  # a right or a topic has gone, or the broker is busy
                yield event("ended", {"reason": str(error)})
            finally:
                metrics.http_viewers_now -= 1
                await events.aclose()

        return HttpAnswer(200, watched(), EVENTS, closes=True)


def event(kind: str, found: object) -> bytes:
    """Return one server-sent event."""
    return b"event: " + kind.encode() + b"\ndata: " + packed(found) + b"\n\n"
