"""An administrator of topics of its own: it makes, grows, changes and deletes them, and looks.

It knows what must be there: what an answer said stays so, over every crash, until it changes it
itself. A request without an answer, or with an error that says nothing of its outcome, leaves both
states possible: until the next look, if the broker has started anew since, for as long as it runs
it may still carry out what its client has stopped waiting for (design.md, I15).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterableConfig as FullConfig
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as FullResource
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation.clients import describers
from tests.simulation.clients.caller import Caller
from tests.simulation.context import Context
from tests.simulation.group_events import Removed
from tests.simulation.judges.offsets import UNCERTAIN
from tests.simulation.plan import ClientPlan

TOPIC: Final = 2  # ConfigResource.Type in Kafka
SET, DELETE = 0, 1  # AlterConfigOp
OWN: Final = 3
PARTITIONS_MAX: Final = 5
LOOK_VERSION: Final = 12
# Values that are allowed, and that promise nothing to readers of a topic.
NEUTRAL: Final[dict[str, tuple[str, ...]]] = {
    "compression.type": ("producer", "gzip", "zstd", "uncompressed"),
    "internal.segment.bytes": ("600", "1500", "100000"),
    "segment.ms": ("1000", "604800000"),
    "index.interval.bytes": ("0", "150", "4096"),
    "min.cleanable.dirty.ratio": ("0.0", "0.5", "1.0"),
    # Java reads digits of any script.
    "delete.retention.ms": ("0", "1000", "86400000", "\N{FULLWIDTH DIGIT FIVE}00"),
    "min.compaction.lag.ms": ("0", "500"),
    "max.compaction.lag.ms": ("1000", "9223372036854775807"),
    "file.delete.delay.ms": ("0", "500", "60000"),
    "flush.messages": ("1", "5", "9223372036854775807"),
    "flush.ms": ("0", "200", "9223372036854775807"),
    "segment.jitter.ms": ("0", "50"),
    "preallocate": ("true", "false"),
}
BAD_CONFIGS: Final = (
    ("no.such.key", "1"),
    ("retention.ms", "soon"),
    ("cleanup.policy", "burn"),
    ("min.cleanable.dirty.ratio", "7"),
    ("segment.bytes", "1"),
    ("compression.type", ""),
)
BAD_NAMES: Final = ("", ".", "..", "a b", "t" * 250, "__cluster_metadata")


def _described(value: str | None) -> str | None:
    """Return how a value is told: numbers as they were understood, as in Kafka."""
    return str(int(value)) if value is not None and value.isdecimal() else value


@dataclass(slots=True)
class Own:
    """A topic that one administrator alone makes and deletes; None: unknown."""

    name: str
    is_there: bool | None = False
    topic_id: bytes = b""
    counts: set[int] = field(default_factory=set)  # that are possible
    configs: dict[str, set[str | None]] = field(default_factory=dict)  # ... of each key
    old_ids: set[bytes] = field(default_factory=set)
    open_life: int = 0  # of the broker, which may still carry out a request


class TopicAdmin:
    """An administrator of topics of its own."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        prefix = caller.name.replace(" ", "-")
        self.own = [Own(f"{prefix}-{number}") for number in range(OWN)]

    async def step(self) -> None:
        """Do one thing to one topic."""
        topic = self.caller.rng.choice(self.own)
        if topic.is_there is None or self.caller.chance(0.2):
            await self.look(topic)
            return
        chance = self.caller.rng.random()
        if chance < 0.1:
            await self.create_badly(topic)
        elif not topic.is_there:
            await self.create(topic)
        elif chance < 0.35:
            await self.delete(topic)
        elif chance < 0.6:
            await self.grow(topic)
        elif chance < 0.85:
            await self.alter(topic)
        else:
            await self.create(topic)  # again, in vain

    def fail(self, what: str) -> None:
        """Note what cannot be true."""
        self.caller.record.fail(self.caller.name, what)

    def _expect(self, what: str, code: int, expected: set[int]) -> bool:
        """Check the code of an answer; return whether it says something."""
        if code in UNCERTAIN:
            return False
        if code not in expected:
            self.fail(f"{what}: error {code}, expected {sorted(expected)}")
        return True

    def _leave_open(self, topic: Own) -> None:
        """Note that the broker may still carry out a request."""
        topic.open_life = len(self.caller.context.lives)

    def _is_open(self, topic: Own) -> bool:
        return topic.open_life == len(self.caller.context.lives)

    async def look(self, topic: Own) -> None:
        """Compare a topic with what must be there."""
        asked = [MetadataRequestTopic(name=topic.name)]
        body = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = await self.caller.ask(body, LOOK_VERSION, what=topic.name)
        if answer is None:
            return
        (found,) = answer.topics
        is_there = found.error_code == 0
        codes = {partition.error_code for partition in found.partitions}
        if topic.is_there is None and codes == {int(ErrorCode.LEADER_NOT_AVAILABLE)}:
            return  # it is being created: its record may not be durable yet
        if topic.is_there is not None and is_there != topic.is_there:
            self.fail(f"{topic.name}: is there: {is_there}, expected {topic.is_there}")
        is_open = self._is_open(topic)
        if topic.is_there is None and is_open:
            return
        topic.is_there = is_there
        if not is_there:
            self._forget(topic)
            return
        count = len(found.partitions)
        if topic.topic_id and found.topic_id != topic.topic_id:
            self.fail(f"{topic.name}: another id")
        if found.topic_id in topic.old_ids:
            self.fail(f"{topic.name}: an id that was deleted")
        if topic.counts and count not in topic.counts:
            self.fail(f"{topic.name}: {count} partitions, expected {sorted(topic.counts)}")
        topic.topic_id = found.topic_id
        if not is_open:
            topic.counts = {count}
        if topic.configs:
            await self._look_at_configs(topic)

    async def _look_at_configs(self, topic: Own) -> None:
        resource = DescribeConfigsResource(
            resource_type=TOPIC,
            resource_name=topic.name,
            configuration_keys=sorted(topic.configs) if self.caller.chance(0.5) else None,
        )
        body = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        answer = await self.caller.ask(body, what=topic.name)
        if answer is None:
            return
        (result,) = answer.results
        if not self._expect(topic.name, result.error_code, {0}):
            return
        found = {config.name: config for config in result.configs}
        for name, possible in topic.configs.items():
            if name not in found:  # internal ones are not described
                continue
            own = [one for one in found[name].synonyms if one.source == 1]
            value = own[0].value if own else None
            if value not in map(_described, possible):
                self.fail(f"{topic.name}: {name} is {value}, expected one of {possible}")
            if not self._is_open(topic):
                possible.clear()
                possible.add(value)

    def _forget(self, topic: Own) -> None:
        if topic.topic_id:
            topic.old_ids.add(topic.topic_id)
        topic.topic_id = b""
        topic.counts.clear()
        topic.configs.clear()

    async def create(self, topic: Own) -> None:
        """Create a topic; in vain if it is there."""
        rng = self.caller.rng
        count = rng.randint(1, PARTITIONS_MAX)
        keys = rng.sample(sorted(NEUTRAL), rng.choice((0, 0, 1, 3)))
        configs: dict[str, str] = {key: rng.choice(NEUTRAL[key]) for key in keys}
        version = self.caller.version_of(CreateTopicsRequest)
        made = CreatableTopic(
            name=topic.name,
            num_partitions=count,
            replication_factor=rng.choice((1, -1)),
            configs=[CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
        )
        if self.caller.chance(0.2):
            made.num_partitions = made.replication_factor = -1
            made.assignments = [
                CreatableReplicaAssignment(partition_index=number, broker_ids=[1])
                for number in range(count)
            ]
        is_check = self.caller.chance(0.1)
        body = CreateTopicsRequest(topics=[made], timeout_ms=10_000, validate_only=is_check)
        was_there = topic.is_there
        if not is_check and not was_there:
            topic.is_there = None
            topic.counts = {count}
            topic.configs = {key: {value} for key, value in configs.items()}
        answer = await self.caller.ask(body, version, what=f"{topic.name} {count}")
        if answer is None:
            self._leave_open(topic)
            return
        (result,) = answer.topics
        expected = {int(ErrorCode.TOPIC_ALREADY_EXISTS) if was_there else 0}
        if not self._expect(f"create {topic.name}", result.error_code, expected):
            self._leave_open(topic)
            return
        if not is_check and not was_there:
            topic.is_there = result.error_code == 0
            if topic.is_there:
                topic.topic_id = getattr(result, "topic_id", b"").strip(b"\0")
                topic.topic_id = result.topic_id if topic.topic_id else b""
            else:
                self._forget(topic)

    async def create_badly(self, topic: Own) -> None:
        """Ask for topics that cannot be."""
        rng = self.caller.rng
        bad = [CreatableTopic(name=rng.choice(BAD_NAMES), num_partitions=1, replication_factor=1)]
        bad.append(CreatableTopic(name="many", num_partitions=0, replication_factor=1))
        bad.append(CreatableTopic(name="copies", num_partitions=1, replication_factor=3))
        name, value = rng.choice(BAD_CONFIGS)
        config = CreatableTopicConfig(name=name, value=value)
        bad.append(
            CreatableTopic(name="set", num_partitions=1, replication_factor=1, configs=[config])
        )
        if topic.is_there is False:
            twice = CreatableTopic(name=topic.name, num_partitions=1, replication_factor=1)
            bad += [twice, twice]
        answer = await self.caller.ask(CreateTopicsRequest(topics=bad, timeout_ms=5_000))
        for result in answer.topics if answer is not None else ():
            if result.error_code == 0:
                self.fail(f"an impossible topic was created: {result.name!r}")

    async def delete(self, topic: Own) -> None:
        """Delete a topic, by name or by id."""
        version = self.caller.version_of(DeleteTopicsRequest)
        body = DeleteTopicsRequest(timeout_ms=10_000, topic_names=[topic.name])
        is_by_id = bool(topic.topic_id) and self.caller.chance(0.5)
        state = DeleteTopicState(name=topic.name)
        if is_by_id:
            state = DeleteTopicState(topic_id=topic.topic_id)
        body.topics = [state]
        event = removal(self.caller, topic.name)
        topic.is_there = None
        answer = await self.caller.ask(body, version, what=topic.name)
        if answer is None:
            self._leave_open(topic)
            return
        (result,) = answer.responses
        event.answered(self.caller.now_ns, result.error_code)
        if self._expect(f"delete {topic.name}", result.error_code, {0}):
            topic.is_there = False
            self._forget(topic)
        else:
            self._leave_open(topic)

    async def grow(self, topic: Own) -> None:
        """Add partitions, or ask for fewer, in vain."""
        count = self.caller.rng.randint(0, PARTITIONS_MAX + 1)
        before = set(topic.counts)
        asked = CreatePartitionsTopic(name=topic.name, count=count)
        is_check = self.caller.chance(0.1)
        body = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=is_check)
        if not is_check and before and count > min(before):
            topic.counts.add(count)
        answer = await self.caller.ask(body, what=f"{topic.name} {count}")
        if answer is None:
            self._leave_open(topic)
        if answer is None or not before:
            return
        (result,) = answer.results
        expected = set()
        if count > min(before):
            expected.add(0)
        if count <= max(before):
            expected.add(int(ErrorCode.INVALID_PARTITIONS))
        says = self._expect(f"grow {topic.name} to {count}", result.error_code, expected)
        if not says:
            self._leave_open(topic)
        if says and not is_check and count > min(before):
            later = {one for one in before if one > count and self._is_open(topic)}
            topic.counts = {count, *later} if result.error_code == 0 else before

    async def alter(self, topic: Own) -> None:
        """Change configs, one by one or all at once."""
        rng = self.caller.rng
        keys = sorted(rng.sample(sorted(NEUTRAL), rng.randint(1, 3)))
        values: dict[str, str | None] = {key: rng.choice(NEUTRAL[key]) for key in keys}
        replaces = self.caller.chance(0.3)
        body: Any
        if replaces:
            full = [FullConfig(name=key, value=value) for key, value in values.items()]
            resource = FullResource(resource_type=TOPIC, resource_name=topic.name, configs=full)
            body = AlterConfigsRequest(resources=[resource])
            values |= {key: None for key in topic.configs if key not in values}
        else:
            deleted = [key for key in keys if self.caller.chance(0.3)]
            values |= dict.fromkeys(deleted)
            body = incremental(TOPIC, topic.name, values)
        before = {key: topic.configs.get(key) for key in values}
        for key, value in values.items():
            possible = before[key]
            # What a key is whose value nobody here has set is not known.
            topic.configs[key] = {None, value} if possible is None else {*possible, value}
        answer = await self.caller.ask(body, what=topic.name)
        if answer is None:
            self._leave_open(topic)
            return
        (result,) = answer.responses
        if not self._expect(f"alter {topic.name}", result.error_code, {0}):
            self._leave_open(topic)
        elif not self._is_open(topic):
            topic.configs |= {key: {value} for key, value in values.items()}


def removal(caller: Caller, name: str) -> Removed:
    """Note that offsets of a topic may go from here on."""
    event = Removed(who=caller.name, group="", began_ns=caller.now_ns, topic=name)
    caller.record.group_events.append(event)
    return event


def incremental(
    kind: int, name: str, values: dict[str, str | None]
) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource])


async def run(context: Context, plan: ClientPlan) -> None:
    """Make, change and delete topics of its own; see the module."""
    caller = Caller(context, plan)
    admin = TopicAdmin(caller)
    for _ in caller.steps:
        if caller.chance(0.25):
            await describers.step(caller)
        else:
            await admin.step()
        await caller.pause()
    for topic in admin.own:
        await admin.look(topic)
    caller.wire.close()
