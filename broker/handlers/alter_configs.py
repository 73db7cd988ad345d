"""AlterConfigs, API key 33, versions 0-2.

Behaviour
- What a request names for a resource is all that is set on it afterwards; the rest goes. Clients
  prefer IncrementalAlterConfigs (KIP-339), which no other client's change can get lost in.
- Each resource is checked by itself (`broker.configs.changes`); all that is good is recorded in one
  batch. The answer comes when that is durable and in effect. `validate_only` checks alone.

Not done: loggers (BROKER_LOGGER, 8), which Kafka refuses here, too.
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
    """Replace what is set on each resource, with an outcome of its own."""
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
    """Return the answer that says `code` of every resource asked for."""
    return AlterConfigsResponse(responses=refusals(request.body.resources, code))
