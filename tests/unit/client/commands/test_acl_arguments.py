"""Words of a command line, as ACLs."""

import click
import pytest

from broker.security.acl.acl_codes import AclOperation, PatternType, ResourceType
from client.commands.acl_arguments import (
    consumer_rights,
    entry_of_codes,
    name_of,
    operations_of,
    principal_of,
    producer_rights,
    resource_type_of,
)
from client.kafka.acl_requests import AclCodes
from tests.support.acl_entries import acl


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alice", "User:alice"),
        ("User:alice", "User:alice"),
        ("CN=alice,O=Acme", "User:CN=alice,O=Acme"),
        ("*", "User:*"),
        ("Group:x", "Group:x"),
        ("", "User:"),
    ],
)
def test_a_principal(text, expected):
    assert principal_of(text) == expected


def test_operations():
    assert operations_of("read, ALTER_CONFIGS,idempotent-write") == [
        AclOperation.READ,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ]
    with pytest.raises(click.UsageError):
        operations_of("read,")


def test_a_resource_type():
    assert resource_type_of("transactional-id") is ResourceType.TRANSACTIONAL_ID
    with pytest.raises(click.UsageError):
        resource_type_of("unknown")


@pytest.mark.parametrize(
    ("text", "literal", "expected"),
    [
        ("orders", False, ("orders", PatternType.LITERAL)),
        ("orders*", False, ("orders", PatternType.PREFIXED)),
        ("orders*", True, ("orders*", PatternType.LITERAL)),
        ("*", False, ("*", PatternType.LITERAL)),
        ("**", False, ("*", PatternType.PREFIXED)),
        ("a*b", False, ("a*b", PatternType.LITERAL)),
    ],
)
def test_a_name(text, literal, expected):
    assert name_of(ResourceType.TOPIC, text, literal=literal) == expected


def test_the_rights_of_clients_are_those_of_kafkas_tool():
    assert producer_rights(["t"], ["x"]) == [
        ("describe,create,write", "topic", "t"),
        ("describe,write", "transactional-id", "x"),
    ]
    assert consumer_rights(["t"], ["g"]) == [
        ("read,describe", "topic", "t"),
        ("read", "group", "g"),
    ]


def test_codes_make_an_acl():
    assert entry_of_codes(AclCodes(*acl())) == acl()
