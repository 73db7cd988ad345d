"""DescribeAcls: the ACLs that match, by resource; SECURITY_DISABLED without an authorizer."""

import pytest

from broker.handlers import describe_acls
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.acl_entries import acl
from tests.support.broker_rig import Rig

NUMBERS = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
TEXTS = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}


def asked(**changed: object) -> DescribeAclsRequest:
    return DescribeAclsRequest(**{**NUMBERS, **TEXTS, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_security_is_disabled(rig: Rig, version: int) -> None:
    answer = await rig.call(asked(), version)
    assert (answer.error_code, answer.error_message, answer.resources) == (
        54,
        "No Authorizer is configured on the broker",
        [],
    )


@pytest.mark.parametrize("name", NUMBERS)
async def test_an_unknown_element_closes_the_connection(guarded_rig: Rig, name: str) -> None:
    assert await guarded_rig.call(asked(**{name: 0}), 3) is None
    assert guarded_rig.connection.refused == ["DescribeAcls with an UNKNOWN element"]


@pytest.fixture
async def filled(guarded_rig: Rig) -> Rig:
    assert guarded_rig.services.acls is not None
    await guarded_rig.services.acls.create(
        [
            acl(),
            acl(operation=AclOperation.WRITE, deny=True, host="10.0.0.1"),
            acl(name="ord", prefixed=True),
            acl("group", "orders", principal="User:*"),
        ],
        "User:admin",
    )
    return guarded_rig


async def test_all_of_them_are_grouped_by_resource(filled: Rig) -> None:
    answer = await filled.call(asked(), 3)
    assert (answer.error_code, answer.error_message) == (0, "")
    found = {
        (one.resource_type, one.resource_name, one.pattern_type): sorted(
            (each.principal, each.host, each.operation, each.permission_type) for each in one.acls
        )
        for one in answer.resources
    }
    assert found == {
        (2, "orders", 3): [("User:alice", "*", 3, 3), ("User:alice", "10.0.0.1", 4, 2)],
        (2, "ord", 4): [("User:alice", "*", 3, 3)],
        (3, "orders", 3): [("User:*", "*", 3, 3)],
    }
    assert len(answer.resources) == len(found)


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({"resource_name_filter": "orders"}, 3),
        ({"resource_name_filter": "orders", "pattern_type_filter": 2}, 4),
        ({"resource_name_filter": "orders", "pattern_type_filter": 3}, 3),
        ({"resource_type_filter": 2, "resource_name_filter": "orders"}, 2),
        ({"pattern_type_filter": 4}, 1),
        ({"principal_filter": "User:*"}, 1),
        ({"principal_filter": ""}, 0),
        ({"host_filter": "10.0.0.1"}, 1),
        ({"operation": 4}, 1),
        ({"operation": 2}, 0),
        ({"permission_type": 2}, 1),
        ({"resource_type_filter": 99}, 0),
        ({"operation": 99}, 0),
        ({"pattern_type_filter": 99}, 0),
    ],
)
async def test_a_filter(filled: Rig, changed: dict[str, object], count: int) -> None:
    answer = await filled.call(asked(**changed), 3)
    assert answer.error_code == 0
    assert sum(len(one.acls) for one in answer.resources) == count


async def test_a_long_answer_is_made_in_steps(filled: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_acls, "SHOWN_PER_STEP", 1)
    answer = await filled.call(asked(), 3)
    assert sum(len(one.acls) for one in answer.resources) == 4
