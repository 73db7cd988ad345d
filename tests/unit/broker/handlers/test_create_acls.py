"""CreateAcls: SECURITY_DISABLED for every rule, with Kafka 4.3.0's message."""

import pytest

from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.broker_rig import Rig

NUMBERS = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}


def rule(**changed: int) -> AclCreation:
    numbers = {**NUMBERS, **changed}
    return AclCreation(resource_name="t", principal="User:a", host="*", **numbers)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_security_is_disabled(rig: Rig, version: int, count: int) -> None:
    rules = [rule(operation=99)] * count
    answer = await rig.call(CreateAclsRequest(creations=rules), version)
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (54, "No Authorizer is configured.")
    ] * count


@pytest.mark.parametrize("name", NUMBERS)
async def test_an_unknown_element_closes_the_connection(rig: Rig, name: str) -> None:
    assert await rig.call(CreateAclsRequest(creations=[rule(), rule(**{name: 0})]), 3) is None
    assert rig.connection.refused == ["CreateAcls with an UNKNOWN element"]
