"""The features in ApiVersions, for the APIs that are served."""

import pytest

from broker.metadata.features import (
    BOOTSTRAP_LEVELS,
    FEATURES,
    finalized_features,
    supported_features,
)

EVERYTHING = frozenset(range(100))
DATA_ONLY = frozenset((0, 1, 2, 3, 18, 19, 20, 22, 23))

# What a Kafka 4.3.0 in KRaft mode answers (asked with versions 3 and 4 of ApiVersions).
KAFKA_V3 = {("metadata.version", 7, 30)}
KAFKA_V4 = {
    ("group.version", 0, 1),
    ("kraft.version", 0, 1),
    ("metadata.version", 7, 30),
    ("share.version", 0, 1),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
    ("eligible.leader.replicas.version", 0, 1),
}
KAFKA_FINALIZED = {
    ("group.version", 1, 1),
    ("streams.version", 1, 1),
    ("transaction.version", 2, 2),
    ("eligible.leader.replicas.version", 1, 1),
    ("share.version", 1, 1),
    ("metadata.version", 30, 30),
}


@pytest.mark.parametrize(
    ("name", "served", "version", "expected"),
    [
        ("all served, v4", EVERYTHING, 4, KAFKA_V4),
        ("all served, v3: none with a lowest level of 0", EVERYTHING, 3, KAFKA_V3),
        ("data only, v4", DATA_ONLY, 4, KAFKA_V3),
        ("data only, v0", DATA_ONLY, 0, KAFKA_V3),
        (
            "consumer groups as well",
            DATA_ONLY | {68, 69},
            4,
            {*KAFKA_V3, ("group.version", 0, 1)},
        ),
        (
            "topics by pages as well",
            DATA_ONLY | {75},
            4,
            {*KAFKA_V3, ("eligible.leader.replicas.version", 0, 1)},
        ),
        ("a quorum that can be described, not changed", DATA_ONLY | {55}, 4, KAFKA_V3),
        ("half of the groups' APIs promise nothing", DATA_ONLY | {68}, 4, KAFKA_V3),
    ],
)
def test_supported(name, served, version, expected):
    assert set(supported_features(served, version)) == expected, name


@pytest.mark.parametrize(
    ("name", "levels", "served", "expected"),
    [
        ("all served", BOOTSTRAP_LEVELS, EVERYTHING, KAFKA_FINALIZED),
        ("data only", BOOTSTRAP_LEVELS, DATA_ONLY, {("metadata.version", 30, 30)}),
        (
            "topics by pages as well",
            BOOTSTRAP_LEVELS,
            DATA_ONLY | {75},
            {("metadata.version", 30, 30), ("eligible.leader.replicas.version", 1, 1)},
        ),
        (
            "an older directory",
            {"metadata.version": 21},
            EVERYTHING,
            {("metadata.version", 21, 21)},
        ),
        ("level 0 is none", {"group.version": 0}, EVERYTHING, set()),
        ("a feature nobody knows", {"new.version": 3}, EVERYTHING, set()),
    ],
)
def test_finalized(name, levels, served, expected):
    assert set(finalized_features(levels, served)) == expected, name


def test_levels_of_a_new_directory_are_within_the_supported_ranges():
    ranges = {feature.name: (feature.lowest, feature.highest) for feature in FEATURES}
    for name, level in BOOTSTRAP_LEVELS.items():
        lowest, highest = ranges[name]
        assert lowest <= level <= highest, name
