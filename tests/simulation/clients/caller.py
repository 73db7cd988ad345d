"""A client that calls, loses its broker and comes back: what the members and admins share.

    Caller    one connection in either dialect; `ask` returns None when no answer came
    topics    what Metadata says there is

A caller draws its dialect, and the version of each request, from the stream of its plan's name.
Every answer is searched for error codes that the protocol does not have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.messages.metadata import MetadataRequest
from tests.simulation.clients.wire import HANDLER_OF, Disconnected, MsgpackWire, Wire
from tests.simulation.context import KAFKA_PORT, MSGPACK_PORT, Context
from tests.simulation.plan import ClientPlan
from tests.simulation.world import TimedOut

CODES: Final = frozenset(int(code) for code in ErrorCode)
MSGPACK_SHARE: Final = 0.25
PATIENCE_MS: Final = (3_000, 15_000, 60_000)
METADATA_VERSION: Final = 12
TRIES_MAX: Final = 8


class Topic(NamedTuple):
    """A topic as Metadata describes it."""

    name: str
    topic_id: bytes
    count: int


class Caller:
    """One client; see the module."""

    def __init__(self, context: Context, plan: ClientPlan, *, suffix: str = "") -> None:
        self.context = context
        self.world = context.world
        self.record = context.record
        self.name: str = plan.name + suffix
        self.rng: random.Random = context.world.chance(self.name)
        self.steps = range(plan.steps)
        self.is_msgpack = self.rng.random() < MSGPACK_SHARE
        self.known: list[Topic] = []
        kind: type[Wire] = MsgpackWire if self.is_msgpack else Wire
        port = MSGPACK_PORT if self.is_msgpack else KAFKA_PORT
        self.wire = kind(self.world, context.network, port, self.name, self.record)

    @property
    def now_ns(self) -> int:
        """The time."""
        return int(self.world.now_ns)

    def version_of(self, cls: Any, lowest: int = 0) -> int:
        """Return a version to use: any served one from `lowest` on."""
        handler = HANDLER_OF[cls.MESSAGE.api_key]
        if self.is_msgpack:
            return handler.max_version
        return self.rng.randint(max(lowest, handler.min_version), handler.max_version)

    async def ask(
        self, body: Any, version: int | None = None, *, timeout_ms: int = 0, what: str = ""
    ) -> Any:
        """Send a request; return its answer, or None if none came and the connection is over."""
        if version is None:
            version = self.version_of(body)
        try:
            await self.wire.open()
            answer = await self.wire.call(
                body, version, timeout_ms or self.rng.choice(PATIENCE_MS), what
            )
        except (Disconnected, TimedOut):
            self.wire.close()
            await self.rest(200)
            return None
        for code in codes_of(answer):
            if code not in CODES:
                self.record.fail(self.name, f"{type(body).__name__}: no such error code: {code}")
        return answer

    async def ask_until(self, body: Any, is_done: Callable[[Any], bool], what: str) -> bool:
        """Ask until it is done; the broker may be down for a while. Return whether it is."""
        for _ in range(TRIES_MAX):
            answer = await self.ask(body, what=what)
            if answer is not None and is_done(answer):
                return True
            await self.rest(500)
        return False

    async def rest(self, ms: float) -> None:
        """Wait for up to this time."""
        await self.world.sleep_ms(self.rng.random() * ms)

    async def pause(self) -> None:
        """Wait between two steps: mostly a moment."""
        await self.rest(self.rng.choice((1, 1, 5, 20, 20, 100, 1_000)))

    def chance(self, share: float) -> bool:
        """Say yes in this share of cases."""
        return self.rng.random() < share

    async def look(self) -> list[Topic]:
        """Return the topics that there are, or the last ones known."""
        await self.look_now()
        return self.known

    async def look_now(self) -> list[Topic] | None:
        """Return the topics that there are; None without an answer."""
        answer = await self.ask(
            MetadataRequest(topics=None, allow_auto_topic_creation=False), METADATA_VERSION
        )
        if answer is None:
            return None
        self.known = sorted(
            Topic(topic.name, topic.topic_id, len(topic.partitions))
            for topic in answer.topics
            if topic.error_code == 0 and not topic.is_internal
        )
        return self.known

    async def topics(self) -> list[Topic]:
        """Return topics that were there a short while ago."""
        if not self.known or self.chance(0.1):
            await self.look()
        return self.known

    async def some_partitions(self, most: int = 4) -> list[tuple[Topic, int]]:
        """Return some partitions of the known topics, none of them twice."""
        topics = await self.topics()
        every = [(topic, number) for topic in topics for number in range(topic.count)]
        return self.rng.sample(every, min(len(every), self.rng.randint(1, most)))


def codes_of(answer: Any) -> list[int]:
    """Return all error codes in an answer, however deep."""
    found: list[int] = []
    waiting = [answer]
    while waiting:
        one = waiting.pop()
        names = vars(one) if hasattr(one, "__dict__") else getattr(one, "__slots__", ())
        for name in names:
            value = getattr(one, name)
            if isinstance(value, list):
                if value and not isinstance(value[0], int | str | bytes):
                    waiting += value
            elif name == "error_code":
                found.append(value)
    return found
