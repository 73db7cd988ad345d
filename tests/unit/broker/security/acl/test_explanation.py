"""Explanations: what decided, what nearly matched and why not, and a command that helps."""

import shlex

import pytest

from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.security.acl.explanation import allowing, explain, near_misses
from broker.security.acl.rule import Access, Policy, decide
from tests.support.acl_entries import ALICE, HOST, acl

READ, WRITE = AclOperation.READ, AclOperation.WRITE


def asked(name="orders.eu", principal=ALICE, host=HOST, operation=READ, kind="TOPIC"):
    return Access(principal, host, operation, ResourceType[kind], name)


def explained(access, *entries, policy=None):
    return explain(access, decide(access, entries, policy or Policy()), entries)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (acl(name="orders.*"), "a prefix 'orders.' is meant"),
        (acl(name="orders"), "it is literal"),
        (acl(name="ORDERS.EU"), "case of a name"),
        (acl(name="Orders.", prefixed=True), "case of a name"),
        (acl(name="orders.*", prefixed=True), "ends with the character *"),
        (acl(name="*", prefixed=True), "ends with the character *"),
        (acl(name="*", principal="User:Alice"), "case and blanks"),
        (acl(name="*", principal="user:alice"), "case and blanks"),
        (acl(name="*", principal="User:alice "), "case and blanks"),
        (acl(name="*", principal="User:CN=alice,O=Acme"), "the client has a short name"),
        (acl(name="*", host="10.0.0.0/8"), "is a network"),
        (acl(name="*", host="db.example"), "names are not looked up"),
        (acl(name="*", host="10.0.0.2"), "for clients at 10.0.0.2 only"),
        (acl(name="*", host=""), "no address"),
        (acl(name="*", operation=WRITE), "does not include to read it"),
    ],
)
def test_a_near_miss_says_why(entry, words):
    (near,) = near_misses(asked(), [entry])
    assert near.entry is entry
    assert words in str(near)


def test_the_subject_of_a_certificate_is_named():
    (near,) = near_misses(asked(principal="User:CN=alice,O=Acme"), [acl(name="*")])
    assert "the whole subject of its certificate, CN=alice,O=Acme" in str(near)


@pytest.mark.parametrize(
    "entry",
    [
        acl(host="10.0.0.0/8", operation=WRITE),  # of "orders": three details
        acl(name="*", principal="User:bob"),
        acl(name="payments"),
        acl(name="o"),
        acl(name="*", host="192.168.0.0/16"),
        acl(name="*", deny=True),
        acl("group", "*"),
    ],
)
def test_what_is_for_something_else_is_not_near(entry):
    assert near_misses(asked(), [entry]) == ()


def test_the_nearest_come_first_and_few_are_named():
    far = acl(name="orders.*", host="10.0.0.0/8")
    nearer = [acl(name="*", host=f"10.0.0.{number}") for number in range(2, 9)]
    found = near_misses(asked(), [far, *nearer])
    assert [near.entry for near in found] == nearer[:3]


def test_a_denial_by_default_says_how_to_allow_it():
    explanation = explained(asked(), acl(name="orders.*"))
    assert explanation.verdict == (
        "Denied: no ACL allows User:alice to read topic orders.eu from 10.0.0.1"
    )
    assert len(explanation.near) == 1
    assert explanation.remedy == "barnabas acls allow alice read topic orders.eu"


def test_a_denial_by_an_acl_says_which_to_remove():
    deny = acl(name="orders.", prefixed=True, deny=True, host=HOST)
    explanation = explained(asked(), acl(name="*"), deny)
    assert "may not read every topic whose name begins with 'orders.'" in explanation.verdict
    words = ["remove", "alice", "read", "topic", "orders.*", "--deny", "--host", HOST]
    assert shlex.split(explanation.remedy) == ["barnabas", "acls", *words]


@pytest.mark.parametrize(
    ("entries", "policy", "words"),
    [
        ([acl(name="*")], Policy(), "Allowed: User:alice may read every topic"),
        ([], Policy(frozenset({ALICE})), "is a super user"),
        ([], Policy(allows_without_acl=True), "allow.everyone.if.no.acl.found is on"),
    ],
)
def test_what_is_allowed_says_by_what(entries, policy, words):
    explanation = explained(asked(), *entries, policy=policy)
    assert words in explanation.verdict
    assert explanation.remedy == ""


def test_a_client_without_a_name_is_told_so():
    assert "no SASL" in explained(asked(principal="User:ANONYMOUS")).hint


@pytest.mark.parametrize(
    ("access", "command"),
    [
        (asked("a b"), "barnabas acls allow alice read topic 'a b'"),
        (asked("x*", kind="GROUP"), "barnabas acls allow alice read group 'x*' --literal"),
        (
            asked("kafka-cluster", kind="CLUSTER", operation=AclOperation.ALTER_CONFIGS),
            "barnabas acls allow alice alter-configs cluster",
        ),
        (asked("t", "User:CN=a,O=b"), "barnabas acls allow CN=a,O=b read topic t"),
        (asked("t", "User:a:b"), "barnabas acls allow User:a:b read topic t"),
        (asked("t", "Group:a"), "barnabas acls allow Group:a read topic t"),
    ],
)
def test_the_command_is_one_for_a_shell(access, command):
    assert allowing(access) == command


def test_a_name_of_any_length_costs_little():
    entries = [acl(name="x" * 30_000), acl(name="X" * 30_000)]
    assert near_misses(asked("x" * 30_001), entries) == ()
    assert near_misses(asked(principal="User:" + "x" * 600), entries) == ()
