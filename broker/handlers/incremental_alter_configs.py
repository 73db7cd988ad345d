"""IncrementalAlterConfigs, API key 44, versions 0-1.

Behaviour
- SET, DELETE, and for lists APPEND and SUBTRACT: these work on what is set on the resource itself,
  or on Kafka's default where nothing is.
- Resources are topics, this broker by its number or all brokers as "", groups and subscriptions of
  client metrics. Each is checked by itself (`broker.configs.changes`); all that is good is recorded
  in one batch. The answer comes when that is durable and in effect. `validate_only` checks alone.

Not done: the levels of loggers (BROKER_LOGGER, 8) are refused as an unknown type is.
"""

from __future__ import annotations

from broker.configs.changes import Operation, Resource
from broker.configs.outcomes import answers, refusals
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(request: Request, services: Services) -> IncrementalAlterConfigsResponse:
    """Change each resource, with an outcome of its own."""
    body: IncrementalAlterConfigsRequest = request.body
    resources = [
        Resource(
            resource.resource_type,
            resource.resource_name,
            [
                Operation(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
        )
        for resource in body.resources
    ]
    outcomes = await services.configs.alter(resources, validate_only=body.validate_only)
    return IncrementalAlterConfigsResponse(responses=answers(resources, outcomes))


def error_response(request: Request, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """Return the answer that says `code` of every resource asked for."""
    return IncrementalAlterConfigsResponse(responses=refusals(request.body.resources, code))
