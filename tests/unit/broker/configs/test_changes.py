"""The outcome of a change of configs, compared with Kafka 4.3's answers to the same requests."""

from typing import Any

import pytest

from broker.configs.changes import (
    APPEND,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    Operation,
    Resource,
    State,
    _combined,
    changes_of,
    check_named_once,
    configs_of,
    duplicates,
    is_list,
)
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC, ClusterImage, TopicInfo
from broker.metadata.topic_rules import TopicError
from config.load import load
from protocol.errors import ErrorCode

LOGGER = 8


def state(
    topic: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
    cluster: dict[str, str] | None = None,
    *,
    with_elr: bool = True,
) -> State:
    image = ClusterImage()
    image.topics["t"] = TopicInfo("t", bytes(16), configs=topic or {})
    image.broker_configs = {"1": broker or {}, "": cluster or {}}
    image.feature_levels["eligible.leader.replicas.version"] = int(with_elr)
    loaded = load()
    return State(image, 1, loaded.config.topic_defaults, loaded)


def resource(
    kind: int, name: str, *operations: tuple[str, int, Any], replaces: bool = False
) -> Any:
    return Resource(kind, name, [Operation(*one) for one in operations], replaces)


@pytest.mark.parametrize(
    ("before", "operations", "changes"),
    [
        ({}, [("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", SET, "5")], {}),
        ({"retention.ms": "5"}, [("retention.ms", DELETE, None)], {"retention.ms": None}),
        ({"retention.ms": "5"}, [("retention.ms", DELETE, "9")], {"retention.ms": None}),
        ({}, [("retention.ms", DELETE, None)], {}),
        ({}, [("foo.bar", DELETE, None)], {}),
        ({}, [], {}),
        ({}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),
        ({}, [("cleanup.policy", APPEND, "delete")], {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "delete,compact"}, [("cleanup.policy", APPEND, "compact,delete")], {}),
        ({"cleanup.policy": "delete,compact"}, [("cleanup.policy", SUBTRACT, "compact,other")],
         {"cleanup.policy": "delete"}),
        ({"cleanup.policy": "delete"}, [("cleanup.policy", SUBTRACT, "delete")],
         {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, [("cleanup.policy", APPEND, "compact")],
         {"cleanup.policy": "compact"}),
    ],
)  # fmt: skip
def test_single_changes_of_a_topic(
    before: dict[str, str], operations: Any, changes: dict[str, str | None]
) -> None:
    assert changes_of(resource(CONFIG_TOPIC, "t", *operations), state(before)) == changes


def test_replacing_removes_what_is_not_named() -> None:
    given = resource(CONFIG_TOPIC, "t", ("flush.ms", SET, "9"), replaces=True)
    before = {"retention.ms": "5", "flush.ms": "9", "segment.ms": "7"}
    assert changes_of(given, state(before)) == {"retention.ms": None, "segment.ms": None}


@pytest.mark.parametrize(
    ("kind", "name", "operations", "code", "words"),
    [
        (CONFIG_TOPIC, "t", [("foo.bar", SET, "1")], 40, "Unknown topic config name: foo.bar"),
        (CONFIG_TOPIC, "t", [("retention.ms", SET, "abc")], 40, "Invalid value abc for config"),
        (CONFIG_TOPIC, "t", [("segment.bytes", SET, "1")], 40, "1048576 or more"),
        (CONFIG_TOPIC, "t", [("segment.bytes", SET, None)], 42, "Null value not supported for : "),
        (CONFIG_TOPIC, "t", [("segment.ms", SET, "1"), ("segment.ms", DELETE, "1")], 42,
         "duplicate config keys"),
        (CONFIG_TOPIC, "nope", [("segment.ms", SET, "1")], 3, "'nope' does not exist"),
        (CONFIG_TOPIC, "a b", [("segment.ms", SET, "1")], 17, "Topic name is invalid"),
        (CONFIG_TOPIC, "", [("segment.ms", SET, "1")], 42, "Default topic resources"),
        (CONFIG_TOPIC, "t", [("segment.ms", 9, "1")], -1, "Unknown operation 9"),
        (CONFIG_TOPIC, "t", [("segment.ms", APPEND, "1")], 40, "Can't APPEND to key segment.ms"),
        (CONFIG_TOPIC, "t", [("segment.ms", SUBTRACT, "1")], 40, "Can't SUBTRACT to key"),
        (CONFIG_TOPIC, "t", [("cleanup.policy", APPEND, "foo")], 40, "cleanup.policy"),
        (CONFIG_TOPIC, "t", [("min.compaction.lag.ms", SET, "20"),
                             ("max.compaction.lag.ms", SET, "10")], 40, "max.compaction.lag.ms"),
        (CONFIG_TOPIC, "t", [("remote.storage.enable", SET, "true")], 40, "remote storage"),
        (CONFIG_TOPIC, "t", [("leader.replication.throttled.replicas", SET, "x")], 40, "x"),
        (0, "t", [("a", SET, "1")], 42, "Unknown resource type 0"),
        (LOGGER, "1", [("root", SET, "DEBUG")], 42, "Unknown resource type 8"),
        (CONFIG_BROKER, "9", [("log.roll.ms", SET, "5")], 42, "expected 1, but received 9"),
        (CONFIG_BROKER, "x", [("log.roll.ms", SET, "5")], 42, "must be an integer"),
        (CONFIG_BROKER, " 1", [("log.roll.ms", SET, "5")], 42, "must be an integer"),
        (CONFIG_BROKER, "", [("num.partitions", SET, "3")], 42,
         "Cannot update these configs dynamically: [num.partitions]"),
        (CONFIG_BROKER, "1", [("num.io.threads", SET, "3"), ("listeners", SET, "A://:1")], 42,
         "Cannot update these configs dynamically: [listeners, num.io.threads]"),
        (CONFIG_BROKER, "", [("log.retention.hours", SET, "1")], 42, "[log.retention.hours]"),
        (CONFIG_BROKER, "1", [("listener.name.a.num.io.threads", SET, "1")], 42, "listener.name"),
        (CONFIG_BROKER, "", [("listener.name.a.max.connections", SET, "0")], 42, "1 or more"),
        (CONFIG_BROKER, "1", [("sasl.jaas.config", SET, "secret")], 42, "sasl.jaas.config"),
        (CONFIG_BROKER, "", [("log.retention.ms", SET, "x")], 42, "Invalid value x for config"),
        (CONFIG_BROKER, "", [("log.segment.bytes", SET, "1")], 42, "1048576 or more"),
        (CONFIG_BROKER, "", [("background.threads", SET, "x")], 42, "32 bits"),
        (CONFIG_BROKER, "", [("log.cleaner.min.compaction.lag.ms", SET, "9"),
                             ("log.cleaner.max.compaction.lag.ms", SET, "8")], 42, "greater than"),
        (CONFIG_BROKER, "", [("max.connections", APPEND, "1")], 40, "not LIST"),
        (CONFIG_BROKER, "1", [("min.insync.replicas", SET, "1")], 40, "Broker-level"),
        (CONFIG_BROKER, "", [("min.insync.replicas", DELETE, None)], 40, "Cluster-level"),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "45000")], 42, "Default group"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "5")], 40, "greater than or equal"),
        (GROUP, "g", [("foo", SET, "5")], 40, "Unknown group config name: foo"),
        (CLIENT_METRICS, "", [("interval.ms", SET, "1000")], 42, "can't be empty"),
        (CLIENT_METRICS, "m", [("interval.ms", SET, "5")], 42, "between 100 and 3600000"),
        (CLIENT_METRICS, "m", [("foo", SET, "5")], 42, "Unknown client metrics configuration"),
        (CLIENT_METRICS, "m", [("match", SET, "a=b")], 40, "Illegal client matching pattern"),
        (CLIENT_METRICS, "m", [("metrics", APPEND, "a")], 40, "not LIST"),
    ],
)  # fmt: skip
def test_refusals(kind: int, name: str, operations: Any, code: int, words: str) -> None:
    held = state(cluster={"min.insync.replicas": "1"})
    with pytest.raises(TopicError) as refused:
        changes_of(resource(kind, name, *operations), held)
    assert refused.value.code == code
    assert words in refused.value.message
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("kind", "name", "operation"),
    [
        (CONFIG_BROKER, "", ("log.retention.ms", SET, "5")),
        (CONFIG_BROKER, "1", ("max.connections", SET, "5")),
        (CONFIG_BROKER, "1", ("foo.bar", SET, "5")),
        (CONFIG_BROKER, "", ("background.threads", SET, "5")),
        (CONFIG_BROKER, "", ("log.cleanup.policy", SET, "compact")),
        (CONFIG_BROKER, "", ("min.insync.replicas", SET, "2")),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
        (CLIENT_METRICS, "m", ("interval.ms", SET, "1000")),
    ],
)
def test_accepted_changes_of_other_resources(kind: int, name: str, operation: Any) -> None:
    assert changes_of(resource(kind, name, operation), state()) == {operation[0]: operation[2]}


