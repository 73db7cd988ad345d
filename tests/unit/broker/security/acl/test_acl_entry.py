"""What an ACL is for: names, principals, hosts and operations."""

import pytest

from broker.security.acl.acl_codes import AclOperation
from tests.support.acl_entries import acl


@pytest.mark.parametrize(
    ("entry", "name", "expected"),
    [
        (acl(name="orders"), "orders", True),
        (acl(name="orders"), "orders2", False),
        (acl(name="orders"), "Orders", False),
        (acl(name="*"), "orders", True),
        (acl(name="orders*"), "orders1", False),
        (acl(name="orders", prefixed=True), "orders", True),
        (acl(name="orders", prefixed=True), "orders2", True),
        (acl(name="orders", prefixed=True), "order", False),
        (acl(name="*", prefixed=True), "orders", False),
        (acl(name="*", prefixed=True), "*a", True),
    ],
)
def test_a_name(entry, name, expected):
    assert entry.is_for_name(name) is expected


@pytest.mark.parametrize(
    ("given", "principal", "expected"),
    [
        ("User:alice", "User:alice", True),
        ("User:alice", "User:Alice", False),
        ("User:*", "User:alice", True),
        ("User:*", "User:ANONYMOUS", True),
        ("User:", "User:alice", False),
        ("Group:staff", "User:staff", False),
    ],
)
def test_a_principal(given, principal, expected):
    assert acl(principal=given).is_for_principal(principal) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("10.0.0.1", True), ("*", True), ("10.0.0.0/8", False), ("localhost", False), ("", False)],
)
def test_a_host_is_one_address(given, expected):
    assert acl(host=given).is_for_host("10.0.0.1") is expected
    assert acl(host=given).is_for_host("::ffff:10.0.0.1") is expected


def test_an_address_matches_however_it_is_written():
    assert acl(host="0:0:0:0:0:0:0:1").is_for_host("::1")
    assert not acl(host="::2").is_for_host("::1")


@pytest.mark.parametrize("operation", [op for op in AclOperation if op > AclOperation.ALL])
def test_an_allowed_operation_implies_describing(operation):
    allowed, denied = acl(operation=operation), acl(operation=operation, deny=True)
    implies = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    assert allowed.is_for_operation(AclOperation.DESCRIBE) is (
        operation in implies | {AclOperation.DESCRIBE}
    )
    assert allowed.is_for_operation(AclOperation.DESCRIBE_CONFIGS) is (
        operation in {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}
    )
    assert denied.is_for_operation(AclOperation.DESCRIBE) is (operation is AclOperation.DESCRIBE)
    assert acl(operation=AclOperation.ALL).is_for_operation(operation)
    assert acl(operation=AclOperation.ALL, deny=True).is_for_operation(operation)


def test_its_text_is_that_of_kafkas_audit_line():
    assert str(acl(name="t", host="*", deny=True)) == (
        "StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL,"
        " principal=User:alice, host=*, operation=READ, permissionType=DENY]"
    )
