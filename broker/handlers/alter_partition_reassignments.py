"""AlterPartitionReassignments, API key 45, versions 0 and 1.

Behaviour
- A single broker cannot move a partition anywhere. Naming this broker succeeds and changes nothing,
  naming any other is INVALID_REPLICA_ASSIGNMENT, and cancelling a reassignment is
  NO_REASSIGNMENT_IN_PROGRESS. `broker.metadata.reassignment` has the rules, also for a directory
  that comes from a larger cluster.
- Each partition is decided on its own, very many in turns of the loop. What changes a partition is
  decided again in the step that records it.
- A timeout of 0 or less is REQUEST_TIMED_OUT, as in Kafka.

Version notes: 1 a request may forbid changes of the replication factor (KIP-860).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker.metadata import reassignment
from broker.metadata.topic_rules import TopicError
from broker.runtime.request import Request
from broker.runtime.steps import Steps, finished
from broker.runtime.turns import InTurns
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

PARTITIONS_PER_TURN = 1_000


async def handle(
    request: Request, services: Services
) -> AlterPartitionReassignmentsResponse | Steps:
    """Decide each reassignment, and wait until the changes are durable."""
    body: AlterPartitionReassignmentsRequest = request.body
    if not body.topics:
        return AlterPartitionReassignmentsResponse()  # with an empty message, not null, as in Kafka
    if body.timeout_ms <= 0:
        return _refused_each(body, ErrorCode.REQUEST_TIMED_OUT)
    responses: list[ReassignableTopicResponse] = []
    changes: list[_Move] = []
    is_any_done = False
    async for move in InTurns(_moves(body, responses), PARTITIONS_PER_TURN):
        if move is None:
            continue
        if _decide(services, body, move) is not None:
            changes.append(move)
        elif not move.outcome.error_code:
            is_any_done = True
    # Decided again, and recorded in the same step: since its turn, a partition may have changed.
    records: dict[tuple[bytes, int], PartitionChangeRecord] = {}  # the last one for each partition
    for move in changes:
        record = _decide(services, body, move)
        if record is not None:
            records[record.topic_id, record.partition_id] = record
        is_any_done = is_any_done or not move.outcome.error_code
    if is_any_done:
        await services.topics.record(list(records.values()))  # errors wait for nothing
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


class _Move(NamedTuple):
    """A partition, its wanted replicas, and its row of the answer."""

    topic: str
    wanted: ReassignablePartition
    outcome: ReassignablePartitionResponse


def _moves(
    body: AlterPartitionReassignmentsRequest, responses: list[ReassignableTopicResponse]
) -> Iterator[_Move | None]:
    """Yield each partition, and None for each topic; give `responses` their rows."""
    for topic in body.topics:
        response = ReassignableTopicResponse(name=topic.name)
        responses.append(response)
        yield None
        for wanted in topic.partitions:
            outcome = ReassignablePartitionResponse(
                partition_index=wanted.partition_index, error_message=None
            )
            response.partitions.append(outcome)
            yield _Move(topic.name, wanted, outcome)


def _decide(
    services: Services, body: AlterPartitionReassignmentsRequest, move: _Move
) -> PartitionChangeRecord | None:
    """Return the record of a change, if one is needed, or note the error."""
    try:
        return _change(services, body, move.topic, move.wanted)
    except TopicError as error:
        move.outcome.error_code = error.code
        if error.message != error.code.message:  # null stands for the code's own message
            move.outcome.error_message = error.message
    return None


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


def _refused_each(body: AlterPartitionReassignmentsRequest, code: ErrorCode) -> Steps:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_code=code,
        error_message=None,
    )
    for move in _moves(body, response.responses):
        if move is not None:
            move.outcome.error_code = code
        yield 0
    return response


def error_response(request: Request, code: ErrorCode) -> AlterPartitionReassignmentsResponse:
    """Return an answer with `code` for the whole request and each partition in it."""
    response: AlterPartitionReassignmentsResponse = finished(_refused_each(request.body, code))
    return response
