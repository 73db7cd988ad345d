"""`barnabas transactions` as users type it, on a scripted broker: output and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from client import cli
from client.commands.transactions import _row
from protocol.messages.describe_producers import ProducerState
from protocol.messages.describe_transactions import LastEnd, TransactionState
from protocol.messages.init_producer_id import InitProducerIdRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_transactions import ScriptedId, ScriptedTransactions


@pytest.fixture
def scripted():
    found = ScriptedTransactions()
    found.ids["open"] = ScriptedId(
        5, state="Ongoing", timeout_ms=60_000, partitions=[("orders", 0), ("bills", 0)]
    )
    ended = LastEnd(committed=False, reason="timeout", time_ms=1_700_000_000_123)
    found.ids["done"] = ScriptedId(4, 3, "CompleteAbort", timeout_ms=1_500, last_end=ended)
    return found


@pytest.fixture
def broker(scripted):
    with ScriptedBroker(scripted.answers) as found:
        yield found


def invoke(broker, *arguments):
    return CliRunner().invoke(
        cli.main, ["transactions", *arguments], env={"BARNABAS_BOOTSTRAP": broker.address}
    )


CASES = [
    ("list", 0, ["done              CompleteAbort            4", "open              Ongoing"]),
    ("list --state Ongoing --producer-id 5", 0, ["open"]),
    ("list --state Nope", 1, ["knows no state Nope"]),
    ("list --open-for soon", 2, ["is not a duration"]),
    ("list --blocking orders", 0, ["orders          0    7   12             7  open"]),
    ("list --blocking orders:1", 0, ["Nothing is open there."]),
    ("list --blocking orders:7", 1, ["has partitions 0 to 1, not 7"]),
    ("list --blocking :", 2, ["is not TOPIC"]),
    ("list --blocking order", 1, ["Did you mean orders?"]),
    ("list --blocking orders --pattern o.*", 2, ["--blocking takes no other filter"]),
    ("describe open", 0, ["State: Ongoing", "Open since: 2023-11-14T22:13:20.000Z, for"]),
    ("describe open", 0, ["Partitions: bills-0 orders-0"]),
    ("describe done", 0, ["Epoch: 3  Timeout: 1.5 s"]),
    (
        "describe done",
        0,
        ["Last one: aborted at 2023-11-14T22:13:20.123Z because it was open for longer"],
    ),
    ("describe opn", 1, ["no transactional id 'opn'", "Did you mean open?"]),
    ("abort open", 2, ["pass --yes"]),
    ("abort open --dry-run", 0, ["Would abort the transaction of open."]),
    ("abort open --yes", 0, ["Aborted the transaction of open; its producer is fenced."]),
    ("abort done --yes", 1, ["is CompleteAbort: it has no open transaction. Nothing was changed"]),
    ("abort nobody --yes", 1, ["no transactional id 'nobody'"]),
    ("find-hanging", 0, ["No transaction hangs."]),
    ("find-hanging --older-than long", 2, ["is not a duration"]),
]


@pytest.mark.parametrize(("command", "code", "words"), CASES)
def test_a_command_prints_and_exits(broker, command, code, words):
    result = invoke(broker, *command.split())
    assert result.exit_code == code, result.output
    assert [word for word in words if word not in result.output] == []
    assert "Traceback" not in result.output
    aborts = [one for one in broker.requests if isinstance(one, InitProducerIdRequest)]
    assert [one.by_operator for one in aborts] == ([True] if command == "abort open --yes" else [])


def test_an_abort_ends_the_whole_transaction_and_is_told_as_an_operators(scripted, broker):
    result = invoke(broker, "abort", "open", "--yes", "--json")
    told = json.loads(result.output)
    assert (told["aborted"], told["state"], told["producer_epoch"]) == (True, "Empty", 2)
    assert scripted.ids["open"].timeout_ms == 60_000
    assert "Last one: aborted at" in invoke(broker, "describe", "open").output
    assert "by an operator" in invoke(broker, "describe", "open").output


def test_json_has_every_field(broker):
    listed = json.loads(invoke(broker, "list", "--json").output)
    assert listed[0] == {"transactional_id": "done", "state": "CompleteAbort", "producer_id": 4}
    (described,) = json.loads(invoke(broker, "describe", "done", "--json").output)
    assert described["last_end"] == {
        "outcome": "aborted",
        "reason": "timeout",
        "time_ms": 1_700_000_000_123,
    }
    assert described["start_ms"] is None
    (blocking,) = json.loads(invoke(broker, "list", "--blocking", "orders", "--json").output)
    assert blocking["transactional_id"] == "open"
    assert (blocking["last_stable_offset"], blocking["end"]) == (7, 12)


def test_what_hangs_is_shown_with_the_reason(scripted, broker):
    scripted.strangers = [
        ProducerState(
            producer_id=99, producer_epoch=2, coordinator_epoch=0, current_txn_start_offset=3
        )
    ]
    result = invoke(broker, "find-hanging", "--topic", "orders")
    assert result.exit_code == 1
    assert "no transactional id has this producer id" in result.output
    (row,) = json.loads(invoke(broker, "find-hanging", "--json").output)
    assert (row["topic"], row["first_offset"], row["producer_id"]) == ("orders", 3, 99)


def test_how_long_a_transaction_is_open_is_never_negative():
    state = TransactionState(
        transactional_id="t", transaction_state="Ongoing", transaction_start_time_ms=2_000
    )
    assert _row(state, wall_ns=lambda: 3_500_000_000)["open_for_ms"] == 1_500
    assert _row(state, wall_ns=lambda: 0)["open_for_ms"] == 0
