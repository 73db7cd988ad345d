"""Kafka's codes: its own tables, as its JSON converters and DescribeAcls show them."""

import pytest

from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType


def test_the_codes_are_kafkas():
    assert [kind.name for kind in ResourceType] == [
        "UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN",
        "USER",
    ]  # fmt: skip
    assert [kind.name for kind in PatternType] == ["UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"]
    assert [kind.name for kind in AclOperation] == [
        "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE",
        "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
        "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
    ]  # fmt: skip
    assert [kind.name for kind in PermissionType] == ["UNKNOWN", "ANY", "DENY", "ALLOW"]
    for kinds in (ResourceType, PatternType, AclOperation, PermissionType):
        assert [int(kind) for kind in kinds] == list(range(len(kinds)))


@pytest.mark.parametrize("kinds", [ResourceType, PatternType, AclOperation, PermissionType])
@pytest.mark.parametrize("code", [-1, -128, 77, 127])
def test_a_code_that_is_not_listed_is_unknown(kinds, code):
    assert kinds(code) is kinds.UNKNOWN
    assert kinds.of(code) is kinds.UNKNOWN
    assert kinds.of(3) is kinds(3)


def test_a_word_is_no_code():
    with pytest.raises(ValueError, match="READ"):
        AclOperation("READ")
