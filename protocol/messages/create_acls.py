"""CreateAcls, API key 30, versions 1 to 3: add access rules.

Version notes
- 0 went with Apache Kafka 4.0. 1: the pattern type of a resource's name (KIP-290). 2: flexible.
- 3: the resource type user (KIP-48).

Source: CreateAclsRequest.json and CreateAclsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, String, message, structure

PATTERN_LITERAL = 3  # PatternType in Kafka


@structure
class AclCreation:
    """A rule to add."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = PATTERN_LITERAL
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=30, kind="request", versions=(1, 3), flexible_since=2)
@structure
class CreateAclsRequest:
    """The rules to add, each on its own."""

    creations: list[AclCreation] = field(default_factory=list)


@structure
class AclCreationResult:
    """The outcome for one rule."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@message(api_key=30, kind="response", versions=(1, 3), flexible_since=2)
@structure
class CreateAclsResponse:
    """An outcome for every rule, in the order of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
