"""Administrators: they change what others use, while they use it.

    topic admin    `tests.simulation.clients.topic_admin`
    config admin   changes configs of everybody's topics, and of the broker
    deleter        deletes a topic that others use, and makes it anew under its name
    fumbler        asks what is wrong, or rarely asked (`tests.simulation.clients.fumbler`)

A config that changes what a topic promises is noted before it is sent: clients and judges must not
expect the old promise any more.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from tests.simulation.clients import describers, fumbler, topic_admin
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.topic_admin import BAD_CONFIGS, NEUTRAL, TOPIC, incremental, removal
from tests.simulation.clients.topics import Topic, topics_of
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan

BROKER: Final = 4  # ConfigResource.Type in Kafka
CLIENT_METRICS: Final = 16
GROUP: Final = 32
FULL_WIDTH: Final = "\uff11\uff10\uff10"  # 100, to Java
PROMISES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "write.caching": ("is_volatile", ("true", "false")),
    "cleanup.policy": ("is_compacted", ("compact", "delete", "compact,delete")),
    "retention.ms": ("is_trimmed", ("500", "60000", "-1")),
    "retention.bytes": ("is_trimmed", ("1000", "-1")),
    "max.message.bytes": ("is_limited", ("300", "2000", "1048588")),
}
OF_BROKER: Final[dict[str, tuple[str, ...]]] = {
    "compression.type": ("producer", "lz4"),
    "log.cleaner.threads": ("1", "2"),
    "log.cleaner.backoff.ms": ("0", "100", "15000", FULL_WIDTH),
    "log.cleaner.io.max.bytes.per.second": ("2000", "1.7976931348623157E308"),
    "log.index.interval.bytes": ("100", "4096"),
    "max.connections": ("8", "1000"),
    "max.connections.per.ip": ("8", "1000"),
    "max.connections.per.ip.overrides": ("127.0.0.1:20", ""),
}
BAD_OF_BROKER: Final = (
    ("num.network.threads", "x"),
    ("node.id", "5"),
    ("log.dirs", "/elsewhere"),
    ("max.connections", "0"),
    ("log.cleaner.threads", "0"),
    ("log.cleaner.dedupe.buffer.size", "1"),
    ("max.connections.per.ip.overrides", "nowhere.example:2"),
)
REFUSALS: Final = frozenset({40, 42})  # of values


async def run_config_admin(context: Context, plan: ClientPlan) -> None:
    """Change configs of everybody's topics, and of the broker."""
    caller = Caller(context, plan)
    topics = topics_of(context)
    for _ in caller.steps:
        chance = caller.rng.random()
        topic = topics.any(caller.rng)
        body: Any
        if chance < 0.5:
            key = caller.rng.choice(sorted(NEUTRAL.keys() - _promised(topic)))
            value = None if caller.chance(0.2) else caller.rng.choice(NEUTRAL[key])
            body = incremental(TOPIC, topic.name, {key: value})
        elif chance < 0.6 and not topic.is_ruled:
            body = _promise(caller, topic)
        elif chance < 0.8:
            key = caller.rng.choice(sorted(OF_BROKER))
            value = None if caller.chance(0.3) else caller.rng.choice(OF_BROKER[key])
            body = incremental(BROKER, caller.rng.choice(("", "1")), {key: value})
        else:
            is_topic = caller.chance(0.5)
            key, value = caller.rng.choice(BAD_CONFIGS if is_topic else BAD_OF_BROKER)
            name = topic.name if is_topic else caller.rng.choice(("", "1", "7", "x"))
            body = incremental(TOPIC if is_topic else BROKER, name, {key: value})
        answer = await caller.ask(body, what=topic.name)
        for result in answer.responses if answer is not None else ():
            if chance >= 0.8 and result.error_code == 0:
                caller.record.fail(caller.name, f"an impossible config was set: {body}")
            elif chance < 0.8 and result.error_code in REFUSALS:
                caller.record.fail(caller.name, f"a config was refused: {result}, {body}")
        if caller.chance(0.15):
            await caller.ask(_aside(caller, topic), what="aside")
        await caller.pause()
    caller.wire.close()


def _promised(topic: Topic) -> set[str]:
    """Return the configs that make the topic what it is."""
    promised = {"delete.retention.ms"} if topic.keeps_tombstones else set()
    return promised | (
        {"min.compaction.lag.ms", "max.compaction.lag.ms"} if topic.is_young else set()
    )


def _aside(caller: Caller, topic: Topic) -> IncrementalAlterConfigsRequest:
    """Change configs of metrics, or only ask whether a change would do."""
    kind, name, key, value = caller.rng.choice(
        (
            (GROUP, "consumer-0", "consumer.session.timeout.ms", "6000"),
            (GROUP, "", "consumer.session.timeout.ms", "6000"),
            (GROUP, "g", "no.such.key", "1"),
            (CLIENT_METRICS, "m", "interval.ms", "1000"),
            (CLIENT_METRICS, "m", "interval.ms", "1"),
            (CLIENT_METRICS, "", "metrics", "a"),
            (TOPIC, topic.name, "retention.ms", "1"),
            (BROKER, "1", "max.connections", "1"),
        )
    )
    body = incremental(kind, name, {key: value})
    body.validate_only = kind != CLIENT_METRICS
    return body


def _promise(caller: Caller, topic: Topic) -> IncrementalAlterConfigsRequest:
    """Change what a topic promises, and say so beforehand."""
    key = caller.rng.choice(sorted(PROMISES))
    flag, values = PROMISES[key]
    setattr(topic, flag, True)
    topics_of(caller.context).flagged(topic)
    value = caller.rng.choice(values)
    if key == "cleanup.policy" and topic.needs_keys and "compact" not in value:
        value = "compact,delete"
    return incremental(TOPIC, topic.name, {key: value})


async def run_deleter(context: Context, plan: ClientPlan) -> None:
    """Delete topics that others use, and make them anew under their names."""
    caller = Caller(context, plan)
    topics = topics_of(context)
    passing = [topic for topic in topics.values() if topic.may_be_gone]
    for _ in caller.steps:
        if not passing:
            await describers.step(caller)
        elif caller.chance(0.3):
            topic = caller.rng.choice(passing)
            event = removal(caller, topic.name)
            body = DeleteTopicsRequest(
                timeout_ms=5_000,
                topic_names=[topic.name],
                topics=[DeleteTopicState(name=topic.name)],
            )
            answer = await caller.ask(body, what=topic.name)
            if answer is not None:
                event.answered(caller.now_ns, answer.responses[0].error_code)
        else:
            await _remake(caller, caller.rng.choice(passing))
        await caller.rest(300)
    caller.wire.close()


async def _remake(caller: Caller, topic: Topic) -> None:
    configs = [CreatableTopicConfig(name=key, value=topic.configs[key]) for key in topic.configs]
    count = caller.rng.randint(1, 3)
    made = CreatableTopic(
        name=topic.name, num_partitions=count, replication_factor=1, configs=configs
    )
    version = caller.version_of(CreateTopicsRequest, 7)  # with the id in its answer
    body = CreateTopicsRequest(topics=[made], timeout_ms=5_000)
    answer = await caller.ask(body, version, what=topic.name)
    if answer is not None and answer.topics[0].error_code == 0:
        topics_of(caller.context).learned(topic, answer.topics[0].topic_id, count)


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "topic admin": topic_admin.run,
    "config admin": run_config_admin,
    "deleter": run_deleter,
    "describer": describers.run,
    "stranger": describers.run_stranger,
    "fumbler": fumbler.run,
}
