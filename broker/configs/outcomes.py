"""What AlterConfigs and IncrementalAlterConfigs share: reading resources, and answering each.

Both answers use the same struct. A request may name any number of resources and keys: they are read
in turns of the loop, and answered in steps. `broker.configs.changes` decides what is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.configs.changes import Operation, Resource
from broker.metadata.topic_rules import TopicError
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)

KEYS_PER_TURN = 2_000

Asked = AlterConfigsResource | IncrementalResource


async def read(
    asked: Sequence[Asked], operation_of: Callable[[Any], Operation], *, replaces: bool
) -> list[Resource]:
    """Return the resources of a request; `operation_of` reads one of their configs."""
    steps = _read(asked, operation_of, replaces=replaces)
    return [one async for one in InTurns(steps, KEYS_PER_TURN) if one is not None]


def _read(
    asked: Sequence[Asked], operation_of: Callable[[Any], Operation], *, replaces: bool
) -> Iterator[Resource | None]:
    """Yield each resource, after None for each of its keys."""
    for one in asked:
        operations: list[Operation] = []
        for config in one.configs:
            operations.append(operation_of(config))
            yield None
        yield Resource(one.resource_type, one.resource_name, operations, replaces)


def answers(
    response: Any, resources: Sequence[Resource], outcomes: Sequence[TopicError | None]
) -> Steps:
    """Give `response` one row for each resource, and return it; None is success."""
    for resource, outcome in zip(resources, outcomes, strict=True):
        response.responses.append(
            AlterConfigsResourceResponse(
                error_code=outcome.code if outcome else 0,
                error_message=outcome.message if outcome else None,
                resource_type=resource.kind,
                resource_name=resource.name,
            )
        )
        yield 0
    return response


def refusals(resources: Sequence[Asked], code: ErrorCode) -> list[AlterConfigsResourceResponse]:
    """Return one row with `code` for each resource."""
    return [
        AlterConfigsResourceResponse(
            error_code=code,
            error_message=code.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]
