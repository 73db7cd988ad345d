"""A group that imports its subcommands when they are called."""

import json
import shlex
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from client.commands.lazy_group import LazyGroup
from tests.support.broker_process import BrokerProcess


@pytest.fixture
def group():
    sys.modules.pop("client.commands.dump", None)
    made = LazyGroup("main", lazy={"dump": "client.commands.dump:dump"})
    made.add_command(click.Command("here"))
    return made


def test_a_subcommand_is_imported_when_it_is_called(group):
    assert "client.commands.dump" not in sys.modules
    assert group.list_commands(click.Context(group)) == ["dump", "here"]
    result = CliRunner().invoke(group, ["dump", "--help"])
    assert result.exit_code == 0
    assert "client.commands.dump" in sys.modules


def test_a_registered_subcommand_needs_no_import(group):
    assert CliRunner().invoke(group, ["here"]).exit_code == 0
    assert "client.commands.dump" not in sys.modules


@pytest.mark.parametrize(("typed", "words"), [("dmp", "dump"), ("heer", "here")])
def test_a_misspelt_subcommand_gets_a_suggestion(group, typed, words):
    result = CliRunner().invoke(group, [typed])
    assert result.exit_code == 2
    assert words in result.output


def test_an_unlike_name_gets_no_suggestion(group):
    result = CliRunner().invoke(group, ["qqqqqqq"])
    assert result.exit_code == 2
    assert "mean" not in result.output


def run(arguments, tail="", **streams):
    command = f"exec {shlex.quote(sys.executable)} -m client.cli {arguments} {tail}"
    return subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize("arguments", ["--help", "--version", "topics list --help"])
def test_help_on_a_full_disk_fails_in_one_sentence(arguments):
    done = run(arguments, ">/dev/full")
    assert (done.returncode, done.stderr) == (1, "standard output: No space left on device\n")


@pytest.mark.parametrize("arguments", ["--help", "dump ."])
def test_a_closed_output_fails_in_one_sentence(arguments, tmp_path):
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    done = run(arguments.replace(" .", f" {tmp_path}"), ">&-")
    assert (done.returncode, done.stderr) == (1, "standard output: Bad file descriptor\n")


def test_nothing_is_read_from_a_closed_input(tmp_path):
    with BrokerProcess(tmp_path / "data", {"barnabas.http.listener": ""}) as broker:
        done = run(f"produce t --bootstrap {broker.address}", "<&-")
    assert done.returncode == 1
    assert "standard input: Bad file descriptor" in done.stderr


def test_a_closed_standard_error_changes_no_exit_code():
    assert run("serve --set num.partitions=x", "2>&-").returncode == 2


def test_ctrl_c_is_130_whatever_the_command_was_doing(group):
    def interrupted():
        raise KeyboardInterrupt

    group.add_command(click.Command("long", callback=interrupted))
    result = CliRunner().invoke(group, ["long"])
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("topics create --json", "Missing argument 'NAME'."),
        ("topics creat --json", "No such command 'creat'. Did you mean create?"),
        ("groups list --jsn --json", "No such option '--jsn'. Did you mean '--json'?"),
    ],
)
def test_a_wrong_command_line_is_json_for_programs(words, told):
    done = run(words, stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert json.loads(done.stdout) == {"error": told}
    assert told in done.stderr
    assert run(words.replace(" --json", ""), stdout=subprocess.PIPE).stdout == ""


def test_a_missing_path_is_json_for_programs(tmp_path):
    done = run(f"verify {tmp_path / 'missing'} --json", stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert json.loads(done.stdout) == {
        "error": f"{tmp_path / 'missing'}: no such file or directory"
    }


def test_a_name_that_is_no_text_is_refused_in_one_sentence(group):
    group.add_command(click.Command("name", callback=lambda: "\udcff".encode()))
    result = CliRunner().invoke(group, ["name"])
    assert result.exit_code == 2
    assert r"'\udcff' is not UTF-8" in result.output
