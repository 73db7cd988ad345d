"""The authorizer: the rule, remembered until the next change, and bounded."""

import logging

import pytest

from broker.runtime.metrics import Metrics
from broker.security.acl import authorizer as module
from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.security.acl.authorizer import Authorizer
from broker.security.acl.rule import Basis, Policy
from tests.support.acl_entries import ALICE, HOST, acl

READ, WRITE, TOPIC = AclOperation.READ, AclOperation.WRITE, ResourceType.TOPIC


class Clock:
    def monotonic_ns(self):
        return 0


@pytest.fixture
def authorizer():
    return Authorizer(Policy(), Clock(), Metrics())


def reads(authorizer, name="orders"):
    return authorizer.allows(ALICE, HOST, READ, TOPIC, name)


def test_a_change_holds_at_once(authorizer):
    entry = acl()
    assert not reads(authorizer)
    authorizer.add(entry)
    assert reads(authorizer)
    assert authorizer.decide(ALICE, HOST, READ, TOPIC, "orders").entry is entry
    authorizer.remove(entry)
    assert not reads(authorizer)


def test_each_change_moves_the_version(authorizer):
    assert authorizer.version == 0
    authorizer.add(acl())
    authorizer.remove(acl())
    assert authorizer.version == 2


def test_a_decision_is_made_once(authorizer, monkeypatch):
    authorizer.add(acl())
    assert reads(authorizer)
    monkeypatch.setattr(module, "decide", None)
    assert reads(authorizer)
    assert authorizer.decide(ALICE, HOST, READ, TOPIC, "orders").basis is Basis.ENTRY


def test_some_resource_is_remembered_too(authorizer, monkeypatch):
    assert not authorizer.allows_any(ALICE, HOST, WRITE, TOPIC)
    authorizer.add(acl(operation=WRITE))
    assert authorizer.allows_any(ALICE, HOST, WRITE, TOPIC)
    monkeypatch.setattr(module, "decide_any", None)
    assert authorizer.allows_any(ALICE, HOST, WRITE, TOPIC)


def test_what_is_remembered_is_bounded_and_counted(authorizer, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    for number in range(25):
        assert not reads(authorizer, f"t{number}")
        assert len(authorizer._remembered) <= 10
    assert authorizer._metrics.authorizations_forgotten == 20


def test_long_names_are_not_remembered(authorizer):
    assert not reads(authorizer, "x" * 30_000)
    assert not authorizer.allows("User:" + "x" * 600, HOST, READ, TOPIC, "t")
    assert not authorizer.allows_any("User:" + "x" * 600, HOST, READ, TOPIC)
    assert authorizer._remembered == {}


def test_the_bits_are_those_that_are_allowed(authorizer):
    assert authorizer.allowed_operations(ALICE, HOST, TOPIC, "orders") == 0
    authorizer.add(acl(operation=WRITE))
    assert authorizer.allowed_operations(ALICE, HOST, TOPIC, "orders") == 1 << 4 | 1 << 8
    authorizer.add(acl(operation=AclOperation.ALL))
    assert authorizer.allowed_operations(ALICE, HOST, TOPIC, "orders") == 3576


def test_a_denied_request_is_logged_and_counted(authorizer, caplog):
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        authorizer.log_denied(ALICE, HOST, READ, TOPIC, "t", "Fetch", 2)
    (record,) = caplog.records
    assert record.getMessage() == (
        "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource ="
        " Topic:LITERAL:t for request = Fetch with resourceRefCount = 2 based on rule DefaultDeny;"
        " to allow it: barnabas acls allow alice read topic t"
    )
    assert authorizer._metrics.authorizations_denied == 1


def test_the_count_of_acls_is_shown(authorizer):
    authorizer.add(acl())
    authorizer.add(acl())
    assert authorizer._metrics.acls_now == 1


def test_a_decision_looks_at_the_acls_of_its_resource_only(authorizer, monkeypatch):
    seen = []

    def watched(access, entries, policy):
        seen[:] = entries
        return module_decide(access, seen, policy)

    module_decide = module.decide
    monkeypatch.setattr(module, "decide", watched)
    for number in range(1_000):
        authorizer.add(acl(name=f"t{number}", principal=f"User:{number}", prefixed=number % 2 == 1))
    authorizer.add(acl(name="*"))
    assert reads(authorizer, "t77x")
    assert {entry.name for entry in seen} == {"t77", "t7", "*"}


def test_some_resource_looks_at_the_acls_of_its_principal_only(authorizer, monkeypatch):
    seen = []
    decide_any = module.decide_any

    def watched(first, access, entries):
        seen[:] = entries
        return decide_any(first, access, seen)

    monkeypatch.setattr(module, "decide_any", watched)
    for number in range(1_000):
        authorizer.add(acl(name=f"t{number}", principal=f"User:{number}", operation=WRITE))
    authorizer.add(acl(principal="User:*", operation=WRITE))
    assert authorizer.allows_any("User:7", HOST, WRITE, TOPIC)
    assert [entry.name for entry in seen] == ["t7", "orders"]


def test_an_audit_line_names_a_near_miss_among_very_many_acls(authorizer, caplog):
    for number in range(2_000):
        authorizer.add(acl(name=f"t{number}", principal=f"User:{number}"))
    authorizer.add(acl(name="orders.*"))
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        authorizer.log_denied(ALICE, HOST, READ, TOPIC, "orders.eu", "Fetch")
    (record,) = caplog.records
    assert "; nearly: User:alice may read topic orders.* from any" in record.getMessage()


def test_a_near_miss_of_another_name_is_found_too(authorizer, caplog):
    authorizer.add(acl(principal="User:Alice"))
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        authorizer.log_denied(ALICE, HOST, READ, TOPIC, "orders", "Fetch")
    (record,) = caplog.records
    assert record.getMessage().count("nearly: ") == 1
