"""CreatePartitions, API key 37, versions 0-3.

Behaviour
- Each topic grows to the requested count on its own. The answer comes when all new partitions are
  durable and can be produced to. Clients see them with their next Metadata.
- The count includes the existing partitions. The same count, or a smaller one, is refused:
  partitions cannot be removed.
- An assignment must name this broker once for each new partition, and have no other entries.
- A topic that is named twice is INVALID_REQUEST, and is answered once, before the others.
- `__transaction_state` does not grow: INVALID_REQUEST. Kafka's does, and loses ids.
- `validate_only` checks and creates nothing. `timeout_ms` is ignored: the wait for the disk has a
  bound of its own.
- A request may name any number of topics: it is handled in turns of the loop.

Version notes: 1 none, 2 flexible, 3 THROTTLING_QUOTA_EXCEEDED, where older versions throttle
the client after the change (KIP-599).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.growth import MorePartitions
from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import TRANSACTION_TOPIC, TopicError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_QUOTA_VERSION = 3
TOPICS_PER_TURN = 1_000


async def handle(request: Request, services: Services) -> Steps:
    """Add partitions to each topic; each has an outcome of its own."""
    body: CreatePartitionsRequest = request.body
    asked = await _asked_of(body)
    quota = None
    if (quotas := services.quotas.clients) is not None:
        quota = quotas.mutations(request, STRICT_QUOTA_VERSION)
    if body.validate_only:
        outcomes = await services.topics.validate_growth(asked, quota)
    else:
        outcomes = await services.topics.grow(asked, quota)
    return _answer(body, outcomes, 0 if quota is None else quota.throttle_ms())


def _answer(
    body: CreatePartitionsRequest, outcomes: Mapping[str, TopicInfo | TopicError], throttle_ms: int
) -> Steps:
    response = CreatePartitionsResponse(throttle_time_ms=throttle_ms)
    for topic in body.topics:
        if topic.name == TRANSACTION_TOPIC:
            message = f"{topic.name} does not grow: ids would change their place."
            response.results.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=message
                )
            )
        yield 0
    for name, outcome in outcomes.items():
        result = CreatePartitionsTopicResult(name=name)
        if isinstance(outcome, TopicError):
            result.error_code = outcome.code
            result.error_message = outcome.message or None
        response.results.append(result)
        yield 0
    return response


async def _asked_of(body: CreatePartitionsRequest) -> list[MorePartitions]:
    return [
        _asked(topic)
        async for topic in InTurns(body.topics, TOPICS_PER_TURN)
        if topic.name != TRANSACTION_TOPIC
    ]


def _asked(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]
    return MorePartitions(name=topic.name, count=topic.count, assignments=assignments)


def error_response(request: Request, code: ErrorCode) -> CreatePartitionsResponse:
    """Return an answer with `code` for each topic in the request."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=code.message
            )
            for topic in request.body.topics
        ]
    )
