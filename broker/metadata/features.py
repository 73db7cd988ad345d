"""The features that ApiVersions names, with their supported and finalized levels.

A Kafka feature (KIP-584) promises a group of APIs: a Java client that sees `group.version` 1
finalized uses ConsumerGroupHeartbeat. So the broker names a feature only if it serves every API
that the feature promises. The metadata log still carries Kafka's six levels, because Kafka expects
them when it starts on the directory.

Supported ranges are Kafka 4.3's. Kafka names a feature whose lowest level is 0 only in version 4 of
the answer, because older clients reject a lowest level of 0 (KAFKA-17011). Pure functions.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_LATEST: Final = 30  # 4.3-IV0

# What Kafka 4.3's storage tool writes into a new directory, in its order.
BOOTSTRAP_LEVELS: Final[dict[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}

_ZERO_LOWEST_SINCE: Final = 4  # version of the ApiVersions answer


class Feature(NamedTuple):
    """A feature: the levels that Kafka 4.3 knows, and the keys of the APIs that it promises."""

    name: str
    lowest: int
    highest: int
    api_keys: tuple[int, ...]


FEATURES: Final = (
    Feature(METADATA_VERSION, 7, METADATA_VERSION_LATEST, ()),
    Feature("group.version", 0, 1, (68, 69)),  # KIP-848: ConsumerGroupHeartbeat, …Describe
    Feature("transaction.version", 0, 2, (22, 24, 26, 28)),  # KIP-890: InitProducerId … commits
    Feature("share.version", 0, 1, (76, 77, 78, 79)),  # KIP-932
    Feature("streams.version", 0, 1, (88, 89)),  # KIP-1071
    Feature("eligible.leader.replicas.version", 0, 1, (75,)),  # KIP-966: DescribeTopicPartitions
    Feature("kraft.version", 0, 1, (55, 80, 81)),  # KIP-853: DescribeQuorum, Add-, RemoveRaftVoter
)


class SupportedFeature(NamedTuple):
    """A row of SupportedFeatures."""

    name: str
    min_version: int
    max_version: int


class FinalizedFeature(NamedTuple):
    """A row of FinalizedFeatures; Kafka gives the level as both ends of the range."""

    name: str
    max_version_level: int
    min_version_level: int


def supported_features(served: Container[int], version: int) -> list[SupportedFeature]:
    """Return the features to list as supported in a version of the ApiVersions answer."""
    return [
        SupportedFeature(feature.name, feature.lowest, feature.highest)
        for feature in FEATURES
        if _is_served(feature, served) and (feature.lowest > 0 or version >= _ZERO_LOWEST_SINCE)
    ]


def finalized_features(levels: Mapping[str, int], served: Container[int]) -> list[FinalizedFeature]:
    """Return the features to list as finalized: those with a level whose APIs are served."""
    return [
        FinalizedFeature(feature.name, levels[feature.name], levels[feature.name])
        for feature in FEATURES
        if levels.get(feature.name) and _is_served(feature, served)
    ]


def _is_served(feature: Feature, served: Container[int]) -> bool:
    return all(api_key in served for api_key in feature.api_keys)
