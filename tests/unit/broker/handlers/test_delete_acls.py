"""DeleteAcls: what each filter deleted, and Kafka's refusals; SECURITY_DISABLED without ACLs."""

import pytest

from broker.handlers import delete_acls
from broker.security.acl.acl_codes import AclOperation, ResourceType
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.acl_entries import ALICE, HOST, acl
from tests.support.broker_rig import Rig

NUMBERS = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
TEXTS = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}


def one(**changed: object) -> DeleteAclsFilter:
    return DeleteAclsFilter(**{**NUMBERS, **TEXTS, **changed})  # type: ignore[arg-type]


@pytest.fixture
async def filled(guarded_rig: Rig) -> Rig:
    assert guarded_rig.services.acls is not None
    entries = [acl(), acl(name="ord", prefixed=True), acl("group", "g"), acl(principal="User:bob")]
    await guarded_rig.services.acls.create(entries, "User:admin")
    return guarded_rig


async def outcomes(rig: Rig, *filters: DeleteAclsFilter) -> list[tuple[int, str | None, int]]:
    answer = await rig.call(DeleteAclsRequest(filters=list(filters)), 3)
    return [
        (each.error_code, each.error_message, len(each.matching_acls))
        for each in answer.filter_results
    ]


def left(rig: Rig) -> int:
    return len(rig.services.controller.image.acls)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_security_is_disabled(rig: Rig, version: int, count: int) -> None:
    answer = await rig.call(DeleteAclsRequest(filters=[one()] * count), version)
    assert [(each.error_code, each.error_message) for each in answer.filter_results] == [
        (54, "No Authorizer is configured.")
    ] * count


@pytest.mark.parametrize("name", NUMBERS)
async def test_an_unknown_element_closes_the_connection(filled: Rig, name: str) -> None:
    filters = [one(), one(**{name: 0})]
    assert await filled.call(DeleteAclsRequest(filters=filters), 3) is None
    assert filled.connection.refused == ["DeleteAcls with an UNKNOWN element"]
    assert left(filled) == 4


async def test_it_answers_what_it_deleted(filled: Rig) -> None:
    wanted = one(resource_type_filter=2, resource_name_filter="orders", principal_filter=ALICE)
    answer = await filled.call(DeleteAclsRequest(filters=[wanted]), 3)
    (result,) = answer.filter_results
    (gone,) = result.matching_acls
    assert (result.error_code, result.error_message) == (0, None)
    assert (gone.error_code, gone.error_message) == (0, None)
    assert (gone.resource_type, gone.resource_name, gone.pattern_type) == (2, "orders", 3)
    assert (gone.principal, gone.host, gone.operation, gone.permission_type) == (ALICE, "*", 3, 3)
    assert left(filled) == 3


async def test_the_right_is_gone_with_the_answer(filled: Rig) -> None:
    authorizer = filled.services.authorizer
    assert authorizer is not None
    asked = (ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "orders")
    assert authorizer.allows(*asked)
    await outcomes(filled, one(principal_filter=ALICE))
    assert not authorizer.allows(*asked)


async def test_each_filter_has_its_outcome(filled: Rig) -> None:
    assert await outcomes(
        filled,
        one(resource_name_filter="g"),
        one(resource_type_filter=3),
        one(resource_name_filter="nix"),
        one(operation=99),
        one(permission_type=99),
        one(resource_type_filter=99),
        one(pattern_type_filter=99),
    ) == [
        (0, None, 1),
        (0, None, 1),  # the same one
        (0, None, 0),
        (42, "Unknown entryFilter.", 0),
        (42, "Unknown entryFilter.", 0),
        (42, "Unknown patternFilter.", 0),
        (42, "Unknown patternFilter.", 0),
    ]
    assert left(filled) == 3


async def test_a_match_finds_prefixes(filled: Rig) -> None:
    assert await outcomes(filled, one(resource_name_filter="orders", pattern_type_filter=2)) == [
        (0, None, 3)
    ]
    assert left(filled) == 1


async def test_too_many_are_refused_and_none_is_deleted(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_acls, "RECORDS_PER_REQUEST_MAX", 3)
    answers = await outcomes(filled, one(resource_name_filter="g"), one())
    assert answers == [(42, delete_acls.TOO_MANY, 0)] * 2
    assert left(filled) == 4


async def test_an_answer_that_would_be_too_large_is_refused(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_acls, "ANSWER_BYTES_MAX", 300)
    answers = await outcomes(filled, *[one()] * 5)
    assert {code for code, _, _ in answers} == {42}
    assert left(filled) == 4
