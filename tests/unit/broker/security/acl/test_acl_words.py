"""What an ACL says, read aloud."""

import pytest

from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.security.acl.acl_words import VERBS, in_words, noun_of, resource_words
from tests.support.acl_entries import acl


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (acl(), "User:alice may read topic orders from any address"),
        (
            acl(name="orders.", prefixed=True, host="10.0.0.1"),
            "User:alice may read every topic whose name begins with 'orders.' from 10.0.0.1",
        ),
        (
            acl(name="*", principal="User:*", deny=True, operation=AclOperation.ALL),
            "Every user may not do everything with every topic from any address",
        ),
        (
            acl("cluster", "kafka-cluster", AclOperation.ALTER_CONFIGS),
            "User:alice may alter the configs of the cluster from any address",
        ),
        (
            acl("transactional_id", "tx", AclOperation.WRITE, host=""),
            "User:alice may write to transactional id tx from no address",
        ),
        (
            acl(operation=AclOperation.UNKNOWN),
            "User:alice may do something unknown here with topic orders from any address",
        ),
    ],
)
def test_an_acl(entry, words):
    assert in_words(entry) == words


def test_each_operation_has_a_verb():
    assert set(VERBS) == {one for one in AclOperation if one >= AclOperation.ALL}


def test_a_resource():
    assert noun_of(ResourceType.TRANSACTIONAL_ID) == "transactional id"
    assert resource_words(ResourceType.GROUP, "*") == "every group"
    assert resource_words(ResourceType.CLUSTER, "*") == "the cluster"
