"""ApiVersions, API key 18, versions 0 to 4: what the broker serves, APIs and features.

Version notes
- 0 to 2: the same request, an empty body. 1: the answer gains `throttle_time_ms`. From 2 on a
  throttled answer is sent before the pause, not after it.
- 3: the first flexible version; the client names itself (KIP-511). The answer's header stays
  version 0 for good, because a client reads it before it knows the broker's versions.
- 4: `supported_features` may hold a feature whose minimum is 0 (KAFKA-17011); such a feature is
  left out of the answers to 3 and below.

An asked version beyond the last one is answered with the body of version 0, error 35 and this
API's own range (KIP-511).

Source: ApiVersionsRequest.json and ApiVersionsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int16, Int32, Int64, Since, String, Tag, message, structure


@message(api_key=18, kind="request", versions=(0, 4), flexible_since=3)
@structure
class ApiVersionsRequest:
    """The question; from version 3 on, with the name and version of the client's library."""

    client_software_name: Annotated[String, Since(3)] = ""
    client_software_version: Annotated[String, Since(3)] = ""


@structure
class ApiVersion:
    """One served API and its range of versions, both ends inclusive."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@structure
class SupportedFeatureKey:
    """A feature and the levels that the broker could be set to, both ends inclusive."""

    name: Annotated[String, Since(3)]
    min_version: Annotated[Int16, Since(3)] = 0
    max_version: Annotated[Int16, Since(3)] = 0


@structure
class FinalizedFeatureKey:
    """A feature and the levels that are in force, both ends inclusive (highest first)."""

    name: Annotated[String, Since(3)]
    max_version_level: Annotated[Int16, Since(3)] = 0
    min_version_level: Annotated[Int16, Since(3)] = 0


@message(api_key=18, kind="response", versions=(0, 4), flexible_since=3)
@structure
class ApiVersionsResponse:
    """The answer: ranges of versions and, from 3 on, features (KIP-584).

    `finalized_features` mean something only while `finalized_features_epoch` is not -1.
    """

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Tag(0, since=3)] = field(
        default_factory=list
    )
    finalized_features_epoch: Annotated[Int64, Tag(1, since=3)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Tag(2, since=3)] = field(
        default_factory=list
    )
    zk_migration_ready: Annotated[Bool, Tag(3, since=3)] = False
