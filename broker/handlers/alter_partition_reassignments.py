"""AlterPartitionReassignments, API key 45, versions 0 and 1.

Behaviour
- One broker has nowhere to move a partition to: naming this broker succeeds and changes nothing,
  naming any other is INVALID_REPLICA_ASSIGNMENT, and taking a move back is
  NO_REASSIGNMENT_IN_PROGRESS. `broker.metadata.reassignment` has the rules, and what is left to
  do in a directory that comes from a larger cluster.
- Each partition is decided on its own; a timeout of 0 or less is REQUEST_TIMED_OUT, as in Kafka.

Version notes: 1 a request may forbid that the number of replicas changes (KIP-860).
"""

from __future__ import annotations

from broker.metadata import reassignment
from broker.metadata.topic_rules import TopicError
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from protocol.metadata_records import PartitionChangeRecord


async def handle(request: Request, services: Services) -> AlterPartitionReassignmentsResponse:
    """Decide every move, and wait until what changed is durable."""
    body: AlterPartitionReassignmentsRequest = request.body
    if not body.topics:
        return AlterPartitionReassignmentsResponse()  # its message is empty, not null: as Kafka's
    if body.timeout_ms <= 0:
        return error_response(request, ErrorCode.REQUEST_TIMED_OUT)
    responses = []
    records: dict[tuple[bytes, int], PartitionChangeRecord] = {}  # the last word on a partition
    for topic in body.topics:
        outcomes = []
        for wanted in topic.partitions:
            outcome = ReassignablePartitionResponse(
                partition_index=wanted.partition_index, error_message=None
            )
            try:
                record = _change(services, body, topic.name, wanted)
                if record is not None:
                    records[record.topic_id, record.partition_id] = record
            except TopicError as error:
                outcome.error_code = error.code
                if error.message != error.code.message:  # null is Kafka's word for "its usual one"
                    outcome.error_message = error.message
            outcomes.append(outcome)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    if records:
        await services.topics.record(list(records.values()))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _change(
    services: Services,
    body: AlterPartitionReassignmentsRequest,
    name: str,
    wanted: ReassignablePartition,
) -> PartitionChangeRecord | None:
    topic = services.topics.by_name(name)
    partition = reassignment.find_partition(topic, name, wanted.partition_index)
    assert topic is not None, "find_partition refuses a missing topic"
    node_id = services.node_id
    replicas = wanted.replicas
    if replicas is None:
        replicas = reassignment.kept_replicas(partition, node_id)
    else:
        reassignment.check_target(
            partition,
            replicas,
            node_id,
            is_led=services.controller.leads(topic, partition.partition),
            may_change_factor=body.allow_replication_factor_change,
        )
    return reassignment.change(topic, partition, replicas)


def error_response(request: Request, code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    """Return the answer that says `code` of the whole request and of every partition in it."""
    body: AlterPartitionReassignmentsRequest = request.body
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=code,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=code,
                        error_message=None,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ],
    )
