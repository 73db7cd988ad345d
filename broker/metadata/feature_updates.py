"""Which changes of feature levels are allowed: Kafka's rules, with its texts.

Pure checks of one UpdateFeatures request, in the order of Kafka 4.3's
FeatureControlManager.updateFeature. The first feature that is refused refuses the request. A
feature that `broker.metadata.features` does not name as supported is unknown to this broker.

`metadata.version` is never lowered. Kafka refuses that too, except between two levels of which the
higher one added no new kind of record; no such step leads down from 4.3's own level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.metadata.features import METADATA_VERSION

# FeatureUpdate.UpgradeType in Kafka; on the wire: never renumber.
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdateError(Exception):
    """The requested level is not allowed. Kafka's code for it: INVALID_UPDATE_VERSION."""


class Update(NamedTuple):
    """A feature, the requested level, and the directions allowed."""

    feature: str
    level: int
    upgrade_type: int


def changed_levels(
    updates: Iterable[Update],
    levels: Mapping[str, int],
    supported: Mapping[str, tuple[int, int]],
    node_id: int,
) -> dict[str, int]:
    """Return the features whose level changes, with their new levels; 0 removes one.

    `levels` are those in force, `supported` the lowest and highest level of each feature known.
    Of two updates of a feature the last counts. Raises FeatureUpdateError.
    """
    changed = {}
    for update in {update.feature: update for update in updates}.values():
        _check(update, levels.get(update.feature, 0), supported, node_id)
        if update.level != levels.get(update.feature, 0):
            changed[update.feature] = update.level
    return changed


def _check(
    update: Update, current: int, supported: Mapping[str, tuple[int, int]], node_id: int
) -> None:
    feature, level, upgrade_type = update
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    if feature not in supported:
        if level == 0:
            raise _invalid(update, f"Feature {feature} not found.")
        raise _invalid(update, f"Local controller {node_id} does not support this feature.")
    lowest, highest = supported[feature]
    if not lowest <= level <= highest:
        raise _invalid(
            update, f"Local controller {node_id} only supports versions {lowest}-{highest}"
        )
    if level < current and upgrade_type == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > current and upgrade_type != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if level < current and feature == METADATA_VERSION:
        raise FeatureUpdateError(
            f"Unsupported metadata.version downgrade from {current} to {level}. "
            + (
                "Unsafe metadata downgrade is not supported in this version."
                if upgrade_type == UNSAFE_DOWNGRADE
                else "Refusing to perform the requested downgrade because it might delete "
                "metadata information."
            )
        )


def _invalid(update: Update, reason: str) -> FeatureUpdateError:
    return FeatureUpdateError(
        f"Invalid update version {update.level} for feature {update.feature}. {reason}"
    )
