"""IncrementalAlterConfigs, API key 44, versions 0 and 1: change single configs of resources.

Version notes
- Set, remove, and for lists add and take away, in one request (KIP-339). 1: flexible.

Source: IncrementalAlterConfigsRequest.json and IncrementalAlterConfigsResponse.json, Apache
Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.messages.alter_configs import AlterConfigsResourceResponse
from protocol.wire import Bool, Int8, Int32, Nullable, String, message, structure


@structure
class AlterableConfig:
    """A config and the operation on it: 0 set, 1 delete, 2 append, 3 subtract (AlterConfigOp)."""

    name: String
    config_operation: Int8 = 0
    value: Annotated[String | None, Nullable()] = ""


@structure
class AlterConfigsResource:
    """A resource (ConfigResource.Type) and the changes to it."""

    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig] = field(default_factory=list)


@message(api_key=44, kind="request", versions=(0, 1), flexible_since=1)
@structure
class IncrementalAlterConfigsRequest:
    """Resources to change, or with `validate_only` to check."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@message(api_key=44, kind="response", versions=(0, 1), flexible_since=1)
@structure
class IncrementalAlterConfigsResponse:
    """An answer for every resource of the request, in the form of AlterConfigs."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
