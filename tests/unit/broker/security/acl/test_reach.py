"""The rule for many names: what the property test with `decide` does not reach."""

import pytest

from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.reach import Reach
from broker.security.acl.rule import Policy

ALICE, HOST = "User:alice", "10.0.0.1"


def entry(name: str, pattern: PatternType, permission: PermissionType) -> AclEntry:
    return AclEntry(
        ResourceType.TOPIC, name, pattern, ALICE, "*", AclOperation.DESCRIBE, permission
    )


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_name_costs_as_many_lookups_as_prefixes_have_lengths(count: int) -> None:
    prefixes = [
        entry(f"p{number:04}", PatternType.PREFIXED, PermissionType.ALLOW)
        for number in range(count)
    ]
    reach = Reach(ALICE, HOST, AclOperation.DESCRIBE, prefixes, Policy(), lambda _: True)
    assert len(reach._allowed._by_length) == 1
    assert reach.allows("p0000-topic")
    assert not reach.allows("p")


def test_a_super_user_needs_no_acl_and_no_walk_over_them() -> None:
    def none_is_looked_at():
        raise AssertionError
        yield

    policy = Policy(frozenset({ALICE}))
    reach = Reach(ALICE, HOST, AclOperation.DESCRIBE, none_is_looked_at(), policy, lambda _: True)
    assert reach.allows("t")


def test_without_any_acl_for_a_name_the_policy_decides() -> None:
    policy = Policy(allows_without_acl=True)
    reach = Reach(ALICE, HOST, AclOperation.DESCRIBE, (), policy, lambda name: name == "t")
    assert not reach.allows("t")
    assert reach.allows("u")
