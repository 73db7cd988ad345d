"""UpdateFeatures, API key 57, versions 0 to 2: raise or lower the levels of the cluster's features.

Version notes
- 1: the kind of change in place of `allow_downgrade`, and `validate_only` (KIP-584, KIP-778).
- 2: one outcome for all, in place of one a feature (KIP-1022).

Source: UpdateFeaturesRequest.json and UpdateFeaturesResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import (
    Bool,
    Int8,
    Int16,
    Int32,
    Nullable,
    Since,
    String,
    Until,
    message,
    structure,
)


@structure
class FeatureUpdateKey:
    """A feature and its new level; 0 removes it.

    `upgrade_type` is 1 for upgrades only, 2 for downgrades without loss, 3 for any downgrade.
    """

    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, Until(0)] = False
    upgrade_type: Annotated[Int8, Since(1)] = 1


@message(api_key=57, kind="request", versions=(0, 2), flexible_since=0)
@structure
class UpdateFeaturesRequest:
    """The changes to make, or only to check."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: Annotated[Bool, Since(1)] = False


@structure
class UpdatableFeatureResult:
    """The outcome for one feature."""

    feature: String
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@message(api_key=57, kind="response", versions=(0, 2), flexible_since=0)
@structure
class UpdateFeaturesResponse:
    """The outcome of the request; up to version 1 also of each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    results: Annotated[list[UpdatableFeatureResult], Until(1)] = field(default_factory=list)
