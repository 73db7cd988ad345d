"""The same requests about configs to Apache Kafka 4.3 and to Barnabas: answers, row by row.

Both brokers run; each request of the table is sent to both, in one order, so that each finds what
the ones before it have left. Error codes must be equal, and messages where they are Kafka's words
about more than one value; rows of DescribeConfigs must be equal but for the differences that stand
in docs/unsupported.md. Kafka's brokers learn of a change a moment after its answer, so that rows
are compared when Kafka's have come to stand still.
"""

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SETTINGS = {"log.retention.hours": "24", "num.partitions": "2"}
OWN_NAMES = {
    "write.caching", "ssl.certificate", "ssl.key",
    "super.users", "allow.everyone.if.no.acl.found",  # of Kafka's authorizer, not in its table
}  # fmt: skip
# Settings that each broker was started with.
STARTED_WITH = {
    "controller.listener.names", "controller.quorum.voters", "group.initial.rebalance.delay.ms",
    "inter.broker.listener.name", "listeners", "log.dirs", "offsets.topic.replication.factor",
    "process.roles", "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor", "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}  # fmt: skip
OTHER_DEFAULTS = {"queued.max.request.bytes", "socket.listen.backlog.size"}
# While log.retention.ms is set, Kafka shows the default for its weaker name, although the synonyms
# say otherwise.
SHADOWED = "log.retention.hours"
FIXED_HERE = {
    "config.providers", "cordoned.log.dirs", "listener.security.protocol.map", "num.io.threads",
    "num.network.threads", "num.recovery.threads.per.data.dir", "principal.builder.class",
}  # fmt: skip


class Pair:
    """Both brokers; each request goes to both."""

    def __init__(self, kafka: KafkaNode, ours: BrokerProcess) -> None:
        self.ports = (kafka.port, ours.port)

    def ask(self, body: Any, version: int, response: type) -> tuple[Any, Any]:
        """Kafka's answer, and ours."""
        kafkas, ours = (call(port, body, version, response) for port in self.ports)
        return kafkas, ours


def call(port: int, body: Any, version: int, response: type) -> Any:
    spec = body.MESSAGE
    is_flexible = version >= spec.flexible_since
    head = struct.pack(">hhih", spec.api_key, version, 7, 4) + b"test" + bytes(is_flexible)
    data = head + encode_message(body, version)
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.sendall(struct.pack(">i", len(data)) + data)
        stream = sock.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        answer = stream.read(size)
    return decode_message(response, version, answer, 5 if is_flexible else 4)[0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    libs()
    kafka = KafkaNode(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    ours = BrokerProcess(tmp_path_factory.mktemp("ours") / "data", SETTINGS)
    kafka.start()
    ours.start()
    try:
        both = Pair(kafka, ours)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        both.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        yield both
    finally:
        kafka.kill()
        ours.kill()


def incremental(pair: Pair, kind: int, name: str, *operations: tuple[str, int, Any]) -> Any:
    module = incremental_alter_configs
    resource = module.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            module.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ],
    )
    body = module.IncrementalAlterConfigsRequest(resources=[resource])
    answers = pair.ask(body, 1, module.IncrementalAlterConfigsResponse)
    return [answer.responses[0] for answer in answers]


def replace(pair: Pair, kind: int, name: str, *values: tuple[str, Any]) -> Any:
    module = alter_configs
    resource = module.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[module.AlterableConfig(name=key, value=value) for key, value in values],
    )
    body = module.AlterConfigsRequest(resources=[resource])
    answers = pair.ask(body, 2, module.AlterConfigsResponse)
    return [answer.responses[0] for answer in answers]


def describe(
    pair: Pair, kind: int, name: str, keys: list[str] | None = None
) -> list[dict[str, DescribeConfigsResourceResult]]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    body = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    answers = pair.ask(body, 4, DescribeConfigsResponse)
    results = [answer.results[0] for answer in answers]
    assert [result.error_code for result in results] == [0, 0]
    return [{config.name: config for config in result.configs} for result in results]


