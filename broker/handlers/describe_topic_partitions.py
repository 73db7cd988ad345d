"""DescribeTopicPartitions, API key 75, version 0.

Behaviour
- The answer has the requested topics (none: all) in the order of their names, from the cursor on.
  It ends when it has as many partitions as the request allows, from 1 to 2,000. If topics or
  partitions are left, `next_cursor` is the first of them.
- A cursor must name one of the requested topics, and a partition of at least 0; otherwise each
  topic is INVALID_REQUEST. If all topics are requested, a cursor may have any name.
- A topic that does not exist is UNKNOWN_TOPIC_OR_PARTITION, an invalid name
  INVALID_TOPIC_EXCEPTION. Neither counts towards the limit.
- Authorized operations are all operations: there is no authorization.
- A single broker has no eligible leader replicas outside the ISR (KIP-966): both lists are empty.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from itertools import islice

from broker.authorized_operations import TOPIC_OPERATIONS
from broker.metadata.image import PartitionInfo, TopicInfo
from broker.metadata.topic_rules import INTERNAL_TOPICS, TopicError, check_name
from broker.runtime.request import Request
from broker.runtime.steps import Steps, finished
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2_000  # Kafka's max.request.partition.size.limit default
NAMES_PER_STEP = 1_000


def handle(request: Request, services: Services) -> Steps:
    """Describe one page of topics."""
    body: DescribeTopicPartitionsRequest = request.body
    asked: set[str] = set()
    for topic in body.topics:
        asked.add(topic.name)
        yield 0
    cursor = body.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        return (yield from _refused_each(body, ErrorCode.INVALID_REQUEST))
    names = yield from _in_order(asked or {topic.name for topic in services.topics.all()})
    response = DescribeTopicPartitionsResponse()
    room = max(1, min(body.response_partition_limit, PARTITIONS_MAX))
    for name in names:
        yield 0
        if cursor is not None and name < cursor.topic_name:
            continue
        if not room:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        known = services.topics.by_name(name)
        if known is None:
            response.topics.append(_unknown(name))
            continue
        first = 0
        if cursor is not None and cursor.topic_name == name:
            first = cursor.partition_index
        described = _describe(services, known, first, room)
        response.topics.append(described)
        room -= len(described.partitions)
        next_index = first + len(described.partitions)
        if next_index < len(known.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=next_index)
            break
    return response


def _in_order(names: Iterable[str]) -> Generator[int, None, Iterator[str]]:
    """Sort the names, a part in each step; what this returns sorts on with each name."""
    left = iter(names)
    runs: list[list[str]] = []
    while run := sorted(islice(left, NAMES_PER_STEP)):
        runs.append(run)
        yield 0
    return merge(*runs)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except TopicError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe(
    services: Services, topic: TopicInfo, first: int, count_max: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _describe_partition(services, topic, info)
            for info in topic.partitions[first : first + count_max]
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe_partition(
    services: Services, topic: TopicInfo, info: PartitionInfo
) -> DescribeTopicPartitionsResponsePartition:
    led = services.partitions.leader(topic.name, info.partition, services.node_id)
    return DescribeTopicPartitionsResponsePartition(
        error_code=led.error_code,
        partition_index=info.partition,
        leader_id=led.leader_id,
        leader_epoch=info.leader_epoch,
        replica_nodes=[services.node_id],
        isr_nodes=[services.node_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=led.offline_replicas,
    )


def _refused_each(body: DescribeTopicPartitionsRequest, code: ErrorCode) -> Steps:
    response = DescribeTopicPartitionsResponse()
    for topic in body.topics:
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
        )
        yield 0
    return response


def error_response(request: Request, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    """Return an answer with `code` for each topic in the request."""
    response: DescribeTopicPartitionsResponse = finished(_refused_each(request.body, code))
    return response