def test_a_list_of_the_broker_accepts_append() -> None:
    given = resource(CONFIG_BROKER, "", ("log.cleanup.policy", APPEND, "compact"))
    assert changes_of(given, state()) == {"log.cleanup.policy": "delete,compact"}
    assert is_list(CONFIG_BROKER, "log.cleanup.policy")
    assert not is_list(CONFIG_BROKER, "foo.bar")


def test_a_value_that_another_version_accepted_blocks_no_change() -> None:
    held = state(
        {"remote.storage.enable": "true", "foo": "1"},
        {"num.io.threads": "9", "log.segment.bytes": "x"},
        {"listeners": "A://:1"},
    )
    topic = resource(CONFIG_TOPIC, "t", ("retention.ms", SET, "5"))
    assert changes_of(topic, held) == {"retention.ms": "5"}
    for name in ("1", ""):
        broker = resource(CONFIG_BROKER, name, ("log.retention.ms", SET, "5"))
        assert changes_of(broker, held) == {"log.retention.ms": "5"}


def test_a_brokers_value_is_checked_beside_those_of_all_brokers() -> None:
    held = state(cluster={"log.cleaner.max.compaction.lag.ms": "8"})
    given = resource(CONFIG_BROKER, "1", ("log.cleaner.min.compaction.lag.ms", SET, "9"))
    with pytest.raises(TopicError, match="greater than"):
        changes_of(given, held)


