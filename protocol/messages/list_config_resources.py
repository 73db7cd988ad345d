"""ListConfigResources, API key 74, versions 0 and 1: names of what configs are set on.

Version notes
- 0 was ListClientMetricsResources (KIP-714). 1: the types to list, none for every one, and the type
  of each resource (KIP-1142). Flexible from the first.

Source: ListConfigResourcesRequest.json and ListConfigResourcesResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Since, String, message, structure


@message(api_key=74, kind="request", versions=(0, 1), flexible_since=0)
@structure
class ListConfigResourcesRequest:
    """The types (ConfigResource.Type) to list."""

    resource_types: Annotated[list[Int8], Since(1)] = field(default_factory=list)


@structure
class ConfigResource:
    """A resource; in version 0 always one of client metrics."""

    resource_name: String
    resource_type: Annotated[Int8, Since(1)] = 16


@message(api_key=74, kind="response", versions=(0, 1), flexible_since=0)
@structure
class ListConfigResourcesResponse:
    """Every resource there is of the types asked for."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
