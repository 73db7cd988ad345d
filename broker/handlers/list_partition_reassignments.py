"""ListPartitionReassignments, API key 46, version 0.

Behaviour
- Lists the partitions whose metadata records have a reassignment. This broker never starts one, so
  these are reassignments that Kafka left unfinished in the directory.
- Topics and partitions that do not exist, or have no reassignment, are left out.

kafka-topics sends this request at every `--describe`.
"""

from __future__ import annotations

from broker.metadata.image import TopicInfo
from broker.metadata.reassignment import is_moving
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(request: Request, services: Services) -> Steps:
    """List the reassignments."""
    body: ListPartitionReassignmentsRequest = request.body
    wanted: dict[str, set[int] | None] = {}
    if body.topics is None:
        wanted = {topic.name: None for topic in services.topics.all()}
    else:
        for asked in body.topics:
            numbers = wanted.setdefault(asked.name, set())
            assert numbers is not None, "all partitions are not asked for by name"
            numbers.update(asked.partition_indexes)
            yield 0
    response = ListPartitionReassignmentsResponse(error_message=None)
    for name, of in wanted.items():
        topic = services.topics.by_name(name)
        moving = [] if topic is None else _moving(topic, of)
        if moving:
            response.topics.append(OngoingTopicReassignment(name=name, partitions=moving))
        yield 0
    return response


def _moving(topic: TopicInfo, wanted: set[int] | None) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=partition.partition,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for partition in topic.partitions
        if is_moving(partition) and (wanted is None or partition.partition in wanted)
    ]


def error_response(
    request: Request,  # noqa: ARG001
    code: ErrorCode,
) -> ListPartitionReassignmentsResponse:
    """Return an answer with `code` for the whole request."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=code.message)
