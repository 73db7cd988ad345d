"""AlterPartitionReassignments, API key 45, versions 0 and 1.

Behaviour
- A single broker cannot move a partition anywhere. Naming this broker succeeds and changes nothing,
  naming any other is INVALID_REPLICA_ASSIGNMENT, and cancelling a reassignment is
  NO_REASSIGNMENT_IN_PROGRESS. `broker.metadata.reassignment` has the rules, also for a directory
  that comes from a larger cluster.
- Each partition is decided on its own. A timeout of 0 or less is REQUEST_TIMED_OUT, as in Kafka.

Version notes: 1 a request may forbid changes of the replication factor (KIP-860).
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
    """Decide each reassignment, and wait until the changes are durable."""
    body: AlterPartitionReassignmentsRequest = request.body
    if not body.topics:
        return AlterPartitionReassignmentsResponse()  # with an empty message, not null, as in Kafka
    if body.timeout_ms <= 0:
        return error_response(request, ErrorCode.REQUEST_TIMED_OUT)
    responses = []
    records: dict[tuple[bytes, int], PartitionChangeRecord] = {}  # the last one for each partition
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
                if error.message != error.code.message:  # null stands for the code's own message
                    outcome.error_message = error.message
            outcomes.append(outcome)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    if any(not one.error_code for topic in responses for one in topic.partitions):
        await services.topics.record(list(records.values()))  # errors wait for nothing
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
    """Return an answer with `code` for the whole request and each partition in it."""
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
