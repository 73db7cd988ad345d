"""What every client of the data does: connect, ask, survive, come back, and learn topics.

A client has a name, a stream of chance and a number of steps. It connects again whenever its
connection is lost, with pauses, and ends when the broker stays away too long. `Over` ends it from
anywhere. Error codes that no well-behaved request may get are failures at once; all others are
noted as refusals, which the judges compare with the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Final

from crc32c import crc32c

from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.clients.topics import Topic, topics_of
from tests.simulation.clients.wire import Disconnected, MsgpackWire, TlsWire, Wire
from tests.simulation.clock import STARTED_MS
from tests.simulation.context import KAFKA_PORT, MSGPACK_PORT, TLS_PORT
from tests.simulation.plan import TLS_LISTENER
from tests.simulation.record import Refusal
from tests.simulation.world import MS, TimedOut

if TYPE_CHECKING:
    from tests.simulation.context import Context
    from tests.simulation.plan import ClientPlan

NONE, UNKNOWN_TOPIC, TIMED_OUT, TOPIC_EXISTS, STORAGE, UNKNOWN_ID = 0, 3, 7, 36, 56, 100
ATTEMPTS_MAX: Final = 60
PAUSE_MS: Final = (1, 5, 20, 100, 400)
TIMEOUT_MS: Final = 40_000
CREATE_VERSION, METADATA_VERSION = 7, 12


class Over(Exception):
    """The client ends."""


class Client:
    """See the module. A subclass says in `live` what it does."""

    wire_kind: ClassVar[type[Wire]] = Wire
    port: ClassVar[int] = KAFKA_PORT
    may_be_encrypted: ClassVar[bool] = True
    is_one_process: ClassVar[bool] = False  # whether it goes on as it was on a new connection

    def __init__(self, context: Context, plan: ClientPlan) -> None:
        self.context = context
        self.world = context.world
        self.record = context.record
        self.name = plan.name
        self.steps = plan.steps
        self.chance = self.world.chance(plan.name)
        self.topics = topics_of(context)
        self.process = self.record.new_process()
        self.wire = self.new_wire()

    def new_wire(self, suffix: str = "") -> Wire:
        """Return another connection of this client, not open."""
        name, first = self.name + suffix, self.chance.choice((1, 1, 2**31 - 20))
        network, record = self.context.network, self.record
        kind, port = self.wire_kind, self.port
        if kind is Wire and self.may_be_encrypted and has_tls(self.context):
            kind, port = (TlsWire, TLS_PORT) if crc32c(name.encode()) % 2 else (kind, port)
        return kind(self.world, network, port, name, record, first_number=first)

    @property
    def is_copied(self) -> bool:
        """Whether the broker copies what it serves here: it maps only what nobody looks into."""
        return isinstance(self.wire, MsgpackWire | TlsWire)

    async def run(self) -> None:
        """Live, and leave: also when the actor is stopped where it waits."""
        try:
            await self.live()
        except Over:
            self.note("ends early")
        finally:
            self.wire.close()

    async def live(self) -> None:
        """Do what this client is for."""
        raise NotImplementedError

    # -- The connection -----------------------------------------------------------------------

    async def connected(self) -> bool:
        """Connect if need be; return whether the connection is new. Raises Over."""
        if self.wire.is_open:
            return False
        self.wire.close()
        for _ in range(ATTEMPTS_MAX):
            try:
                await self.wire.open()
            except Disconnected:
                await self.pause(20, 100, 400)
            else:
                if not self.is_one_process:
                    self.process = self.record.new_process()
                return True
        raise Over

    async def ask(
        self,
        body: Any,
        version: int,
        what: str = "",
        *,
        timeout_ms: float = TIMEOUT_MS,
        **more: Any,
    ) -> Any:
        """Return the answer, or None if the connection was lost or no answer came."""
        await self.connected()
        try:
            return await self.wire.call(body, version, timeout_ms, what, **more)
        except Disconnected:
            await self.pause()
        except TimedOut:
            self.note("has waited long enough")
            self.wire.close()
        return None

    async def pause(self, *choices_ms: float) -> None:
        """Wait for one of these times."""
        await self.world.sleep_ms(self.chance.choice(choices_ms or PAUSE_MS))

    def note(self, what: str) -> None:
        """Add to the trace."""
        self.world.note(self.name, what)

    def refused(
        self,
        api: str,
        topic: Topic,
        partition: int,
        code: int,
        at_ns: int | None = None,
        since_ns: int | None = None,
    ) -> None:
        """Note an error code, which came now or at `at_ns`.

        `since_ns`: when it was asked, if the client may look at the answer much later.
        `may_be_gone`: it may be time to learn a topic anew.
        """
        self.note(f"{api} of {topic.name}-{partition}: code {code}")
        at_ns = self.world.now_ns if at_ns is None else at_ns
        since_ns = self.wire.opened_ns if since_ns is None else since_ns
        self.record.refusals.append(
            Refusal(at_ns, self.name, api, topic.name, partition, code, min(since_ns, at_ns))
        )
        if code in (UNKNOWN_TOPIC, UNKNOWN_ID) and topic.may_be_gone:
            topic.is_known = False

    @property
    def now_ms(self) -> int:
        """The client's wall clock, which is right."""
        return STARTED_MS + self.world.now_ns // MS

    # -- Topics -------------------------------------------------------------------------------

    async def topic(self) -> Topic:
        """Choose a topic that exists, as far as is known; create it if need be. Raises Over."""
        for _ in range(ATTEMPTS_MAX):
            topic = self.topics.any(self.chance)
            if topic.is_known or await self._learn(topic):
                return topic
            await self.pause()
        raise Over

    async def _learn(self, topic: Topic) -> bool:
        configs = [
            CreatableTopicConfig(name=key, value=topic.configs[key]) for key in topic.configs
        ]
        new = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=1,
            configs=configs,
        )
        answer = await self.ask(CreateTopicsRequest(topics=[new]), CREATE_VERSION, topic.name)
        if answer is None:
            return False
        (created,) = answer.topics
        if created.error_code == NONE:
            self.topics.learned(topic, created.topic_id, created.num_partitions)
            return True
        if created.error_code != TOPIC_EXISTS:
            self.refused("create", topic, -1, created.error_code)
            return False
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
        )
        answer = await self.ask(asked, METADATA_VERSION, topic.name)
        if answer is None:
            return False
        (found,) = answer.topics
        if found.error_code:
            self.refused("metadata", topic, -1, found.error_code)
            return False
        self.topics.learned(topic, found.topic_id, len(found.partitions))
        return True


class MsgpackClient(Client):
    """A client of the other dialect."""

    wire_kind = MsgpackWire
    port = MSGPACK_PORT


def has_tls(context: Context) -> bool:
    """Whether the broker has a listener with TLS."""
    return TLS_LISTENER in context.plan.settings.get("listeners", "")


def runs(kind: type[Client]) -> Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]:
    """Return the actor of a kind of client."""

    async def run(context: Context, plan: ClientPlan) -> None:
        await kind(context, plan).run()

    return run
