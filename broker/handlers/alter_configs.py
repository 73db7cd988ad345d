"""AlterConfigs, API key 33, versions 0-2.

Behaviour
- A request replaces all configs of a resource: those that it does not name are removed. Clients
  prefer IncrementalAlterConfigs (KIP-339), which does not undo another client's change.
- Each resource is checked on its own (`broker.configs.changes`). All valid changes are recorded in
  one batch, and answered when they are durable and in effect. `validate_only` checks only.

Not done: loggers (BROKER_LOGGER, 8), which Kafka refuses here too.
"""

from __future__ import annotations

from broker.configs.changes import SET, Operation, Resource
from broker.configs.outcomes import answers, refusals
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
)


async def handle(request: Request, services: Services) -> AlterConfigsResponse:
    """Replace the configs of each resource; each has an outcome of its own."""
    body: AlterConfigsRequest = request.body
    resources = [
        Resource(
            resource.resource_type,
            resource.resource_name,
            [Operation(config.name, SET, config.value) for config in resource.configs],
            replaces=True,
        )
        for resource in body.resources
    ]
    outcomes = await services.configs.alter(resources, validate_only=body.validate_only)
    return AlterConfigsResponse(responses=answers(resources, outcomes))


def error_response(request: Request, code: ErrorCode) -> AlterConfigsResponse:
    """Return an answer with `code` for each resource in the request."""
    return AlterConfigsResponse(responses=refusals(request.body.resources, code))
