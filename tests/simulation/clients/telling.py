"""What the stories share: clients that do certain things in a certain order, and know what follows.

Most clients of a history act by chance, and judges compare what all of them saw. A story is the
other way round: its clients use a topic or a group of their own, so that they know each answer that
they must get. It is told while everything else goes on, and faults happen.

    Teller    the clients of one story, by name; `expect` is its judge
    Untold    the story cannot be told to its end: an answer did not come, or says nothing. Nobody
              is judged then

A story expects nothing that a fault may take: where a new life of the broker may answer otherwise,
it asks with `in_life`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.simulation.clients.caller import Caller, codes_of
from tests.simulation.clients.wire import Disconnected, Wire
from tests.simulation.context import KAFKA_PORT, Context
from tests.simulation.judges.offsets import UNCERTAIN
from tests.simulation.plan import WISHING, ClientPlan
from tests.simulation.world import MS, TimedOut, Waiter

PATIENCE_MS: Final = 30_000
EARLIEST: Final = -2
CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
PRODUCE_VERSIONS: Final = range(3, 13)
OFFSETS_VERSION: Final = 7
FIND_VERSION: Final = 3  # makes the internal topics, if need be
PREFIX: Final = "story-"  # of topics and groups
TRIES: Final = 20
CREATE_TRIES: Final = 4
# There is no coordinator yet: nothing was done.
LOADING: Final = frozenset(
    {
        int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        int(ErrorCode.NOT_COORDINATOR),
    }
)
Story = Callable[["Teller"], Coroutine[Any, Any, None]]


class Untold(Exception):
    """The story has no end."""


class Teller:
    """The clients of one story, and what they may expect."""

    def __init__(self, context: Context, plan: ClientPlan, number: int) -> None:
        self.context = context
        self.world = context.world
        self.name = f"{PREFIX}{plan.name.replace(' ', '-')}-{number}"
        self.rng = context.world.chance(self.name)
        self._plan = plan
        self._number = number
        self._callers: dict[str, Caller] = {}

    @property
    def life(self) -> int:
        """The number of the broker's present life."""
        return len(self.context.lives)

    @property
    def now_ms(self) -> float:
        """The time since the history began."""
        return self.world.now_ns / MS

    def is_planned(self, *kinds: str) -> bool:
        """Whether a fault of one of these kinds is in the plan."""
        return any(fault.kind in kinds for fault in self.context.plan.faults)

    def caller(self, who: str) -> Caller:
        """Return a client of the story, which speaks Kafka's protocol."""
        caller = self._callers.get(who)
        if caller is None:
            suffix = f" {self._number} {who}"
            caller = self._callers[who] = Caller(self.context, self._plan, suffix=suffix)
            caller.is_msgpack = False
            caller.wire = Wire(
                self.world, self.context.network, KAFKA_PORT, caller.name, self.context.record
            )
        return caller

    def leave(self) -> None:
        """End all connections."""
        for caller in self._callers.values():
            caller.wire.close()

    async def rest(self, ms: float) -> None:
        """Wait for this time."""
        await self.world.sleep_ms(ms)

    def wish(self, what: str) -> None:
        """Let the broker end soon, as one of `tests.simulation.wishes.WISHES`, if it is planned."""
        self.context.wish(what)

    async def next_life(self, within_ms: float) -> bool:
        """Wait until another broker serves; return whether one does in time."""
        life, until_ms = self.life, self.now_ms + within_ms
        while self.now_ms < until_ms:
            if self.life > life and self.context.broker is not None:
                return True
            await self.rest(100)
        return False

    # -- Asking -------------------------------------------------------------------------------

    async def ask(self, body: Any, version: int | None = None, *, who: str = "one") -> Any:
        """Return an answer that says something. Raises Untold."""
        caller = self.caller(who)
        for _ in range(TRIES):
            await self._connected(caller)
            answer = await caller.ask(body, version, timeout_ms=PATIENCE_MS, what=self.name)
            if answer is None:
                break
            codes = set(codes_of(answer))
            if not codes & LOADING:
                if codes & UNCERTAIN:
                    break
                return answer
            kind = TRANSACTION if hasattr(body, "transactional_id") else GROUP
            find = FindCoordinatorRequest(key=self.name, key_type=kind)
            await caller.ask(find, FIND_VERSION, timeout_ms=PATIENCE_MS, what=self.name)
            await self.rest(300)
        raise Untold

    async def _connected(self, caller: Caller) -> None:
        for _ in range(TRIES):
            if self.context.is_finale:
                break
            try:
                await caller.wire.open()
            except Disconnected:  # it starts
                await self.rest(200)
            else:
                return
        raise Untold

    async def in_life(self, body: Any, version: int | None = None, *, who: str = "one") -> Any:
        """Return an answer of the same life of the broker as the one before. Raises Untold."""
        life = self.life
        answer = await self.ask(body, version, who=who)
        if self.life != life:
            raise Untold
        return answer

    async def sent(self, body: Any, version: int, *, who: str = "one") -> Waiter:
        """Send a request, and do not wait for its answer. Raises Untold."""
        caller = self.caller(who)
        await self._connected(caller)
        return caller.wire.send(body, version, self.name)

    async def answer(self, waiter: Waiter) -> Any:
        """Await the answer of what was sent. Raises Untold."""
        try:
            answer = await self.world.wait(waiter, PATIENCE_MS)
        except (Disconnected, TimedOut):
            raise Untold from None
        if answer is None or UNCERTAIN.intersection(codes_of(answer)):
            raise Untold
        return answer

    def expect(self, is_so: bool, what: str) -> None:
        """Object unless something is as it must be."""
        if not is_so:
            self.context.record.fail(self.name, what)
            raise Untold

    def needs(self, is_so: bool) -> None:
        """Go on only if something is so. Raises Untold."""
        if not is_so:
            raise Untold

    # -- Topics -------------------------------------------------------------------------------

    async def create(self, name: str, count: int = 1, **configs: str) -> bytes:
        """Create a topic; return its id. Configs have underscores for dots."""
        made = CreatableTopic(
            name=name,
            num_partitions=count,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        for _ in range(CREATE_TRIES):
            try:
                answer = await self.ask(CreateTopicsRequest(topics=[made]), CREATE_VERSION)
            except Untold:
                continue
            (topic,) = answer.topics
            if topic.error_code == ErrorCode.NONE:
                return bytes(topic.topic_id)
            self.needs(topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS)
            for found in await self.caller("one").look():  # the first request made it
                if found.name == name:
                    return found.topic_id
        raise Untold

    async def delete(self, name: str, *, who: str = "one") -> None:
        """Delete a topic."""
        body = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=PATIENCE_MS)
        (topic,) = (await self.ask(body, DELETE_VERSION, who=who)).responses
        self.needs(topic.error_code == ErrorCode.NONE)

    async def produce(
        self, name: str, batch: bytes, *, acks: int = -1, partition: int = 0, who: str = "one"
    ) -> Any:
        """Return what is answered for one batch."""
        body = produced(name, batch, acks=acks, partition=partition)
        answer = await self.ask(body, self.rng.choice(PRODUCE_VERSIONS), who=who)
        return answer.responses[0].partition_responses[0]

    async def offset_of(self, name: str, timestamp: int = EARLIEST, partition: int = 0) -> int:
        """Return the offset of a time, or one of those that have a name."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        topic = ListOffsetsTopic(name=name, partitions=[asked])
        body = ListOffsetsRequest(replica_id=-1, topics=[topic])
        (found,) = (await self.ask(body, OFFSETS_VERSION)).topics[0].partitions
        self.needs(found.error_code == ErrorCode.NONE)
        return int(found.offset)


def produced(name: str, batch: bytes, *, acks: int = -1, partition: int = 0) -> ProduceRequest:
    """Return the request that writes one batch."""
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks,
        timeout_ms=PATIENCE_MS,
        topic_data=[TopicProduceData(name=name, partition_data=[data])],
    )


def tells(story: Story) -> Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]:
    """Return the actor that tells a story, as often as its plan has steps."""

    async def run(context: Context, plan: ClientPlan) -> None:
        for number in range(plan.steps):
            if context.is_finale:
                break
            teller = Teller(context, plan, number)
            try:
                await story(teller)
            except Untold:
                teller.world.note(teller.name, "is not told to its end")
            else:
                teller.world.note(teller.name, "is told")
            finally:
                teller.leave()
        if plan.kind in WISHING:
            context.wish("")

    return run
