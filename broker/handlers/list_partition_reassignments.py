"""ListPartitionReassignments, API key 46, version 0.

Behaviour
- Lists the partitions whose records say that they are moving. Nothing moves here, so that is only
  what another Kafka left begun in the directory that we were given.
- Topics and partitions that do not exist, and those that are not moving, are left out.

kafka-topics asks this at every `--describe`.
"""

from __future__ import annotations

from collections.abc import Container

from broker.metadata.image import TopicInfo
from broker.metadata.reassignment import is_moving
from broker.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(request: Request, services: Services) -> ListPartitionReassignmentsResponse:
    """Answer what is moving."""
    body: ListPartitionReassignmentsRequest = request.body
    if body.topics is None:
        moving = [_moving(topic, range(len(topic.partitions))) for topic in services.topics.all()]
    else:
        moving = [
            _moving(topic, asked.partition_indexes)
            for asked in body.topics
            if (topic := services.topics.by_name(asked.name)) is not None
        ]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in moving if topic.partitions]
    )


def _moving(topic: TopicInfo, wanted: Container[int]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=partition.replicas,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
            )
            for partition in topic.partitions
            if partition.partition in wanted and is_moving(partition)
        ],
    )


def error_response(
    request: Request,  # noqa: ARG001
    code: ErrorCode,
) -> ListPartitionReassignmentsResponse:
    """Return the answer that says `code` of the whole request."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)
