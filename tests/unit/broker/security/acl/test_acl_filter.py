"""Filters: each field alone, and the three ways in which a name is compared."""

import pytest

from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_filter import AclFilter
from tests.support.acl_entries import acl

EXACT, PREFIX, EACH, OTHER = (
    acl(name="orders"),
    acl(name="ord", prefixed=True),
    acl(name="*"),
    acl(name="other"),
)
SAME_NAME = acl(name="orders", prefixed=True)
ALL = [EXACT, PREFIX, EACH, OTHER, SAME_NAME]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), ALL),
        (AclFilter(name="orders"), [EXACT, SAME_NAME]),
        (AclFilter(name="orders", pattern=PatternType.LITERAL), [EXACT]),
        (AclFilter(name="orders", pattern=PatternType.PREFIXED), [SAME_NAME]),
        (AclFilter(name="orders", pattern=PatternType.MATCH), [EXACT, PREFIX, EACH, SAME_NAME]),
        (AclFilter(pattern=PatternType.PREFIXED), [PREFIX, SAME_NAME]),
        (AclFilter(pattern=PatternType.MATCH), ALL),
        (AclFilter(name="*"), [EACH]),
        (AclFilter(name="*", pattern=PatternType.MATCH), [EACH]),
        (AclFilter(name=""), []),
        (AclFilter(name="orders", pattern=PatternType.UNKNOWN), []),
    ],
)
def test_names(wanted, expected):
    assert [entry for entry in ALL if wanted.matches(entry)] == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(resource_type=ResourceType.TOPIC), True),
        (AclFilter(resource_type=ResourceType.GROUP), False),
        (AclFilter(principal="User:alice"), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="*"), True),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=AclOperation.READ), True),
        (AclFilter(operation=AclOperation.ALL), False),
        (AclFilter(operation=AclOperation.UNKNOWN), False),
        (AclFilter(permission=PermissionType.ALLOW), True),
        (AclFilter(permission=PermissionType.DENY), False),
        (AclFilter(resource_type=ResourceType.UNKNOWN), False),
    ],
)
def test_the_other_fields_are_compared_as_they_are(wanted, expected):
    assert wanted.matches(EXACT) is expected
