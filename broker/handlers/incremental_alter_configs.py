"""IncrementalAlterConfigs, API key 44, versions 0-1.

Behaviour
- Operations are SET, DELETE, and for lists APPEND and SUBTRACT. The latter two start from the value
  set on the resource itself, or else from Kafka's default.
- Resources are topics, this broker by its id or all brokers as "", groups, and client metrics
  subscriptions. Each is checked on its own (`broker.configs.changes`). The valid changes of 50
  resources at a time are recorded in one batch. The request is answered when all are durable and in
  effect. `validate_only` checks only.

Not done: logger levels (BROKER_LOGGER, 8) are refused like an unknown type.
"""

from __future__ import annotations

from broker.configs.changes import Operation
from broker.configs.outcomes import answers, read, refusals
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(request: Request, services: Services) -> Steps:
    """Change the configs of each resource; each has an outcome of its own."""
    body: IncrementalAlterConfigsRequest = request.body
    resources = await read(body.resources, _operation, replaces=False)
    outcomes = await services.configs.alter(resources, validate_only=body.validate_only)
    return answers(IncrementalAlterConfigsResponse(), resources, outcomes)


def _operation(config: AlterableConfig) -> Operation:
    return Operation(config.name, config.config_operation, config.value)


def error_response(request: Request, code: ErrorCode) -> IncrementalAlterConfigsResponse:
    """Return an answer with `code` for each resource in the request."""
    return IncrementalAlterConfigsResponse(responses=refusals(request.body.resources, code))
