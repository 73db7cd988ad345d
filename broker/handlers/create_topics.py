"""CreateTopics, API key 19, versions 2-7.

Behaviour
- Each topic is checked and created on its own. The answer comes when all are durable.
- `num_partitions` and `replication_factor` -1 mean the broker's defaults (KIP-464, for clients
  from version 4 on; Kafka accepts them in older versions too). An assignment must name this broker
  once for each partition.
- A config that is given twice has its last value. One that is null anywhere is refused.
- A replication factor other than 1 is refused, since there is one broker, unless
  `barnabas.replication.factor.clamp` is on.
- `validate_only` checks and creates nothing.
- A request may name any number of topics: it is handled in turns of the loop.

Version notes: 4 defaults, 5 configs in the answer (KIP-525) and flexible, 6
THROTTLING_QUOTA_EXCEEDED, where older versions throttle the client after the change (KIP-599), 7
topic ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CONFIGS_VERSION = 5
STRICT_QUOTA_VERSION = 6
TOPICS_PER_TURN = 1_000


async def handle(request: Request, services: Services) -> Steps:
    """Create each topic; each has an outcome of its own."""
    body: CreateTopicsRequest = request.body
    wanted = await _wanted(body)
    quota = None
    if (quotas := services.quotas.clients) is not None:
        quota = quotas.mutations(request, STRICT_QUOTA_VERSION)
    if body.validate_only:
        outcomes = await services.topics.validate(wanted, quota)
    else:
        outcomes = await services.topics.create(wanted, quota)
    return _answered(request, services, outcomes, 0 if quota is None else quota.throttle_ms())


def _answered(
    request: Request,
    services: Services,
    outcomes: Mapping[str, TopicInfo | TopicError],
    throttle_ms: int,
) -> Steps:
    with_configs = request.header.api_version >= CONFIGS_VERSION
    response = CreateTopicsResponse(throttle_time_ms=throttle_ms)
    for name, outcome in outcomes.items():
        result = CreatableTopicResult(name=name, error_message=None)
        if isinstance(outcome, TopicError):
            result.error_code = outcome.code
            result.error_message = outcome.message or None
        else:
            _describe(services, result, outcome, with_configs=with_configs)
        response.topics.append(result)
        yield 0
    return response


async def _wanted(body: CreateTopicsRequest) -> list[NewTopic]:
    return [_new_topic(topic) async for topic in InTurns(body.topics, TOPICS_PER_TURN)]


def _new_topic(topic: CreatableTopic) -> NewTopic:
    # Nulls last, so that the value before or after one does not hide it.
    configs = sorted(topic.configs, key=lambda config: config.value is None)
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(given.partition_index, given.broker_ids) for given in topic.assignments],
        configs={config.name: config.value for config in configs},
    )


def _describe(
    services: Services, result: CreatableTopicResult, topic: TopicInfo, *, with_configs: bool
) -> None:
    result.topic_id = topic.topic_id
    result.num_partitions = len(topic.partitions)
    result.replication_factor = 1
    if not with_configs:
        return
    result.configs = [
        CreatableTopicConfigs(
            name=row.name,
            value=row.value,
            read_only=row.is_read_only,
            config_source=row.effective_source,
            is_sensitive=row.is_sensitive,
        )
        for row in services.configs.topic(topic)
    ]


def error_response(request: Request, code: ErrorCode) -> CreateTopicsResponse:
    """Return an answer with `code` for each topic in the request."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=code.message)
            for topic in request.body.topics
        ]
    )
