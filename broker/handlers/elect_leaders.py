"""ElectLeaders, API key 43, versions 0-2.

Behaviour
- This broker leads all its partitions, so there is never anything to elect: ELECTION_NOT_NEEDED if
  the partition has the requested leader, UNKNOWN_TOPIC_OR_PARTITION if it does not exist.
- A partition from a larger cluster whose preferred replica is another broker, or which this broker
  cannot lead: PREFERRED_LEADER_NOT_AVAILABLE, or ELIGIBLE_LEADERS_NOT_AVAILABLE for an unclean
  election.
- If all partitions are requested (null), those that need no election are left out of their topic.
- A timeout of 0 or less is REQUEST_TIMED_OUT, as in Kafka.

Version notes: 0 elects the preferred replica and has no top-level error, 1 the type of election
(KIP-460), 2 flexible.
"""

from __future__ import annotations

from broker.metadata.image import PartitionInfo, TopicInfo
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED = 0  # ElectionType in Kafka: on the wire, never renumber
UNCLEAN = 1
NO_LEADER = -1


def handle(request: Request, services: Services) -> ElectLeadersResponse | Steps:
    """Answer for each partition why there is nothing to elect."""
    body: ElectLeadersRequest = request.body
    if body.topic_partitions is not None and not body.topic_partitions:
        return ElectLeadersResponse()
    if body.timeout_ms <= 0:
        return error_response(request, ErrorCode.REQUEST_TIMED_OUT)
    if body.election_type not in (PREFERRED, UNCLEAN):
        return _refuse(
            body, ErrorCode.INVALID_REQUEST, f"Unknown election type {body.election_type}"
        )
    return _outcomes(services, body)


def _outcomes(services: Services, body: ElectLeadersRequest) -> Steps:
    response = ElectLeadersResponse()
    results = response.replica_election_results
    if body.topic_partitions is None:
        for topic in services.topics.all():
            results.append(_every_partition(topic, body.election_type))
            yield 0
        return response
    for asked in body.topic_partitions:
        known = services.topics.by_name(asked.topic)
        result = ReplicaElectionResult(topic=asked.topic)
        results.append(result)
        yield len(asked.topic)
        for number in asked.partitions:
            outcome = _one_partition(known, asked.topic, number, body.election_type)
            result.partition_result.append(outcome)
            yield len(outcome.error_message or "")
    return response


def _every_partition(topic: TopicInfo, election_type: int) -> ReplicaElectionResult:
    outcomes = ((one.partition, _outcome(one, election_type)) for one in topic.partitions)
    return ReplicaElectionResult(
        topic=topic.name,
        partition_result=[
            PartitionResult(partition_id=number, error_code=code, error_message=code.message)
            for number, code in outcomes
            if code != ErrorCode.ELECTION_NOT_NEEDED
        ],
    )


def _one_partition(
    topic: TopicInfo | None, name: str, number: int, election_type: int
) -> PartitionResult:
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = f"No such topic as {name}"
    elif not 0 <= number < len(topic.partitions):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = f"No such partition as {name}-{number}"
    else:
        code = _outcome(topic.partitions[number], election_type)
        message = code.message
    return PartitionResult(partition_id=number, error_code=code, error_message=message)


def _outcome(partition: PartitionInfo, election_type: int) -> ErrorCode:
    if election_type == UNCLEAN:
        if partition.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    if partition.replicas and partition.leader == partition.replicas[0]:
        return ErrorCode.ELECTION_NOT_NEEDED
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def _refuse(
    body: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=code, error_message=message)
                    for number in asked.partitions
                ],
            )
            for asked in body.topic_partitions or ()
        ],
    )


def error_response(request: Request, code: ErrorCode) -> ElectLeadersResponse:
    """Return an answer with `code` for the whole request and each partition in it."""
    return _refuse(request.body, code, None)
