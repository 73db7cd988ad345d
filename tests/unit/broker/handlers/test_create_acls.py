"""CreateAcls: Kafka 4.3.0's answers to good and bad ACLs, and to each without an authorizer."""

import pytest

from broker.handlers import create_acls
from broker.security.acl.acl_codes import AclOperation, ResourceType
from protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.broker_rig import Rig

NUMBERS = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
NO_COLON = "(no colon is present separating the principal type from the principal name)"


def rule(**changed: object) -> AclCreation:
    texts = {"resource_name": "t", "principal": "User:a", "host": "*"}
    return AclCreation(**{**NUMBERS, **texts, **changed})  # type: ignore[arg-type]


async def outcomes(rig: Rig, *rules: AclCreation) -> list[tuple[int, str | None]]:
    answer = await rig.call(CreateAclsRequest(creations=list(rules)), 3)
    return [(one.error_code, one.error_message) for one in answer.results]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2])
async def test_security_is_disabled(rig: Rig, version: int, count: int) -> None:
    rules = [rule(operation=99)] * count
    answer = await rig.call(CreateAclsRequest(creations=rules), version)
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (54, "No Authorizer is configured.")
    ] * count


@pytest.mark.parametrize("name", NUMBERS)
async def test_an_unknown_element_closes_the_connection(guarded_rig: Rig, name: str) -> None:
    rules = [rule(), rule(**{name: 0})]
    assert await guarded_rig.call(CreateAclsRequest(creations=rules), 3) is None
    assert guarded_rig.connection.refused == ["CreateAcls with an UNKNOWN element"]
    assert len(guarded_rig.services.controller.image.acls) == 0


async def test_an_unknown_element_closes_the_connection_without_an_authorizer(rig: Rig) -> None:
    assert await rig.call(CreateAclsRequest(creations=[rule(operation=0)]), 3) is None
    assert rig.connection.refused == ["CreateAcls with an UNKNOWN element"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            {"resource_type": 4, "resource_name": ""},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 99, "resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 99, "principal": "x"}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"operation": -5}, "Invalid operation UNKNOWN"),
        ({"operation": 99, "principal": "x"}, "Invalid operation UNKNOWN"),
        ({"permission_type": 99}, "Invalid permissionType UNKNOWN"),
        ({"principal": "alice"}, f"Could not parse principal from `alice` {NO_COLON}"),
        ({"principal": ""}, f"Could not parse principal from `` {NO_COLON}"),
    ],
)
async def test_a_bad_acl_is_refused_with_kafkas_text(
    guarded_rig: Rig, changed: dict[str, object], text: str
) -> None:
    answers = await outcomes(guarded_rig, rule(), rule(**changed), rule(resource_name="u"))
    assert answers == [(0, ""), (42, text), (0, "")]
    assert len(guarded_rig.services.controller.image.acls) == 2


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"resource_type": 1}, "resourceType ANY"),
        ({"resource_pattern_type": 1}, "patternType ANY"),
        ({"resource_pattern_type": 2}, "patternType MATCH"),
        ({"operation": 1}, "operation ANY"),
        ({"permission_type": 1}, "permissionType ANY"),
    ],
)
async def test_what_belongs_to_filters_is_refused(
    guarded_rig: Rig, changed: dict[str, object], word: str
) -> None:
    (code, text), other = await outcomes(guarded_rig, rule(**changed), rule())
    assert (code, other) == (42, (0, ""))
    assert text is not None
    assert text.startswith(f"Invalid {word}: ")


@pytest.mark.parametrize(
    "changed",
    [
        {"principal": "User:"},
        {"principal": "Group:staff"},
        {"principal": ":a"},
        {"host": ""},
        {"host": "10.0.0.0/8"},
        {"host": "localhost"},
        {"operation": 9},
        {"resource_name": "*", "resource_pattern_type": 4},
        {"resource_name": "a b/c"},
        {"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4},
        {"resource_type": 7, "resource_name": "User:bob", "operation": 13},
        {"resource_type": 5, "operation": 15},
    ],
)
async def test_what_never_matches_is_accepted(guarded_rig: Rig, changed: dict[str, object]) -> None:
    assert await outcomes(guarded_rig, rule(**changed)) == [(0, "")]
    assert len(guarded_rig.services.controller.image.acls) == 1


async def test_a_duplicate_succeeds_and_is_one_acl(guarded_rig: Rig) -> None:
    for _ in range(2):
        assert await outcomes(guarded_rig, rule(), rule()) == [(0, ""), (0, "")]
    assert len(guarded_rig.services.controller.image.acls) == 1


async def test_it_is_in_force_with_the_answer(guarded_rig: Rig) -> None:
    authorizer = guarded_rig.services.authorizer
    assert authorizer is not None
    asked = ("User:a", "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, "t")
    assert not authorizer.allows(*asked)
    await outcomes(guarded_rig, rule())
    assert authorizer.allows(*asked)


async def test_too_many_are_refused_together(
    guarded_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_acls, "CHECKED_PER_TURN", 100)
    many = [rule(resource_name=f"t{number}") for number in range(10_001)]
    answers = await outcomes(guarded_rig, *many)
    assert set(answers) == {(44, "Unable to perform excessively large batch operation.")}
    assert len(answers) == 10_001
    assert len(guarded_rig.services.controller.image.acls) == 0