CHANGES = [
    (TOPIC, "t", [("foo.bar", SET, "1")]),
    (TOPIC, "t", [("foo.bar", DELETE, None)]),
    (TOPIC, "t", [("retention.ms", SET, "abc")]),
    (TOPIC, "t", [("retention.ms", SET, " 7000 ")]),
    (TOPIC, "t", [("retention.ms", SET, "-2")]),
    (TOPIC, "t", [("retention.bytes", SET, "-5")]),
    (TOPIC, "t", [("segment.bytes", SET, "1")]),
    (TOPIC, "t", [("segment.bytes", SET, None)]),
    (TOPIC, "t", [("segment.bytes", SET, "2000000"), ("segment.bytes", SET, "3000000")]),
    (TOPIC, "t", [("segment.bytes", 9, "2000000")]),
    (TOPIC, "t", [("segment.bytes", APPEND, "2000000")]),
    (TOPIC, "t", [("segment.bytes", SUBTRACT, "2000000")]),
    (TOPIC, "t", [("foo", APPEND, "2000000")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "compact")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "compact,delete")]),
    (TOPIC, "t", [("cleanup.policy", APPEND, "foo")]),
    (TOPIC, "t", [("cleanup.policy", SUBTRACT, "compact,nonsense")]),
    (TOPIC, "t", [("min.compaction.lag.ms", SET, "20"), ("max.compaction.lag.ms", SET, "10")]),
    (TOPIC, "t", [("remote.storage.enable", SET, "true")]),
    (TOPIC, "t", [("compression.type", SET, "foo")]),
    (TOPIC, "t", [("compression.gzip.level", SET, "99")]),
    (TOPIC, "t", [("preallocate", SET, "yes")]),
    (TOPIC, "t", [("message.timestamp.type", SET, "x")]),
    (TOPIC, "t", [("message.format.version", SET, "3.0")]),
    (TOPIC, "t", [("leader.replication.throttled.replicas", SET, "0:1,x")]),
    (TOPIC, "t", [("leader.replication.throttled.replicas", SET, "*")]),
    (TOPIC, "t", [("flush.ms", DELETE, "5")]),
    (TOPIC, "t", []),
    (TOPIC, "nope", [("segment.bytes", SET, "2000000")]),
    (TOPIC, "a b", [("segment.bytes", SET, "2000000")]),
    (TOPIC, "", [("segment.bytes", SET, "2000000")]),
    (0, "t", [("a", SET, "1")]),
    (1, "t", [("a", SET, "1")]),
    (77, "t", [("a", SET, "1")]),
    (BROKER, "1", [("num.partitions", SET, "3")]),
    (BROKER, "", [("num.partitions", SET, "3")]),
    (BROKER, "", [("log.retention.hours", SET, "3")]),
    (BROKER, "", [("log.retention.ms", SET, "x")]),
    (BROKER, "", [("log.segment.bytes", SET, "1")]),
    (BROKER, "1", [("log.segment.bytes", SET, "1")]),
    (BROKER, "", [("min.insync.replicas", SET, "0")]),
    (BROKER, "1", [("min.insync.replicas", SET, "1")]),
    (BROKER, "", [("min.insync.replicas", DELETE, None)]),
    (BROKER, "9", [("log.segment.bytes", SET, "2000000")]),
    (BROKER, "x", [("log.segment.bytes", SET, "2000000")]),
    (BROKER, "1", [("foo.bar", SET, "3")]),
    (BROKER, "", [("max.connections", APPEND, "3")]),
    (BROKER, "", [("max.connections", SET, "-1")]),
    (BROKER, "", [("log.cleaner.threads", SET, "x")]),
    (BROKER, "", [("log.cleaner.threads", SET, "0")]),
    (BROKER, "", [("log.cleaner.threads", SET, "3")]),
    (BROKER, "", [("log.cleaner.threads", SET, "2")]),
    (BROKER, "", [("log.cleaner.threads", DELETE, None)]),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1")]),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1048576")]),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1048577")]),
    (BROKER, "", [("log.cleaner.dedupe.buffer.size", DELETE, None)]),
    (BROKER, "1", [("leader.replication.throttled.rate", SET, "x")]),
    (BROKER, "1", [("leader.replication.throttled.rate", SET, "100")]),
    (BROKER, "", [("log.retention.ms", SET, "7200000"), ("log.segment.bytes", SET, "3000000")]),
    (BROKER, "1", [("log.segment.bytes", SET, "4000000")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "5")]),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "60001")]),
    (GROUP, "g", [("share.isolation.level", SET, "foo")]),
    (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:PT1H")]),
    (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:1H")]),
    (GROUP, "g", [("foo", SET, "5")]),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")]),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "1000")]),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "5")]),
    (CLIENT_METRICS, "m", [("interval.ms", SET, "x")]),
    (CLIENT_METRICS, "m", [("foo", SET, "5")]),
    (CLIENT_METRICS, "m", [("metrics", APPEND, "a.b")]),
    (CLIENT_METRICS, "m", [("match", SET, "client_id=a.*")]),
    (CLIENT_METRICS, "m", [("match", SET, "foo=bar")]),
    (CLIENT_METRICS, "", [("interval.ms", SET, "1000")]),
]


@pytest.mark.parametrize(("kind", "name", "operations"), CHANGES)
def test_a_change_is_taken_or_refused_as_by_kafka(
    pair: Pair, kind: int, name: str, operations: Any
) -> None:
    kafkas, ours = incremental(pair, kind, name, *operations)
    assert ours.error_code == kafkas.error_code, (kafkas, ours)
    assert (ours.resource_type, ours.resource_name) == (kind, name)
    assert (ours.error_message is None) <= (kafkas.error_message is None)


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (TOPIC, "t", [("foo.bar", "1")]),
        (TOPIC, "t", [("retention.ms", "abc")]),
        (TOPIC, "t", [("retention.ms", None)]),
        (TOPIC, "t", [("retention.ms", "1"), ("retention.ms", "2")]),
        (TOPIC, "t", [("retention.ms", "8000")]),
        (TOPIC, "nope", [("retention.ms", "1")]),
        (77, "t", [("a", "1")]),
        (LOGGER, "1", [("a", "1")]),
        (BROKER, "1", [("num.partitions", "3")]),
        (BROKER, "", [("log.retention.ms", "7200000")]),
        (BROKER, "", [("log.retention.ms", "7200000"), ("min.insync.replicas", "1")]),
        (BROKER, "x", [("log.retention.ms", "10")]),
    ],
)
def test_a_replacement_is_taken_or_refused_as_by_kafka(
    pair: Pair, kind: int, name: str, values: Any
) -> None:
    kafkas, ours = replace(pair, kind, name, *values)
    assert ours.error_code == kafkas.error_code, (kafkas, ours)


