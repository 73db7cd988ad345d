"""The command `barnabas-pipeline`, with fake pipelines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyspark_barnabas.jobs import cli
from pyspark_barnabas.jobs.session import Outcome
from pyspark_barnabas.wire.errors import BadOption, UnknownTopic

PIPELINES = Path(__file__).parents[1]


@pytest.fixture
def command(monkeypatch):
    """Return a function that runs a pipeline `fake` and returns (exit code, stdout, stderr)."""

    def call(work, *words):
        module = SimpleNamespace(
            add_arguments=lambda parser: parser.add_argument("--size", type=int), run=work
        )
        monkeypatch.setattr(cli, "import_module", lambda _name: module)
        monkeypatch.setitem(cli.PIPELINES, "fake", "does what a test wants")
        stdout, stderr = io.StringIO(), io.StringIO()
        code = cli.main(["fake", *words], spark=object(), stdout=stdout, stderr=stderr)
        return code, stdout.getvalue(), stderr.getvalue()

    return call


def fails_with(error):
    def work(_run):
        raise error

    return work


def test_a_person_gets_lines_and_a_program_one_object(command):
    def work(run):
        run.progress.say("on the way")
        return Outcome(facts={"size": run.arguments.size}, lines=["It is done."])

    code, said, progress = command(work, "--size", "3")
    assert (code, progress) == (0, "on the way\n")
    assert said.startswith("It is done.\nTook ")
    code, said, _ = command(work, "--size", "3", "--json")
    found = json.loads(said)
    assert found.pop("seconds") >= 0
    assert found == {"pipeline": "fake", "ok": True, "size": 3}
    assert command(work, "--quiet")[2] == ""


@pytest.mark.parametrize(
    ("error", "code", "kind", "words"),
    [
        (UnknownTopic("there is no x"), 1, "UnknownTopic", "there is no x"),
        (BadOption("give --topic"), 2, "BadOption", "give --topic"),
        (KeyboardInterrupt(), 130, "Interrupted", "interrupted"),
        (ZeroDivisionError("oh"), 1, "ZeroDivisionError", "unexpected: ZeroDivisionError: oh"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(command, error, code, kind, words):
    found, said, told = command(fails_with(error))
    assert (found, said) == (code, "")
    assert told.splitlines()[-1] == f"barnabas-pipeline: {words}"
    assert ("Traceback" in told) == (kind == "ZeroDivisionError")
    found, said, told = command(fails_with(error), "--json")
    assert found == code
    assert json.loads(said)["error"] == {"kind": kind, "text": words}
    assert words in told


def test_the_trace_is_there_for_who_asks(command):
    assert "Traceback" in command(fails_with(UnknownTopic("x")), "--trace")[2]


@pytest.mark.parametrize(
    "words", [[], ["nothing"], ["fake", "--size", "x"], ["fake", "--conf", "x"]]
)
def test_a_wrong_command_line_is_exit_code_2(command, words, capsys):
    with pytest.raises(SystemExit) as ended:
        command(fails_with(AssertionError()), *words[1:]) if words[:1] == ["fake"] else cli.main(
            words
        )
    assert ended.value.code == 2
    assert "usage: barnabas-pipeline" in capsys.readouterr().err


def test_it_is_a_file_for_spark_submit_too():
    done = subprocess.run(
        [sys.executable, "-m", "pyspark_barnabas.jobs.cli", "--where"],
        cwd=PIPELINES, capture_output=True, text=True, check=True,
    )  # fmt: skip
    path = done.stdout.strip()
    assert Path(path).samefile(cli.__file__)
    done = subprocess.run(
        [sys.executable, path, "--help"], env={"PYTHONPATH": str(PIPELINES)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert all(name in done.stdout for name in cli.PIPELINES)


def test_every_pipeline_has_its_module():
    for name in cli.PIPELINES:
        parser = cli.make_parser([name])
        assert "--master" in parser._subparsers._group_actions[0].choices[name].format_help()


def test_a_reader_that_has_had_enough_is_no_error():
    """As `barnabas-pipeline … | head`."""
    script = (
        "import sys, types; from pyspark_barnabas.jobs import cli, session\n"
        "work = lambda _: session.Outcome(facts={}, lines=['x' * 99] * 9999)\n"
        "module = types.SimpleNamespace(add_arguments=lambda _: None, run=work)\n"
        "cli.import_module = lambda _: module\n"
        "sys.exit(cli.main(['report'], spark=object()))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=PIPELINES, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
