"""The requests of the command line about the cluster and its topics, as calls on a `Connection`.

Each function sends one or a few requests and returns plain values. A topic's error code becomes a
`BrokerError` with Kafka's name of the code, the broker's message, and, for an unknown name, a
suggestion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from client.codes import code_text
from client.kafka.connection import BrokerError, Connection
from client.suggest import did_you_mean
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1
READ_UNCOMMITTED: Final = 0  # Kafka's IsolationLevel
READ_COMMITTED: Final = 1
_CONSUMER: Final = -1  # the replica id of clients that are not replicas
Offsets: TypeAlias = dict[tuple[str, int], tuple[int, int]]
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def cluster(connection: Connection) -> MetadataResponse:
    """Return the cluster with all topics."""
    answer: MetadataResponse = connection.call(
        MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse
    )
    answer.topics.sort(key=lambda topic: topic.name or "")
    return answer


def topics(connection: Connection, names: Sequence[str]) -> list[MetadataResponseTopic]:
    """Return the topics `names`, or all if it is empty. Raises BrokerError for an unknown one."""
    if not names:
        return cluster(connection).topics
    asked = [MetadataRequestTopic(name=name) for name in names]
    answer: MetadataResponse = connection.call(
        MetadataRequest(topics=asked, allow_auto_topic_creation=False), MetadataResponse
    )
    for topic in answer.topics:
        if topic.error_code:
            raise topic_error(connection, topic.name or "", topic.error_code, None)
    order = {name: number for number, name in enumerate(names)}
    return sorted(answer.topics, key=lambda topic: order.get(topic.name or "", -1))


def topic_error(connection: Connection, name: str, code: int, message: str | None) -> BrokerError:
    """Return the error for a refused topic, with a suggestion if the name is unknown."""
    if code not in _UNKNOWN:
        return BrokerError(f"topic {name!r} was refused: {code_text(code, message)}")
    known = [topic.name or "" for topic in cluster(connection).topics]
    hint = did_you_mean(name, known)
    if not hint:
        hint = "`barnabas topics list` lists the topics." if known else "There are none yet."
    return BrokerError(f"no topic {name!r} at {connection.address}. {hint}")


def create_topic(
    connection: Connection,
    name: str,
    *,
    partition_count: int,
    replication_factor: int,
    configs: Mapping[str, str],
    validate_only: bool,
) -> Any:
    """Create a topic (-1 means the broker's default); return its CreatableTopicResult."""
    from protocol.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )

    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    answer = connection.call(
        CreateTopicsRequest(topics=[topic], validate_only=validate_only), CreateTopicsResponse
    )
    return answer.topics[0]


def delete_topics(connection: Connection, names: Sequence[str]) -> list[str]:
    """Delete topics; return a reason for each refusal."""
    from protocol.messages.delete_topics import (
        DeleteTopicsRequest,
        DeleteTopicsResponse,
        DeleteTopicState,
    )

    answer = connection.call(
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=60_000,
        ),
        DeleteTopicsResponse,
    )
    return [
        f"topic {one.name or ''!r} was not deleted: {code_text(one.error_code, one.error_message)}"
        for one in answer.responses
        if one.error_code
    ]


def add_partitions(
    connection: Connection, name: str, partition_count: int, *, validate_only: bool
) -> None:
    """Increase the number of partitions of a topic. Raises BrokerError."""
    from protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )

    answer = connection.call(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=partition_count)],
            timeout_ms=60_000,
            validate_only=validate_only,
        ),
        CreatePartitionsResponse,
    )
    for result in answer.results:
        if result.error_code:
            raise topic_error(connection, name, result.error_code, result.error_message)


def offsets(
    connection: Connection,
    partitions: Mapping[str, Iterable[int]],
    timestamp: int,
    *,
    committed_only: bool = False,
) -> Offsets:
    """Return (offset, timestamp) by partition: EARLIEST, LATEST, or the first at a time in ms.

    `committed_only`: as consumers with read_committed see it; LATEST is then the last stable
    offset. (-1, -1) if no record is that late. Raises BrokerError.
    """
    from protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopic,
    )

    asked = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                for number in numbers
            ],
        )
        for name, numbers in partitions.items()
    ]
    answer = connection.call(
        ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=READ_COMMITTED if committed_only else READ_UNCOMMITTED,
            topics=asked,
            timeout_ms=30_000,
        ),
        ListOffsetsResponse,
    )
    found = {}
    for topic in answer.topics:
        for one in topic.partitions:
            if one.error_code:
                raise BrokerError(
                    f"offsets of {topic.name}-{one.partition_index}: {code_text(one.error_code)}"
                )
            found[topic.name, one.partition_index] = (one.offset, one.timestamp)
    return found


def sizes(connection: Connection) -> dict[tuple[str, int], int] | None:
    """Return the size on disk by partition, in bytes; None if the broker does not serve it."""
    from protocol.messages.describe_log_dirs import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    if not connection.serves(DescribeLogDirsRequest):
        return None
    answer = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {
        (topic.name, one.partition_index): one.partition_size
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def delete_records(connection: Connection, name: str, offsets_to: Mapping[int, int]) -> list[str]:
    """Delete the records below an offset in each partition; return a reason for each refusal."""
    from protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsResponse,
        DeleteRecordsTopic,
    )

    partitions = [
        DeleteRecordsPartition(partition_index=number, offset=offset)
        for number, offset in offsets_to.items()
    ]
    answer = connection.call(
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=30_000
        ),
        DeleteRecordsResponse,
    )
    return [
        f"records of {topic.name}-{one.partition_index} were not deleted:"
        f" {code_text(one.error_code)}"
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code
    ]