def test_min_insync_replicas_is_free_where_kafka_does_not_look_for_it() -> None:
    held = state(cluster={"min.insync.replicas": "1"}, with_elr=False)
    name = "min.insync.replicas"
    assert changes_of(resource(CONFIG_BROKER, "1", (name, SET, "1")), held) == {name: "1"}
    assert changes_of(resource(CONFIG_BROKER, "", (name, DELETE, None)), held) == {name: None}


async def test_a_resource_named_twice_is_found() -> None:
    one, two = resource(CONFIG_TOPIC, "t"), resource(CONFIG_BROKER, "t")
    assert await duplicates([one, two]) == set()
    twice = await duplicates([one, two, one])
    assert twice == {(CONFIG_TOPIC, "t")}
    check_named_once(two, twice)
    with pytest.raises(TopicError, match="at most once") as refused:
        check_named_once(one, twice)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_configs_of_a_resource_are_found_by_its_type() -> None:
    held = state({"retention.ms": "5"}, {"log.roll.ms": "6"})
    held.image.other_configs[GROUP, "g"] = {"a": "b"}
    assert configs_of(held.image, CONFIG_TOPIC, "t") == {"retention.ms": "5"}
    assert configs_of(held.image, CONFIG_BROKER, "1") == {"log.roll.ms": "6"}
    assert configs_of(held.image, GROUP, "g") == {"a": "b"}
    for kind, name in ((CONFIG_TOPIC, "no"), (CONFIG_BROKER, "9"), (GROUP, "no")):
        assert configs_of(held.image, kind, name) == {}


@pytest.mark.parametrize(
    ("now", "wanted", "refused"),
    [("1", "2", ""), ("1", "3", "more than double the current value 1"), ("5", "2", ""),
     ("5", "10", ""), ("5", "11", "more than double"), ("4", "2", ""), ("4", "1", "half"),
     ("4", None, "less than half the current value 4"), ("2", None, ""), ("1", "0", "1 or more")],
)  # fmt: skip
def test_threads_of_the_cleaner_are_halved_or_doubled(
    now: str, wanted: str | None, refused: str
) -> None:
    held = state(cluster={"log.cleaner.threads": now})
    held = held._replace(loaded=held.loaded.with_dynamic({"log.cleaner.threads": now}))
    operation = SET if wanted is not None else DELETE
    given = resource(CONFIG_BROKER, "", ("log.cleaner.threads", operation, wanted))
    if not refused:
        assert changes_of(given, held) == {"log.cleaner.threads": wanted}
        return
    with pytest.raises(TopicError) as caught:
        changes_of(given, held)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert refused in str(caught.value)


def test_memory_for_a_handful_of_keys_is_refused() -> None:
    given = resource(CONFIG_BROKER, "", ("log.cleaner.dedupe.buffer.size", SET, "1"))
    with pytest.raises(TopicError) as caught:
        changes_of(given, state())
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert "log.cleaner.threads=1" in str(caught.value)


class Part(str):
    """An entry of a list that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Part.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("code", "given", "combined"),
    [
        (APPEND, ["b", "c", "c", "a"], ["a", "b", "a", "c"]),
        (SUBTRACT, ["a", "c"], ["b", "a"]),
        (SUBTRACT, ["a", "a", "a"], ["b"]),
    ],
)
def test_lists_are_combined_as_sets_of_counted_entries(
    code: int, given: list[str], combined: list[str]
) -> None:
    assert _combined(["a", "b", "a"], code, given) == combined


@pytest.mark.parametrize("code", [APPEND, SUBTRACT])
def test_entries_of_a_long_list_are_not_compared_with_each_other(code: int) -> None:
    held = [Part(number) for number in range(1_000)]
    given = [Part(number) for number in range(500, 1_500)]
    Part.compared = 0
    assert len(_combined(held, code, given)) in (1_500, 500)
    assert Part.compared < 10 * len(held)
