"""Administrative requests that are refused: the same to Apache Kafka 4.3 and to Barnabas.

One table. Each row is sent to both brokers, on the same state; the error codes must be equal, and
the messages of one sense: the words given in the row stand in both (case does not count).
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.interop.both_brokers import both_brokers

pytestmark = pytest.mark.interop

EXISTING = "existing.topic"  # three partitions, no records
TIMEOUT_MS = 10_000
Ask = Callable[[Connection], tuple[int, str]]


def create(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: dict[int, list[int]] | None = None,
    **configs: str,
) -> Ask:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )

    def ask(connection: Connection) -> tuple[int, str]:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=True)
        (result,) = connection.call(request, CreateTopicsResponse).topics
        return result.error_code, result.error_message or ""

    return ask


def grow(name: str, count: int, assignments: Any = None) -> Ask:
    def ask(connection: Connection) -> tuple[int, str]:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=True)
        (result,) = connection.call(request, CreatePartitionsResponse).results
        return result.error_code, result.error_message or ""

    return ask


def delete_records(name: str, partition: int, offset: int) -> Ask:
    def ask(connection: Connection) -> tuple[int, str]:
        wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topic = DeleteRecordsTopic(name=name, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        (answered,) = connection.call(request, DeleteRecordsResponse).topics
        (result,) = answered.partitions
        return result.error_code, ""  # this API carries no messages

    return ask


def delete_topic(name: str | None, topic_id: bytes = bytes(16)) -> Ask:
    def ask(connection: Connection) -> tuple[int, str]:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=TIMEOUT_MS
        )
        (result,) = connection.call(request, DeleteTopicsResponse).responses
        return result.error_code, result.error_message or ""

    return ask


def set_config(name: str, value: str | None, *, topic: str = EXISTING) -> Ask:
    def ask(connection: Connection) -> tuple[int, str]:
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
        (result,) = connection.call(request, IncrementalAlterConfigsResponse).responses
        return result.error_code, result.error_message or ""

    return ask


def describe_acls(connection: Connection) -> tuple[int, str]:
    request = DescribeAclsRequest(resource_type_filter=2, operation=1, permission_type=1)
    result = connection.call(request, DescribeAclsResponse)
    return result.error_code, result.error_message or ""


def create_acl(connection: Connection) -> tuple[int, str]:
    rule = AclCreation(
        resource_type=2,
        resource_name=EXISTING,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=3,
    )
    (result,) = connection.call(CreateAclsRequest(creations=[rule]), CreateAclsResponse).results
    return result.error_code, result.error_message or ""


def delete_acls(connection: Connection) -> tuple[int, str]:
    rules = DeleteAclsFilter(resource_type_filter=2, operation=1, permission_type=1)
    request = DeleteAclsRequest(filters=[rules])
    (result,) = connection.call(request, DeleteAclsResponse).filter_results
    return result.error_code, result.error_message or ""


REFUSALS: list[tuple[str, Ask, str, list[str]]] = [
    ("empty name", create(""), "INVALID_TOPIC_EXCEPTION", ["empty"]),
    ("one dot", create("."), "INVALID_TOPIC_EXCEPTION", ["'.'"]),
    ("two dots", create(".."), "INVALID_TOPIC_EXCEPTION", ["'..'"]),
    ("a slash", create("a/b"), "INVALID_TOPIC_EXCEPTION", ["a/b", "alphanumerics"]),
    ("a NUL", create("a\0b"), "INVALID_TOPIC_EXCEPTION", ["alphanumerics"]),
    ("a percent sign", create("%2e%2e"), "INVALID_TOPIC_EXCEPTION", ["%2e%2e"]),
    ("not ASCII", create("tópico"), "INVALID_TOPIC_EXCEPTION", ["alphanumerics"]),
    ("250 characters", create("a" * 250), "INVALID_TOPIC_EXCEPTION", ["249"]),
    ("a colliding name", create("existing_topic"), "INVALID_TOPIC_EXCEPTION", ["collide"]),
    ("an existing topic", create(EXISTING), "TOPIC_ALREADY_EXISTS", [EXISTING, "already exists"]),
    ("no partitions", create("t", 0), "INVALID_PARTITIONS", ["partitions", "non-positive"]),
    ("minus two partitions", create("t", -2), "INVALID_PARTITIONS", ["non-positive"]),
    ("factor 3", create("t", 1, 3), "INVALID_REPLICATION_FACTOR", ["3"]),
    ("factor 0", create("t", 1, 0), "INVALID_REPLICATION_FACTOR", ["replication factor"]),
    (
        "too many partitions",
        create("t", 1_000_000),
        "POLICY_VIOLATION",
        ["excessively large number of partitions"],
    ),
    (
        "an assignment to another broker",
        create("t", -1, -1, assignments={0: [99]}),
        "INVALID_REPLICA_ASSIGNMENT",
        ["99"],
    ),
    (
        "an assignment that begins at 1",
        create("t", -1, -1, assignments={1: [1]}),
        "INVALID_REPLICA_ASSIGNMENT",
        ["partition"],
    ),
    (
        "counts beside an assignment",
        create("t", 2, 1, assignments={0: [1]}),
        "INVALID_REQUEST",
        ["assignment"],
    ),
    ("unknown config", create("t", no_such_key="1"), "INVALID_CONFIG", ["no.such.key"]),
    ("config no number", create("t", retention_ms="soon"), "INVALID_CONFIG", ["retention.ms"]),
    ("config too low", create("t", segment_bytes="1"), "INVALID_CONFIG", ["segment.bytes", "1"]),
    ("config no choice", create("t", cleanup_policy="burn"), "INVALID_CONFIG", ["cleanup.policy"]),
    ("shrinking", grow(EXISTING, 2), "INVALID_PARTITIONS", ["3"]),
    ("growing by nothing", grow(EXISTING, 3), "INVALID_PARTITIONS", ["3"]),
    ("growing to nothing", grow(EXISTING, 0), "INVALID_PARTITIONS", []),
    ("growing to less", grow(EXISTING, -1), "INVALID_PARTITIONS", []),
    ("growing what is not there", grow("missing", 5), "UNKNOWN_TOPIC_OR_PARTITION", []),
    ("deleting beyond the end", delete_records(EXISTING, 0, 1), "OFFSET_OUT_OF_RANGE", []),
    ("deleting before the start", delete_records(EXISTING, 0, -2), "OFFSET_OUT_OF_RANGE", []),
    (
        "deleting from no partition",
        delete_records(EXISTING, 9, 0),
        "UNKNOWN_TOPIC_OR_PARTITION",
        [],
    ),
    ("deleting from no topic", delete_records("missing", 0, 0), "UNKNOWN_TOPIC_OR_PARTITION", []),
    ("removing no topic", delete_topic("missing"), "UNKNOWN_TOPIC_OR_PARTITION", []),
    ("removing no id", delete_topic(None, b"x" * 16), "UNKNOWN_TOPIC_ID", []),
    ("removing neither", delete_topic(None), "INVALID_REQUEST", ["name", "id"]),
    ("setting an unknown key", set_config("no.such.key", "1"), "INVALID_CONFIG", ["no.such.key"]),
    ("setting no number", set_config("retention.ms", "soon"), "INVALID_CONFIG", ["retention.ms"]),
    ("setting too low", set_config("segment.bytes", "1"), "INVALID_CONFIG", ["segment.bytes"]),
    (
        "setting on no topic",
        set_config("retention.ms", "1", topic="missing"),
        "UNKNOWN_TOPIC_OR_PARTITION",
        [],
    ),
    ("rules told without an authorizer", describe_acls, "SECURITY_DISABLED", ["authorizer"]),
    ("a rule without an authorizer", create_acl, "SECURITY_DISABLED", ["authorizer"]),
    ("rules removed without an authorizer", delete_acls, "SECURITY_DISABLED", ["authorizer"]),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    """A connection to Kafka and one to Barnabas, each with the existing topic."""
    topic = CreatableTopic(name=EXISTING, num_partitions=3, replication_factor=1)
    with both_brokers(tmp_path_factory) as connections:
        for connection in connections:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
            (made,) = connection.call(request, CreateTopicsResponse).topics
            assert made.error_code == 0, made
        yield connections


@pytest.mark.parametrize(
    ("ask", "code", "words"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusals_are_kafkas(both: list[Connection], ask: Ask, code: str, words: list[str]) -> None:
    (kafkas_code, kafkas_text), (our_code, our_text) = (ask(connection) for connection in both)
    assert kafkas_code == ErrorCode[code], (kafkas_code, kafkas_text)
    assert our_code == kafkas_code, (our_code, our_text)
    for word in words:
        assert word.lower() in kafkas_text.lower(), kafkas_text
        assert word.lower() in our_text.lower(), our_text
    assert our_text or not kafkas_text, kafkas_text
