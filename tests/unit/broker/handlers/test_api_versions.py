"""ApiVersions: the list, and the answers to newer clients and to clients without a name."""

import pytest

from broker.handlers import HANDLERS
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask


def request(name: str = "client", version: str = "1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_lists_what_is_served(rig: Rig, version: int) -> None:
    response = await ask(rig, request(), version)
    assert response.error_code == 0
    listed = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    served = {row.api_key: (row.min_version, row.max_version) for row in HANDLERS}
    # KAFKA-18659: librdkafka takes a higher minimum for "no compression".
    assert listed == {**served, ApiKey.PRODUCE: (0, 13)}
    assert served[ApiKey.PRODUCE] == (3, 13)


async def test_a_newer_version_is_answered_with_the_versions_of_this_api_only(rig: Rig) -> None:
    # The dialect answers in version 0, whatever the request's version; this test encodes nothing.
    response = await rig.call(request(), 5)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (row,) = response.api_keys
    assert (row.api_key, row.min_version, row.max_version) == (ApiKey.API_VERSIONS, 0, 4)
    assert not response.supported_features
    assert not response.finalized_features


@pytest.mark.parametrize(
    ("name", "software_version", "is_valid"),
    [
        ("a", "1", True),
        ("apache-kafka-java", "4.3.0", True),
        ("a.b-c9", "1.2.3-x", True),
        ("", "", False),
        ("a", "", False),
        ("", "1", False),
        ("a b", "1", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a", "1.", False),
        ("ä", "1", False),
        ("a\n", "1", False),
        ("a", "1\n", False),
        ("a/b", "1", False),
    ],
)
async def test_names_of_clients(rig: Rig, name: str, software_version: str, is_valid: bool) -> None:
    """KIP-511: from version 3 on; older versions have no name."""
    for version in (3, 4):
        response = await ask(rig, request(name, software_version), version)
        if is_valid:
            assert response.error_code == 0
            assert response.api_keys
        else:
            assert response.error_code == ErrorCode.INVALID_REQUEST
            assert response.api_keys == []
    assert (await ask(rig, request(name, software_version), 2)).error_code == 0


async def test_features_are_only_those_whose_apis_are_served(rig: Rig) -> None:
    """The metadata log has Kafka's six levels, but share groups are not served."""
    features = {}
    for version in (2, 3, 4):
        response = await ask(rig, request(), version)
        features[version] = [row.name for row in response.supported_features]
        finalized = {row.name for row in response.finalized_features}
        assert ("group.version" in finalized) == (version >= 3)
        assert ("transaction.version" in finalized) == (version >= 3)
        assert "share.version" not in finalized
        if version >= 3:
            assert "metadata.version" in finalized
            assert response.finalized_features_epoch >= 0
    assert features[2] == []
    assert "metadata.version" in features[3]
    # KIP-1022: a feature whose minimum level is 0 is not shown to version 3.
    assert set(features[3]) <= set(features[4])
    levels = rig.services.controller.image.feature_levels
    assert levels["group.version"] == 1


async def test_the_epoch_of_features_follows_the_metadata_log(rig: Rig) -> None:
    before = (await ask(rig, request(), 4)).finalized_features_epoch
    await rig.services.topics.next_producer_ids()
    assert (await ask(rig, request(), 4)).finalized_features_epoch == before + 1
