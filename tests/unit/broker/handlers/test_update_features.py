"""UpdateFeatures: refusals, with Kafka 4.3.0's messages, and the records written."""

from pathlib import Path

import pytest

from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.broker_rig import Rig


def update(feature: str, level: int, upgrade_type: int = 1, **fields: bool) -> FeatureUpdateKey:
    return FeatureUpdateKey(
        feature=feature, max_version_level=level, upgrade_type=upgrade_type, **fields
    )


async def test_a_refusal_covers_the_whole_request(rig: Rig) -> None:
    wanted = [update("metadata.version", 30), update("nope", 2)]
    for version in (0, 1, 2):
        answer = await rig.call(UpdateFeaturesRequest(feature_updates=wanted), version)
        assert (answer.error_code, answer.results) == (95, [])
        assert answer.error_message == (
            "The update failed for all features since the following feature had an error: "
            "Invalid update version 2 for feature nope. "
            "Local controller 1 does not support this feature."
        )


async def test_the_current_level_is_no_change(rig: Rig) -> None:
    end_offset = rig.services.controller.metadata_log.end_offset
    wanted = [update("metadata.version", 30)]
    answer = await rig.call(UpdateFeaturesRequest(feature_updates=wanted), 1)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(one.feature, one.error_code, one.error_message) for one in answer.results] == [
        ("metadata.version", 0, "NONE")
    ]
    assert rig.services.controller.metadata_log.end_offset == end_offset


async def test_a_change_is_validated_written_and_survives_a_restart(tmp_path: Path) -> None:
    """The level can be raised in a directory that an older Kafka made."""
    rig = Rig(tmp_path / "data")
    image = rig.services.controller.image
    image.feature_levels["metadata.version"] = 25
    wanted = [update("metadata.version", 29)]
    checked = await rig.call(UpdateFeaturesRequest(feature_updates=wanted, validate_only=True), 2)
    assert (checked.error_code, image.feature_levels["metadata.version"]) == (0, 25)
    made = await rig.call(UpdateFeaturesRequest(feature_updates=wanted), 2)
    assert (made.error_code, image.feature_levels["metadata.version"]) == (0, 29)
    assert await rig.close()
    again = Rig(tmp_path / "data")
    assert again.services.controller.image.feature_levels["metadata.version"] == 29
    assert await again.close()


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_empty_request(rig: Rig, version: int) -> None:
    answer = await rig.call(UpdateFeaturesRequest(), version)
    assert (answer.error_code, answer.error_message, answer.results) == (0, None, [])
