"""`barnabas acls` as users type it, on a scripted broker: output, exit codes, what is asked."""

import json

import pytest
from click.testing import CliRunner

from broker.security.acl.acl_codes import AclOperation
from client import cli
from tests.support.acl_entries import acl
from tests.support.scripted_acls import ScriptedAcls
from tests.support.scripted_broker import ScriptedBroker

READ, WRITE = AclOperation.READ, AclOperation.WRITE
DESCRIBE, CREATE = AclOperation.DESCRIBE, AclOperation.CREATE


@pytest.fixture
def scripted():
    return ScriptedAcls()


@pytest.fixture
def broker(scripted):
    with ScriptedBroker(scripted.answers) as found:
        yield found


def invoke(broker, *arguments):
    return CliRunner().invoke(
        cli.main, ["acls", *arguments], env={"BARNABAS_BOOTSTRAP": broker.address}
    )


@pytest.mark.parametrize(
    ("arguments", "entries"),
    [
        (["alice", "read", "topic", "orders"], [acl()]),
        (["User:alice", "read", "topic", "orders"], [acl()]),
        (["alice", "read", "topic", "orders.*"], [acl(name="orders.", prefixed=True)]),
        (["alice", "read", "topic", "orders.*", "--literal"], [acl(name="orders.*")]),
        (["*", "READ", "Topic", "*"], [acl(name="*", principal="User:*")]),
        (["alice", "read,write", "topic", "orders"], [acl(), acl(operation=WRITE)]),
        (["alice", "read,read", "topic", "orders"], [acl()]),
        (
            ["alice", "describe_configs", "cluster"],
            [acl("cluster", "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)],
        ),
        (
            ["alice", "write", "transactional-id", "tx*"],
            [acl("transactional_id", "tx", WRITE, prefixed=True)],
        ),
        (["alice", "read", "topic", "orders", "--host", "10.0.0.1"], [acl(host="10.0.0.1")]),
        (
            ["alice", "--producer", "--topic", "orders", "--transactional-id", "tx"],
            [
                acl(operation=DESCRIBE),
                acl(operation=CREATE),
                acl(operation=WRITE),
                acl("transactional_id", "tx", DESCRIBE),
                acl("transactional_id", "tx", WRITE),
            ],
        ),
        (
            ["alice", "--consumer", "--topic", "o*", "--group", "g"],
            [
                acl(name="o", prefixed=True),
                acl(name="o", operation=DESCRIBE, prefixed=True),
                acl("group", "g"),
            ],
        ),
        (
            ["alice", "--producer", "--consumer", "--topic", "orders", "--group", "g"],
            [
                acl(operation=DESCRIBE), acl(operation=CREATE), acl(operation=WRITE), acl(),
                acl("group", "g"),
            ],
        ),
    ],
)  # fmt: skip
def test_allow(broker, scripted, arguments, entries):
    result = invoke(broker, "allow", *arguments)
    assert result.exit_code == 0, result.output
    assert scripted.entries == entries


def test_allow_says_in_words_what_the_star_means(broker):
    result = invoke(broker, "allow", "alice", "read", "topic", "orders.*")
    assert result.stdout == (
        "User:alice may read every topic whose name begins with 'orders.' from any address.\n"
    )


def test_deny(broker, scripted):
    result = invoke(broker, "deny", "alice", "read", "topic", "orders")
    assert (result.exit_code, scripted.entries) == (0, [acl(deny=True)])
    assert result.stdout == "User:alice may not read topic orders from any address.\n"


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_a_dry_run_asks_nobody(broker, scripted, verb):
    result = invoke(broker, verb, "alice", "read", "topic", "orders", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("Would create: User:alice may")
    assert broker.requests == []


def test_an_acl_that_never_has_an_effect_is_warned_of(broker, scripted):
    result = invoke(broker, "allow", "alice", "read", "topic", "t", "--host", "10.0.0.0/8")
    assert result.exit_code == 0
    assert "never has an effect: its host 10.0.0.0/8 is a network" in result.stderr
    assert len(scripted.entries) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["allow", "alice"], "Say what"),
        (["allow", "alice", "read"], "Say what"),
        (["allow", "alice", "raed", "topic", "t"], "'raed' is no operation. Did you mean read?"),
        (["allow", "alice", "any", "topic", "t"], "'any' is no operation"),
        (["allow", "alice", "read", "topics", "t"], "Did you mean topic?"),
        (["allow", "alice", "read", "queue", "t"], "One of: topic, group"),
        (["allow", "alice", "read", "topic"], "Say which topic"),
        (["allow", "alice", "read", "topic", ""], "Say which topic"),
        (["allow", "alice", "--producer"], "--producer needs --topic"),
        (["allow", "alice", "--consumer", "--topic", "t"], "also needs --group"),
        (["allow", "alice", "--producer", "--topic", "t", "--group", "g"], "--group belongs"),
        (
            ["allow", "alice", "--consumer", "--topic=t", "--group=g", "--transactional-id=x"],
            "--transactional-id belongs",
        ),
        (["allow", "alice", "--topic", "t"], "with --producer, --consumer"),
        (["allow", "alice", "read", "--producer", "--topic", "t"], "Give OPERATION"),
        (["remove", "alice", "--allow", "--deny"], "neither for both"),
    ],
)
def test_a_wrong_command_line_is_refused(broker, arguments, words):
    result = invoke(broker, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert broker.requests == []


def test_a_refusal_of_the_broker_names_the_acl(broker, scripted):
    result = invoke(broker, "allow", "alice", "read", "cluster", "other")
    assert result.exit_code == 1
    assert "not created: User:alice may read cluster other" in result.stderr
    assert "only valid name" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["allow", "alice", "read", "topic", "t"],
        ["list"],
        ["remove", "alice", "--yes"],
        ["check", "alice", "read", "topic", "t"],
    ],
)
def test_a_broker_without_authorizer_is_told_how_to_have_one(broker, scripted, arguments):
    scripted.is_enabled = False
    result = invoke(broker, *arguments)
    assert result.exit_code == 1
    assert "no authorizer" in result.stderr
    assert "authorizer.class.name=" in result.stderr


