"""DeleteAcls, API key 31, versions 1 to 3: remove the rules that match.

Version notes
- 0 went with Apache Kafka 4.0. 1: the pattern type of a resource's name (KIP-290). 2: flexible.
- 3: the resource type user (KIP-48).

Source: DeleteAclsRequest.json and DeleteAclsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, String, message, structure

PATTERN_LITERAL = 3  # PatternType in Kafka


@structure
class DeleteAclsFilter:
    """Which rules to remove; null matches any."""

    resource_type_filter: Int8
    resource_name_filter: Annotated[String | None, Nullable()] = ""
    pattern_type_filter: Int8 = PATTERN_LITERAL
    principal_filter: Annotated[String | None, Nullable()] = ""
    host_filter: Annotated[String | None, Nullable()] = ""
    operation: Int8
    permission_type: Int8


@message(api_key=31, kind="request", versions=(1, 3), flexible_since=2)
@structure
class DeleteAclsRequest:
    """The filters, each on its own."""

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@structure
class DeleteAclsMatchingAcl:
    """A rule that matched, and the outcome of its removal."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = PATTERN_LITERAL
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@structure
class DeleteAclsFilterResult:
    """The rules that one filter matched."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@message(api_key=31, kind="response", versions=(1, 3), flexible_since=2)
@structure
class DeleteAclsResponse:
    """An outcome for every filter, in the order of the request."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)
