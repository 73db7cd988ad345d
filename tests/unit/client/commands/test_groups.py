"""`barnabas groups` as users type it, on a scripted broker: output and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from client import cli
from client.commands.groups import _time_of
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_groups import ScriptedGroups


@pytest.fixture
def broker():
    with ScriptedBroker(ScriptedGroups().answers) as scripted:
        yield scripted


def invoke(broker, *arguments):
    return CliRunner().invoke(
        cli.main, ["groups", *arguments], env={"BARNABAS_BOOTSTRAP": broker.address}
    )


def committed(broker):
    """Return the committed offsets by topic and partition."""
    return {
        (topic.name, one.partition_index): one.committed_offset
        for request in broker.requests
        if isinstance(request, OffsetCommitRequest)
        for topic in request.topics
        for one in topic.partitions
    }


BOTH = {("orders", 0): 2, ("orders", 1): 2}
CASES = [
    ("list", 0, ["readers  Stable  consumer  consumer", "connect  Stable  classic   connect"]),
    ("describe readers", 0, ["State: Stable  Kind: consumer", "Lag: 6", "orders:0"]),
    ("describe readers", 0, ["orders          0          5   11   12    6  m1"]),
    ("describe old", 0, ["Kind: classic", "i1", "old-app", "orders:1", "gone"]),
    ("describe connect", 0, ["(not a consumer's)"]),
    ("describe idle readers", 0, ["Group: idle", "Group: readers"]),
    ("describe reader", 1, ["Did you mean readers?"]),
    ("describe", 2, ["Missing argument"]),
    ("delete idle --dry-run", 0, ["Would delete idle, 2 committed offsets"]),
    ("delete idle", 2, ["pass --yes"]),
    ("delete idle --yes", 0, ["Deleted 1 group."]),
    ("delete readers --yes", 1, ["is Stable and has 1 member (app): only a group without members"]),
    ("delete nobody --yes", 1, ["no group 'nobody'"]),
    ("reset-offsets idle", 2, ["Pass exactly one of --to-earliest"]),
    ("reset-offsets idle --to-latest --to-earliest", 2, ["Pass exactly one of --to-earliest"]),
    ("reset-offsets idle --to-time yesterday", 2, ["is not a time"]),
    ("reset-offsets idle --by-duration 1", 2, ["is not a duration"]),
    ("reset-offsets idle --to-latest --topic orders:x", 2, ["is not TOPIC"]),
    ("reset-offsets idle --to-latest --topic order", 1, ["Did you mean orders?"]),
    ("reset-offsets idle --to-latest --topic orders:2", 1, ["has partitions 0 to 1, not 2"]),
    ("reset-offsets readers --to-latest", 1, ["session times out"]),
    ("reset-offsets new --to-latest", 1, ["no group 'new'"]),
    ("reset-offsets idle --to-earliest --dry-run", 0, ["Would set 2 offsets of group idle."]),
    ("reset-offsets idle --to-earliest", 0, ["orders          0      10      2      2   12   10"]),
]


@pytest.mark.parametrize(("command", "code", "words"), CASES)
def test_a_command_prints_and_exits(broker, command, code, words):
    result = invoke(broker, *command.split())
    assert result.exit_code == code, result.output
    assert [word for word in words if word not in result.output] == []
    assert "Traceback" not in result.output
    if code or "--dry-run" in command:
        changes = (OffsetCommitRequest, DeleteGroupsRequest)
        assert not any(isinstance(request, changes) for request in broker.requests)


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ("idle --to-earliest", BOTH),
        ("idle --to-latest --topic orders:1", {("orders", 1): 12}),
        ("idle --to-offset 4", {("orders", 0): 4, ("orders", 1): 4}),
        ("idle --to-offset 0", BOTH),
        ("idle --to-time 1000", {("orders", 0): 6, ("orders", 1): 6}),
        ("idle --to-time 2026-01-01", {("orders", 0): 12, ("orders", 1): 12}),
        ("idle --by-duration 1h", {("orders", 0): 12, ("orders", 1): 12}),
        ("idle --shift-by -3", {("orders", 0): 7, ("orders", 1): 9}),
        ("new --to-earliest --topic orders", BOTH),
    ],
)
def test_each_option_resets_the_offsets(broker, options, offsets):
    result = invoke(broker, "reset-offsets", *options.split())
    assert result.exit_code == 0, result.output
    assert committed(broker) == offsets


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("list", lambda found: found[0]["group"] == "connect" and found[0]["kind"] == "classic"),
        ("describe readers", lambda found: found[0]["partitions"][0]["lag"] == 6),
        ("describe connect", lambda found: found[0]["members"][0]["partitions"] is None),
        ("describe old", lambda found: found[0]["partitions"][0]["end"] is None),
        ("delete idle --yes", lambda found: found["deleted"]),
        ("delete idle --dry-run", lambda found: found["groups"][0]["committed"] == 2),
        ("reset-offsets idle --to-latest", lambda found: found["partitions"][0]["before"] == 10),
        ("reset-offsets idle --to-latest --dry-run", lambda found: not found["reset"]),
    ],
)
def test_json_output(broker, command, check):
    result = invoke(broker, *command.split(), "--json")
    assert result.exit_code == 0, result.output
    assert check(json.loads(result.stdout))


def test_undeleted_groups_are_reported():
    scripted = ScriptedGroups()
    scripted.codes = {DeleteGroupsRequest: [68]}
    with ScriptedBroker(scripted.answers) as broker:
        result = invoke(broker, "delete", "idle", "--yes")
    assert result.exit_code == 1
    assert "group 'idle' was not deleted: NON_EMPTY_GROUP (68)" in result.output


def test_a_duration_is_subtracted_from_the_current_time():
    assert _time_of(None, "1h", wall_ns=lambda: 5_000_000 * 1_000_000) == 1_400_000
    assert _time_of(None, "2h", wall_ns=lambda: 5_000_000 * 1_000_000) == 0
