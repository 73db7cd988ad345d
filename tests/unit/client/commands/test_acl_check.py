"""`barnabas acls check` on a scripted broker: verdicts, near misses, and what helps."""

import json

import pytest
from click.testing import CliRunner

from client import cli
from tests.support.acl_entries import acl
from tests.support.scripted_acls import ScriptedAcls
from tests.support.scripted_broker import ScriptedBroker


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


def test_check_allowed(broker, scripted):
    scripted.entries = [acl()]
    result = invoke(broker, "check", "alice", "read,describe", "topic", "orders")
    assert result.exit_code == 0
    allowed = "Allowed: User:alice may read topic orders from any address.\n"
    assert result.stdout == allowed * 2


def test_check_denied_explains_and_helps(broker, scripted):
    scripted.entries = [acl(name="orders.*")]
    result = invoke(broker, "check", "alice", "read", "topic", "orders.eu", "--host", "10.0.0.7")
    assert result.exit_code == 1
    verdict, near, remedy = result.stdout.splitlines()
    assert verdict == "Denied: no ACL allows User:alice to read topic orders.eu from 10.0.0.7."
    assert near.startswith("Nearly: User:alice may read topic orders.* from any address, but")
    assert remedy == "To allow it: barnabas acls allow alice read topic orders.eu"


def test_check_knows_super_users(broker):
    result = invoke(broker, "check", "boss", "delete", "topic", "orders")
    assert (result.exit_code, result.stdout) == (0, "Allowed: User:boss is a super user.\n")


def test_check_knows_when_everybody_is_allowed(broker, scripted):
    scripted.settings["allow.everyone.if.no.acl.found"] = "true"
    result = invoke(broker, "check", "alice", "read", "topic", "orders")
    assert result.exit_code == 0
    assert "allow.everyone.if.no.acl.found is on" in result.stdout


def test_check_says_what_apache_kafka_hides(broker, scripted):
    scripted.settings = {"super.users": None}
    result = invoke(broker, "check", "boss", "read", "topic", "orders")
    assert result.exit_code == 1
    assert "does not show super.users" in result.stdout


def test_check_as_json(broker, scripted):
    scripted.entries = [acl(deny=True)]
    result = invoke(broker, "check", "alice", "read", "topic", "orders", "--json")
    assert result.exit_code == 1
    (one,) = json.loads(result.stdout)
    assert one["allowed"] is False
    assert one["acl"]["permission"] == "deny"
    assert one["remedy"].startswith("barnabas acls remove alice read topic orders --deny")
