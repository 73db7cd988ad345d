"""DeleteAcls: SECURITY_DISABLED for every filter, with Kafka 4.3.0's message."""

import pytest

from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.broker_rig import Rig

ANY = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_security_is_disabled(rig: Rig, version: int, count: int) -> None:
    filters = [DeleteAclsFilter(**ANY)] * count
    answer = await rig.call(DeleteAclsRequest(filters=filters), version)
    assert [
        (one.error_code, one.error_message, one.matching_acls) for one in answer.filter_results
    ] == [(54, "No Authorizer is configured.", [])] * count


@pytest.mark.parametrize("name", ANY)
async def test_an_unknown_element_closes_the_connection(rig: Rig, name: str) -> None:
    filters = [DeleteAclsFilter(**ANY), DeleteAclsFilter(**{**ANY, name: 0})]
    assert await rig.call(DeleteAclsRequest(filters=filters), 3) is None
    assert rig.connection.refused == ["DeleteAcls with an UNKNOWN element"]
