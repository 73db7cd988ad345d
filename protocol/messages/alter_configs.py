"""AlterConfigs, API key 33, versions 0 to 2: replace everything that is set on a resource.

Version notes
- What a resource has and the request does not name is removed, so that clients prefer
  IncrementalAlterConfigs (KIP-339).
- 1: a throttled answer is sent before the pause (KIP-219). 2: flexible.

Source: AlterConfigsRequest.json and AlterConfigsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int8, Int16, Int32, Nullable, String, message, structure


@structure
class AlterableConfig:
    """A config and its new value."""

    name: String
    value: Annotated[String | None, Nullable()] = ""


@structure
class AlterConfigsResource:
    """A resource (ConfigResource.Type) and the complete set of its new values."""

    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig] = field(default_factory=list)


@message(api_key=33, kind="request", versions=(0, 2), flexible_since=2)
@structure
class AlterConfigsRequest:
    """Resources to set, or with `validate_only` to check."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: Bool = False


@structure
class AlterConfigsResourceResponse:
    """The outcome for one resource. `error_message` is null, and not empty, without an error."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    resource_type: Int8
    resource_name: String


@message(api_key=33, kind="response", versions=(0, 2), flexible_since=2)
@structure
class AlterConfigsResponse:
    """An answer for every resource of the request."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
