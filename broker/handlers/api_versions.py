"""ApiVersions, API key 18, versions 0-4.

Behaviour
- Lists every API that is served, with its versions: the rows of the handler table. Produce is
  listed from version 0, though 0 to 2 are not served: librdkafka takes a higher minimum to mean
  that the broker supports no compression (KAFKA-18659; Kafka does the same).
- A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the versions
  of this API only, as in Kafka, so that a newer client can ask again. The connection stays open.
- From version 3 on, a client's name and version must match the pattern of KIP-511.

Version notes: 1 throttle time, 3 flexible (its response header is not) and features (KIP-584),
4 features whose minimum version is 0 (KIP-1022).
"""

from __future__ import annotations

import re

from broker.metadata.features import finalized_features, supported_features
from broker.runtime.request import Request
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

VERSION_MAX = 4
CLIENT_INFO_VERSION = 3
CLIENT_INFO = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request, services: Services) -> ApiVersionsResponse:
    """Answer with the APIs and features that this broker serves."""
    body: ApiVersionsRequest = request.body
    version = request.header.api_version
    if not 0 <= version <= VERSION_MAX:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[row for row in services.api_versions if row.api_key == ApiKey.API_VERSIONS],
        )
    if version >= CLIENT_INFO_VERSION:
        if not (
            CLIENT_INFO.fullmatch(body.client_software_name)
            and CLIENT_INFO.fullmatch(body.client_software_version)
        ):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        request.info.introduce(body.client_software_name, body.client_software_version)
    request.info.name_client(request.header.client_id or "")
    levels = services.controller.image.feature_levels
    return ApiVersionsResponse(
        api_keys=services.api_versions,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, lowest, highest in supported_features(services.served_keys, version)
        ],
        finalized_features_epoch=services.controller.metadata_log.end_offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=highest, min_version_level=lowest)
            for name, highest, lowest in finalized_features(levels, services.served_keys)
        ],
    )


def error_response(request: Request, code: ErrorCode) -> ApiVersionsResponse:  # noqa: ARG001
    """Return an answer with `code` that lists no API."""
    return ApiVersionsResponse(error_code=code)
