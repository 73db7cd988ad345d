"""Tables, on a terminal and elsewhere, and refusals."""

import sys

import click
import pytest
from click.testing import CliRunner

from client.commands.output import broker_options, refusing, show_json, show_table
from client.kafka.connection import BrokerError

ROWS = [["orders", 12, None], ["p[red]", 3, "x"]]


def test_columns_are_aligned(capsys):
    show_table(["Topic", "Count", "More"], ROWS)
    assert capsys.readouterr().out == "Topic   Count  More\norders     12\np[red]      3  x\n"
    show_table(["Topic"], [])
    assert capsys.readouterr().out == "Topic\n"


def test_a_terminal_gets_a_table_without_markup(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    show_table(["Topic", "Count", "More"], ROWS)
    out = capsys.readouterr().out
    assert all(word in out for word in ("Topic", "orders", "12", "p[red]"))


def test_a_table_wider_than_the_terminal_keeps_its_words_whole(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    rows = [["member-" + "a" * 60, "orders:0,1"], ["member-" + "b" * 60, None]]
    show_table(["Member", "Partitions"], rows)
    assert click.unstyle(capsys.readouterr().out).splitlines() == [
        "Member      member-" + "a" * 60,
        "Partitions  orders:0,1",
        "",
        "Member      member-" + "b" * 60,
        "Partitions",
    ]


def test_json_is_one_line(capsys):
    show_json({"a": "é"})
    assert capsys.readouterr().out == '{"a": "é"}\n'


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--bootstrap", "h:1"], 1, "h:1 10.0 False: refused"),
        (["--timeout", "2", "--json"], 1, "127.0.0.1:9092 2.0 True: refused"),
        (["--timeout", "0"], 2, "Invalid value"),
    ],
)
def test_a_refusal_is_printed_as_one_sentence(arguments, code, words):
    @click.command()
    @broker_options
    @refusing
    def command(*, bootstrap, timeout_s, as_json):
        raise BrokerError(f"{bootstrap} {timeout_s} {as_json}: refused")

    result = CliRunner(env={"BARNABAS_BOOTSTRAP": None}).invoke(command, arguments)
    assert result.exit_code == code
    assert words in result.output
