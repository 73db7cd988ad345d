"""UpdateFeatures, API key 57, versions 0-2.

Behaviour
- Either all changes are made or none; `broker.metadata.feature_updates` has the rules. A refusal is
  INVALID_UPDATE_VERSION, with the first reason.
- Only features that ApiVersions lists as supported here are known.
- Setting the current level succeeds and writes nothing.

Version notes: 0 has only upgrades: its `allow_downgrade` is ignored, as in Kafka. 1 the upgrade
type, and `validate_only` (KIP-778). Up to 1, a success has a row for each feature. 2 has one
outcome for all (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.feature_updates import FeatureUpdateError, Update, changed_levels
from broker.metadata.features import supported_features
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from protocol.metadata_records import FeatureLevelRecord

ALL_FEATURES_VERSION = 4  # of ApiVersions: the first that lists features with a minimum level of 0
REFUSED = "The update failed for all features since the following feature had an error: "
UPDATES_PER_TURN = 1_000


async def handle(request: Request, services: Services) -> UpdateFeaturesResponse | Steps:
    """Check the changes; unless `validate_only`, make them and wait until they are durable."""
    body: UpdateFeaturesRequest = request.body
    supported = {
        feature.name: (feature.min_version, feature.max_version)
        for feature in supported_features(services.served_keys, ALL_FEATURES_VERSION)
    }
    updates = await _updates(body)
    try:
        changed = changed_levels(
            updates.values(),
            services.controller.image.feature_levels,
            supported,
            services.node_id,
        )
    except FeatureUpdateError as error:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=f"{REFUSED}{error}"
        )
    if not body.validate_only:
        await services.topics.record(
            [FeatureLevelRecord(name=name, feature_level=level) for name, level in changed.items()]
        )
    return _answer(body)


async def _updates(body: UpdateFeaturesRequest) -> Mapping[str, Update]:
    """Return the last update of each feature, which counts."""
    updates: dict[str, Update] = {}
    async for one in InTurns(body.feature_updates, UPDATES_PER_TURN):
        updates[one.feature] = Update(one.feature, one.max_version_level, one.upgrade_type)
    return updates


def _answer(body: UpdateFeaturesRequest) -> Steps:
    response = UpdateFeaturesResponse(error_message=None)
    for update in body.feature_updates:
        response.results.append(
            UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name)
        )
        yield 0
    return response


def error_response(request: Request, code: ErrorCode) -> UpdateFeaturesResponse:  # noqa: ARG001
    """Return an answer with `code` for the whole request."""
    return UpdateFeaturesResponse(error_code=code, error_message=code.message)
