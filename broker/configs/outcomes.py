"""What became of each resource of AlterConfigs or IncrementalAlterConfigs, as both answer it.

The rows of the two answers are one struct. Which changes are good is `broker.configs.changes`'s.
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
    """Say of each resource what became of it; None is success."""
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
    """Say `code` of each resource."""
    return [
        AlterConfigsResourceResponse(
            error_code=code,
            error_message=code.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]
