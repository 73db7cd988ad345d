"""DescribeAcls, API key 29, versions 1 to 3: list access rules.

Version notes
- 0 went with Apache Kafka 4.0. 1: the pattern type of a resource's name (KIP-290). 2: flexible.
- 3: the resource type user (KIP-48).

Source: DescribeAclsRequest.json and DescribeAclsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, String, message, structure

PATTERN_LITERAL = 3  # PatternType in Kafka


@message(api_key=29, kind="request", versions=(1, 3), flexible_since=2)
@structure
class DescribeAclsRequest:
    """Which rules to list; null matches any."""

    resource_type_filter: Int8
    resource_name_filter: Annotated[String | None, Nullable()] = ""
    pattern_type_filter: Int8 = PATTERN_LITERAL
    principal_filter: Annotated[String | None, Nullable()] = ""
    host_filter: Annotated[String | None, Nullable()] = ""
    operation: Int8
    permission_type: Int8


@structure
class AclDescription:
    """A rule of one resource."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DescribeAclsResource:
    """A resource and its rules."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = PATTERN_LITERAL
    acls: list[AclDescription] = field(default_factory=list)


@message(api_key=29, kind="response", versions=(1, 3), flexible_since=2)
@structure
class DescribeAclsResponse:
    """The rules that match."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)
