"""The command line: the configuration that it passes to the broker, and its refusals."""

import subprocess
import sys
import types

import pytest
from click.testing import CliRunner

from client import cli


@pytest.fixture
def served(monkeypatch):
    """Replace broker.server: keep its arguments, and return exit code 0."""
    calls = []

    def run(loaded, read):
        calls.append(loaded)
        return 0

    module = types.ModuleType("broker.server")
    module.run = run
    monkeypatch.setitem(sys.modules, "broker.server", module)
    for name in list(cli.os.environ):
        if name.startswith(("KAFKA_", "BARNABAS_")):
            monkeypatch.delenv(name)
    return calls


def invoke(*arguments):
    return CliRunner().invoke(cli.main, arguments)


def test_serve_passes_the_whole_configuration(served, tmp_path, monkeypatch):
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nnum.io.threads=2\nnum.network.threads=2\n")
    monkeypatch.setenv("KAFKA_NUM_IO_THREADS", "3")
    monkeypatch.setenv("BARNABAS_NUM_NETWORK_THREADS", "3")
    result = invoke(
        "serve",
        *("--config", str(path), "--data", "/d"),
        *("--set", "num.network.threads=4"),
        *("--set", "listeners=PLAINTEXT://127.0.0.1:19092"),
    )
    config = served[0].config
    assert result.exit_code == 0
    assert (config.num_partitions, config.num_io_threads, config.num_network_threads) == (2, 3, 4)
    assert config.data_directory == "/d"
    assert config.served_listeners[0].port == 19092


def test_the_command_returns_the_brokers_exit_code(served, monkeypatch):
    monkeypatch.setattr(sys.modules["broker.server"], "run", lambda _loaded: 1)
    assert invoke("serve").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "num.partitions=0"], "num.partitions=0: this value is not allowed; allowed: 1"),
        (["--set", "num.partitions"], "not KEY=VALUE"),
        (["--config", "/nowhere/x.properties"], "/nowhere/x.properties cannot be read"),
        (["--nonsense"], "No such option"),
        (["surplus"], "unexpected extra argument"),
    ],
)
def test_a_start_with_bad_arguments_fails_with_2_and_the_reason(served, arguments, words):
    result = invoke("serve", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert served == []


def test_the_reason_is_the_same_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    cli._say("a=[b]: no")
    assert "a=[b]: no" in capsys.readouterr().err


def test_the_version_is_shown():
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.startswith("barnabas ")


def test_help_states_the_contract():
    output = invoke("serve", "--help").output
    assert all(option in output for option in ("--config FILE", "--data DIR", "--set KEY=VALUE"))


def test_a_start_imports_only_what_it_uses():
    script = (
        "import sys; import client.cli; from config.load import load; load();"
        "print(*sorted({'rich', 'uvloop', 'asyncio', 'difflib', 'importlib.metadata'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
