"""The rule: each of its sentences, as tried on Kafka 4.3."""

import pytest

from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.security.acl.rule import Access, Basis, Policy, any_access, decide, decide_any
from tests.support.acl_entries import ALICE, HOST, acl

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CLOSED = Policy()
OPEN = Policy(allows_without_acl=True)


def asked(operation=READ, name="orders", principal=ALICE, host=HOST, kind=ResourceType.TOPIC):
    return Access(principal, host, operation, kind, name)


def is_allowed_somewhere(entries, policy):
    access = any_access(ALICE, HOST, WRITE, ResourceType.TOPIC)
    return decide_any(decide(access, entries, policy), access, entries).is_allowed


def test_without_acls_the_answer_is_no_and_names_the_default():
    assert not decide(asked(), [], CLOSED).is_allowed
    assert str(decide(asked(), [], CLOSED)) == "DefaultDeny"


def test_a_super_user_may_do_what_is_denied():
    decision = decide(asked(), [acl(deny=True)], Policy(frozenset({ALICE})))
    assert decision.is_allowed
    assert str(decision) == "SuperUser"


def test_the_entry_that_allowed_is_named():
    entry = acl()
    decision = decide(asked(), [acl(name="other"), entry], CLOSED)
    assert decision.is_allowed
    assert decision.entry is entry
    assert str(decision) == f"MatchingAcl(acl={entry})"


@pytest.mark.parametrize(
    "deny",
    [
        acl(deny=True),
        acl(deny=True, operation=AclOperation.ALL),
        acl(deny=True, name="*"),
        acl(deny=True, name="o", prefixed=True),
        acl(deny=True, principal="User:*"),
        acl(deny=True, host=HOST),
    ],
)
def test_one_denial_beats_every_allowance(deny):
    for entries in ([acl(), deny], [deny, acl()]):
        decision = decide(asked(), entries, CLOSED)
        assert not decision.is_allowed
        assert decision.entry is deny


@pytest.mark.parametrize(
    "deny",
    [
        acl(deny=True, operation=WRITE),
        acl(deny=True, principal="User:bob"),
        acl(deny=True, host="10.0.0.2"),
        acl(deny=True, host="10.0.0.0/8"),
        acl(deny=True, name="order"),
        acl(deny=True, kind="group"),
    ],
)
def test_a_denial_for_something_else_changes_nothing(deny):
    assert decide(asked(), [deny, acl()], CLOSED).is_allowed


def test_a_denial_of_reading_leaves_describing():
    entries = [acl(operation=DESCRIBE), acl(operation=READ, deny=True)]
    assert decide(asked(DESCRIBE), entries, CLOSED).is_allowed
    assert not decide(asked(READ), entries, CLOSED).is_allowed


def test_a_denial_of_describing_leaves_writing():
    entries = [acl(operation=WRITE), acl(operation=DESCRIBE, deny=True)]
    assert decide(asked(WRITE), entries, CLOSED).is_allowed
    assert not decide(asked(DESCRIBE), entries, CLOSED).is_allowed


def test_everyone_is_allowed_until_an_acl_is_found():
    assert decide(asked(), [], OPEN).basis is Basis.DEFAULT_ALLOW
    assert decide(asked(), [acl(name="other"), acl(kind="group")], OPEN).is_allowed


@pytest.mark.parametrize(
    "entry",
    [
        acl(principal="User:bob"),
        acl(principal="User:bob", deny=True),
        acl(name="*", principal="User:bob"),
        acl(name="ord", prefixed=True, principal="User:bob"),
        acl(host="10.9.9.9"),
        acl(operation=WRITE),
    ],
)
def test_any_acl_for_the_resource_ends_that(entry):
    assert decide(asked(), [entry], OPEN).basis is Basis.DEFAULT_DENY


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], False),
        ([acl(operation=WRITE)], True),
        ([acl(operation=AclOperation.ALL)], True),
        ([acl(operation=READ)], False),
        ([acl(operation=WRITE, kind="group")], False),
        ([acl(operation=WRITE, principal="User:bob")], False),
        ([acl(operation=WRITE, host="10.9.9.9")], False),
        ([acl(operation=WRITE), acl(operation=WRITE, deny=True)], False),
        ([acl(operation=WRITE), acl(operation=WRITE, name="other", deny=True)], True),
        ([acl(operation=WRITE), acl(operation=WRITE, name="ord", prefixed=True, deny=True)], False),
        ([acl(operation=WRITE), acl(operation=WRITE, name="*", deny=True)], False),
        ([acl(operation=WRITE, name="*"), acl(operation=WRITE, name="*", deny=True)], False),
        ([acl(operation=WRITE, name="*"), acl(operation=WRITE, name="a", deny=True)], True),
        (
            [acl(operation=WRITE, name="ab", prefixed=True), acl(operation=WRITE, deny=True)],
            True,
        ),
        (
            [
                acl(operation=WRITE, name="ab", prefixed=True),
                acl(operation=WRITE, name="ab", prefixed=True, deny=True),
            ],
            False,
        ),
        ([acl(operation=WRITE, name="hardcode")], True),
    ],
)
def test_some_resource_of_a_type(entries, expected):
    assert is_allowed_somewhere(entries, CLOSED) is expected


def test_some_resource_for_super_users_and_where_everyone_is_allowed():
    deny = [acl(operation=WRITE, name="*", deny=True)]
    boss = Policy(frozenset({ALICE}))
    assert is_allowed_somewhere(deny, boss)
    assert is_allowed_somewhere([], OPEN)
    assert not is_allowed_somewhere(deny, OPEN)