def test_list(broker, scripted):
    scripted.entries = [acl(name="ord", prefixed=True), acl(host="10.0.0.0/8", deny=True)]
    result = invoke(broker, "list")
    assert result.exit_code == 0
    header, first, second = result.stdout.splitlines()
    assert header.split() == [
        "Principal", "Permission", "Operation", "Resource", "Name", "Host", "Note",
    ]  # fmt: skip
    assert first.split() == ["User:alice", "allow", "read", "topic", "ord*", "*"]
    assert "never has an effect: its host 10.0.0.0/8 is a network" in second


def test_list_as_json(broker, scripted):
    scripted.entries = [acl(name="ord", prefixed=True)]
    (row,) = json.loads(invoke(broker, "list", "--json").stdout)
    assert row == {
        "principal": "User:alice", "permission": "allow", "operation": "read",
        "resource_type": "topic", "pattern": "prefixed", "name": "ord", "host": "*",
        "never_matches": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 4),
        (["topic"], 3),
        (["topic", "orders"], 2),
        (["group", "orders"], 0),
        (["--principal", "bob"], 1),
        (["topic", "--principal", "User:bob"], 1),
    ],
)
def test_list_some(broker, scripted, arguments, count):
    scripted.entries = [
        acl(), acl(name="o", prefixed=True), acl(name="x", principal="User:bob"), acl("group", "g"),
    ]  # fmt: skip
    assert len(json.loads(invoke(broker, "list", *arguments, "--json").stdout)) == count


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (["alice"], 1),
        (["alice", "read"], 2),
        (["alice", "write"], 4),
        (["alice", "read,write"], 1),
        (["alice", "read", "topic"], 4),
        (["alice", "read", "topic", "orders"], 4),
        (["alice", "--deny"], 4),
        (["alice", "--allow"], 2),
    ],
)
def test_remove(broker, scripted, arguments, left):
    scripted.entries = [
        acl(), acl(operation=WRITE), acl("group", "g", deny=True), acl(principal="User:bob"),
        acl("group", "h"),
    ]  # fmt: skip
    result = invoke(broker, "remove", *arguments, "--yes")
    assert result.exit_code == 0, result.output
    assert len(scripted.entries) == left


def test_remove_shows_what_goes_and_needs_a_yes(broker, scripted):
    scripted.entries = [acl()]
    result = invoke(broker, "remove", "alice")
    assert result.exit_code == 2
    assert "pass --yes" in result.stderr
    shown = invoke(broker, "remove", "alice", "--dry-run")
    assert shown.stdout == "Would delete User:alice may read topic orders from any address\n"
    assert len(scripted.entries) == 1


def test_remove_of_what_is_not_there(broker, scripted):
    scripted.entries = [acl(name="orders.*")]
    result = invoke(broker, "remove", "alice", "read", "topic", "orders.*", "--yes")
    assert result.exit_code == 1
    assert "no such ACL" in result.stderr
    result = invoke(broker, "remove", "alice", "read", "topic", "orders.*", "--literal", "--yes")
    assert (result.exit_code, scripted.entries) == (0, [])
