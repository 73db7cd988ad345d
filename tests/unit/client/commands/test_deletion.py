"""Deletion by a command: it lists, asks, deletes, and counts."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from client.commands import deletion


class Terminal:
    @staticmethod
    def isatty():
        return True


@pytest.fixture
def command():
    gone = []

    @click.command()
    @click.argument("names", nargs=-1)
    @click.option("--json", "as_json", is_flag=True)
    @deletion.deletes
    def delete(names, deletion):
        rows = [{"name": name} for name in names]

        def do():
            gone.extend(names)
            return [f"{name} was refused" for name in names if name == "bad"]

        deletion.run("topic", rows, lambda row: f"{row['name']}, all of it", do)

    def run(*args, **how):
        return CliRunner().invoke(delete, args, **how), gone

    return run


def test_a_deletion_is_listed_done_and_counted(command):
    result, gone = command("a", "b", "--yes")
    assert result.output.splitlines() == [
        "To be deleted: a, all of it",
        "To be deleted: b, all of it",
        "Deleted 2 topics.",
    ]
    assert (result.exit_code, gone) == (0, ["a", "b"])


def test_a_dry_run_deletes_nothing(command):
    result, gone = command("a", "--dry-run")
    assert (result.output, gone) == ("Would delete a, all of it\n", [])


def test_json_output_is_one_object_and_asks_no_question(command):
    result, gone = command("a", "--json")
    assert (result.exit_code, gone) == (2, [])
    result, gone = command("a", "--json", "--yes")
    assert result.output == '{"deleted": true, "topics": [{"name": "a"}]}\n'


def test_without_a_terminal_a_deletion_needs_yes(command):
    result, gone = command("a")
    assert (result.exit_code, gone) == (2, [])
    assert "Not a terminal; pass --yes to delete" in result.output


@pytest.mark.parametrize(("answer", "deleted"), [("y", ["a"]), ("n", [])])
def test_on_a_terminal_the_command_asks(monkeypatch, answer, deleted):
    monkeypatch.setattr(click, "confirm", lambda _text, abort: answer == "y" or _abort())
    monkeypatch.setattr(deletion.sys, "stdin", Terminal)

    def _abort():
        raise click.Abort

    confirmed = deletion.Deletion(yes=False, dry_run=False, as_json=False)
    gone = []
    if deleted:
        confirmed.run("topic", [{}], lambda _row: "a", lambda: gone.append("a") or [])
    else:
        with pytest.raises(click.Abort):
            confirmed.run("topic", [{}], lambda _row: "a", lambda: gone.append("a") or [])
    assert gone == deleted


def test_a_refusal_by_the_broker_is_reported_and_the_exit_code_is_1(command):
    result, _ = command("bad", "--yes")
    assert result.exit_code == 1
    assert "bad was refused" in result.output
    assert "Deleted" not in result.output