@pytest.mark.parametrize(
    ("kind", "name"), [(TOPIC, "t"), (BROKER, ""), (GROUP, "g"), (CLIENT_METRICS, "m")]
)
def test_rows_are_kafkas(pair: Pair, kind: int, name: str) -> None:
    """The result of all the changes above, with source, type and synonyms."""
    deadline = time.monotonic() + 20
    while True:
        kafkas, ours = describe(pair, kind, name)
        ours.pop("write.caching", None)
        if kafkas == ours or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert ours == kafkas


def test_rows_of_a_broker_are_kafkas_but_for_what_is_written_down(pair: Pair) -> None:
    kafkas, ours = describe(pair, BROKER, "1")
    assert {name for name in ours if name not in kafkas} == {
        name for name in ours if name in OWN_NAMES or name.startswith("barnabas.")
    }
    assert set(kafkas) <= set(ours)
    different = {name for name in kafkas if kafkas[name] != ours[name]}
    fixed = {name for name in different if name.startswith(("ssl.", "sasl.")) or name in FIXED_HERE}
    assert all(ours[name].read_only and not kafkas[name].read_only for name in fixed)
    assert different - fixed == STARTED_WITH | OTHER_DEFAULTS | {SHADOWED}
    for name in fixed - STARTED_WITH:
        assert (ours[name].value, ours[name].config_type, ours[name].is_sensitive) == (
            kafkas[name].value,
            kafkas[name].config_type,
            kafkas[name].is_sensitive,
        )


@pytest.mark.parametrize(
    "types", [[], [TOPIC], [BROKER], [CLIENT_METRICS], [GROUP], [0], [1], [77], [TOPIC, 77]]
)
def test_resources_listed_are_kafkas_but_for_loggers(pair: Pair, types: list[int]) -> None:
    body = ListConfigResourcesRequest(resource_types=types)
    kafkas, ours = pair.ask(body, 1, ListConfigResourcesResponse)
    assert ours.error_code == kafkas.error_code
    listed = [
        {(one.resource_type, one.resource_name) for one in answer.config_resources}
        for answer in (kafkas, ours)
    ]
    assert listed[1] == listed[0] - {(LOGGER, "1")}
