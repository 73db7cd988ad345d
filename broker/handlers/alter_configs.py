"""AlterConfigs, API key 33, versions 0-2.

Behaviour
- A request replaces all configs of a resource: those that it does not name are removed. Clients
  prefer IncrementalAlterConfigs (KIP-339), which does not undo another client's change.
- Each resource is checked on its own (`broker.configs.changes`). All valid changes are recorded in
  one batch, and answered when they are durable and in effect. `validate_only` checks only.

Not done: loggers (BROKER_LOGGER, 8), which Kafka refuses here too.
"""

from __future__ import annotations

from broker.configs.changes import SET, Operation
from broker.configs.outcomes import answers, read, refusals
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResponse,
)


async def handle(request: Request, services: Services) -> Steps:
    """Replace the configs of each resource; each has an outcome of its own."""
    body: AlterConfigsRequest = request.body
    resources = await read(body.resources, _operation, replaces=True)
    outcomes = await services.configs.alter(resources, validate_only=body.validate_only)
    return answers(AlterConfigsResponse(), resources, outcomes)


def _operation(config: AlterableConfig) -> Operation:
    return Operation(config.name, SET, config.value)


def error_response(request: Request, code: ErrorCode) -> AlterConfigsResponse:
    """Return an answer with `code` for each resource in the request."""
    return AlterConfigsResponse(responses=refusals(request.body.resources, code))
