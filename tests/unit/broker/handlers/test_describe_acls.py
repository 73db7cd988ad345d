"""DescribeAcls: SECURITY_DISABLED, with Kafka 4.3.0's message."""

import pytest

from protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.broker_rig import Rig

ANY = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("changed", [{}, {"operation": 99}, {"pattern_type_filter": 2}])
async def test_security_is_disabled(rig: Rig, version: int, changed: dict[str, int]) -> None:
    answer = await rig.call(DescribeAclsRequest(**{**ANY, **changed}), version)
    assert (answer.error_code, answer.error_message, answer.resources) == (
        54,
        "No Authorizer is configured on the broker",
        [],
    )


@pytest.mark.parametrize(
    "name", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
async def test_an_unknown_element_closes_the_connection(rig: Rig, name: str) -> None:
    assert await rig.call(DescribeAclsRequest(**{**ANY, name: 0}), 3) is None
    assert rig.connection.refused == ["DescribeAcls with an UNKNOWN element"]
