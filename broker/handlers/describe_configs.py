"""DescribeConfigs, API key 32, versions 1-4.

Behaviour
- A topic has every topic key. A broker has every key that Kafka 4.3 shows, and our own. Each has
  its default, source and synonyms in Kafka's order (`broker.configs.rows`). Internal keys are not
  shown.
- Broker "" has the dynamic cluster-wide configs. The id of another broker is refused.
- A group has the group keys, a client metrics subscription its own keys. Neither need exist.
- `configuration_keys` selects keys. Null and empty select all; unknown keys are left out silently.
- A resource that is named again with the same keys is answered once.
- Keys that may be secrets, and unknown keys, have null values.

Version notes: 3 types and documentation (ours, not Kafka's text), 4 flexible.

Not done: logger levels (BROKER_LOGGER, 8) are refused like an unknown type.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from broker.configs.changes import CLIENT_METRICS, GROUP, broker_number
from broker.configs.rows import Row
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from broker.metadata.topic_rules import TopicError, check_name
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

KEYS_PER_STEP = 2_000


def handle(request: Request, services: Services) -> Steps:
    """Describe each resource; each has an outcome of its own."""
    body: DescribeConfigsRequest = request.body
    response = DescribeConfigsResponse()
    answered: set[tuple[int, str, frozenset[str]]] = set()
    for resource in body.resources:
        keys = yield from _keys(resource.configuration_keys or ())
        place = (resource.resource_type, resource.resource_name, keys)
        if place in answered:
            yield 0
            continue
        answered.add(place)
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            rows = _rows(resource, services)
        except TopicError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            result.configs = [_result(row, body) for row in rows if not keys or row.name in keys]
        response.results.append(result)
        yield sum(map(_size, result.configs))
    return response


def _keys(names: Sequence[str]) -> Generator[int, None, frozenset[str]]:
    keys: set[str] = set()
    for start in range(0, len(names), KEYS_PER_STEP):
        keys.update(names[start : start + KEYS_PER_STEP])
        if start:
            yield 0
    return frozenset(keys)


def _rows(resource: DescribeConfigsResource, services: Services) -> Sequence[Row]:
    kind, name = resource.resource_type, resource.resource_name
    if kind == CONFIG_TOPIC:
        check_name(name)
        topic = services.topics.by_name(name)
        if topic is None:
            raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")  # with Kafka's empty message
        return services.configs.topic(topic)
    if kind == CONFIG_BROKER:
        return _broker_rows(name, services)
    if kind == GROUP:
        if not name:
            raise TopicError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return services.configs.group(name)
    if kind == CLIENT_METRICS:
        if not name:
            raise TopicError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        return services.configs.client_metrics(name)
    raise TopicError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _broker_rows(name: str, services: Services) -> Sequence[Row]:
    if not name:
        return services.configs.cluster()
    try:
        number = broker_number(name)
    except ValueError:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        ) from None
    if number != services.node_id:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.node_id} or empty string, but received"
            f" {name}",
        )
    return services.configs.broker()


def _result(row: Row, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.is_read_only,
        config_source=row.source,
        is_sensitive=row.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=entry.name, value=entry.value, source=entry.source)
            for entry in (row.synonyms if body.include_synonyms else ())
        ],
        config_type=row.kind,
        documentation=row.documentation if body.include_documentation else None,
    )


def _size(result: DescribeConfigsResourceResult) -> int:
    """Return about how many bytes a row takes: its text, and a constant for the rest."""
    size = len(result.name) + len(result.value or "") + len(result.documentation or "") + 16
    return size + sum(len(one.name) + len(one.value or "") + 8 for one in result.synonyms)


def error_response(request: Request, code: ErrorCode) -> DescribeConfigsResponse:
    """Return an answer with `code` for each resource in the request."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=code.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.body.resources
        ]
    )
