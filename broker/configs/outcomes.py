"""The answers of AlterConfigs and IncrementalAlterConfigs: one row for each resource.

Both answers use the same struct. `broker.configs.changes` decides which changes are valid.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.configs.changes import Resource
from broker.metadata.topic_rules import TopicError
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import AlterConfigsResource, AlterConfigsResourceResponse
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)


def answers(
    resources: Sequence[Resource], outcomes: Sequence[TopicError | None]
) -> list[AlterConfigsResourceResponse]:
    """Return one row for each resource; None is success."""
    return [
        AlterConfigsResourceResponse(
            error_code=outcome.code if outcome else 0,
            error_message=outcome.message if outcome else None,
            resource_type=resource.kind,
            resource_name=resource.name,
        )
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]


def refusals(
    resources: Sequence[AlterConfigsResource | IncrementalResource], code: ErrorCode
) -> list[AlterConfigsResourceResponse]:
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
