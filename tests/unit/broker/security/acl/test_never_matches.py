"""ACLs that never have an effect are told from those that may."""

import pytest

from broker.security.acl.acl_codes import AclOperation, PatternType, ResourceType
from broker.security.acl.never_matches import never_matches
from tests.support.acl_entries import acl

CLUSTER = "kafka-cluster"


@pytest.mark.parametrize(
    "entry",
    [
        acl(),
        acl(host="10.0.0.1"),
        acl(host="::1"),
        acl(principal="User:*"),
        acl(principal="User:CN=alice,O=Acme"),
        acl(name="*"),
        acl(name="orders.", prefixed=True),
        acl(operation=AclOperation.ALL),
        acl("cluster", CLUSTER, AclOperation.ALTER),
        acl("cluster", CLUSTER, AclOperation.ALTER, prefixed=True),
        acl("cluster", "kafka-", AclOperation.ALTER, prefixed=True),
        acl("cluster", "*", AclOperation.ALTER),
        acl("group", "any name at all"),
        acl("transactional_id", "t", AclOperation.WRITE),
    ],
)
def test_those_that_may_match(entry):
    assert never_matches(entry) == ""


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (acl(host="10.0.0.0/8"), "is a network"),
        (acl(host="localhost"), "is no address"),
        (acl(host=""), "empty"),
        (acl(principal="User:"), "has no name"),
        (acl(principal="Group:staff"), "'Group'"),
        (acl(principal="user:alice"), "'user'"),
        (acl(operation=AclOperation.CLUSTER_ACTION), "no request asks a topic"),
        (acl("group", "g", AclOperation.WRITE), "no request asks a group for WRITE"),
        (acl("cluster", "other", AclOperation.ALTER), "only cluster"),
        (acl(name="orders.*"), "use the prefix orders."),
        (acl(name="a b"), "this name"),
        (acl(name="*", prefixed=True), "this prefix"),
        (acl("user", "User:bob", AclOperation.CREATE_TOKENS), "no delegation tokens"),
        (acl("delegation_token", "x", AclOperation.DESCRIBE), "no delegation tokens"),
        (acl()._replace(resource_type=ResourceType.UNKNOWN), "resource type"),
        (acl()._replace(operation=AclOperation.UNKNOWN), "UNKNOWN"),
        (acl()._replace(pattern=PatternType.UNKNOWN), "pattern type"),
    ],
)
def test_those_that_never_match_say_why(entry, words):
    assert words in never_matches(entry)
