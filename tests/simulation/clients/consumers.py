"""Consumers and what else asks about logs.

fetcher           fetches (`clients.fetching`)
session fetcher   fetches within a session (`clients.session_fetcher`)
msgpack fetcher   fetches records as maps, or raw
leaver            leaves while its fetch waits: closes, resets or half-closes; or does not read
lookup            asks for offsets by place and time, and for the ends of epochs
trimmer           deletes records (`clients.lookups`)
"""

from __future__ import annotations

from typing import Final

from protocol.messages.fetch import FetchRequest
from tests.simulation.clients.client import MsgpackClient, runs
from tests.simulation.clients.fetching import Fetcher
from tests.simulation.clients.lookups import Lookups, Trimmer
from tests.simulation.clients.readings import Asking, Reading
from tests.simulation.clients.session_fetcher import SessionFetcher


class MsgpackFetcher(MsgpackClient, Fetcher):
    """Fetches records as maps, or raw."""

    def version_for(self, readings: list[Reading]) -> int:
        """The dialect has one version."""
        return 18

    def _send(self, asking: Asking, body: FetchRequest, what: str) -> None:
        asking.is_raw = self.chance.random() < 0.4
        if not asking.is_raw and any(one.topic.is_ledger for one, _ in asking.asked):
            # Maps leave out what was aborted: the history would take it for lost.
            body.isolation_level, asking.is_committed = 0, False
        raw = {"raw": True} if asking.is_raw else {}
        asking.waiter = self.wire.send(body, 18, what, wait_ms=body.max_wait_ms, **raw)


class Leaver(Fetcher):
    """Leaves while its fetch waits, or does not read for a time."""

    async def live(self) -> None:
        """Fetch, leave, come back."""
        for _ in range(self.steps):
            await self.choose()
            await self.connected()
            count = self.chance.choice((1, 1, 2, 6))
            wait_ms = self.chance.choice((50, 300, 1_000))
            asked = [self.fetch(max_wait_ms=wait_ms, min_bytes=100_000) for _ in range(count)]
            asking = [one for one in asked if one is not None]
            deed = self.chance.choice((self.wire.close, self.wire.reset, self._waits, None))
            await self.pause(0, 0.05, 1, 30)
            if deed is None:
                self.wire.half_close()
            elif deed == self._waits:
                self.wire.stop_reading()
                await self.pause(1, 30, 700)
                self.wire.read_on()
            else:
                deed()
            if self.wire.waiting_count:
                for one in asking:
                    await self.settle(one)
            if self.chance.random() < 0.5 or deed is None:
                self.wire.close()
            await self.pause()

    def _waits(self) -> None:
        """Stand for not reading."""


KINDS: Final = {
    "fetcher": runs(Fetcher),
    "session fetcher": runs(SessionFetcher),
    "msgpack fetcher": runs(MsgpackFetcher),
    "leaver": runs(Leaver),
    "lookup": runs(Lookups),
    "trimmer": runs(Trimmer),
}
