"""The units of systemd that `barnabas unit` prints."""

from configparser import ConfigParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.cli import main
from client.commands.unit import quoted


class Unit(ConfigParser):
    """A unit, whose keys keep their case, and may be repeated: the last one holds."""

    optionxform = staticmethod(str)

    def __init__(self, text: str) -> None:
        super().__init__(strict=False, interpolation=None)
        self.read_string(text)


def run(*words: str) -> str:
    done = CliRunner().invoke(main, ["unit", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_service_runs_the_broker_that_the_options_describe(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/srv/logs\nbarnabas.log.file=/var/log/barnabas/broker.log\n")
    service = Unit(run("--config", str(file), "--set", "num.partitions=3", "--user", "kafka"))
    command = service["Service"]["ExecStart"]
    assert command.endswith(f"serve --config {file} --set num.partitions=3")
    assert command.startswith("/")
    assert service["Service"]["Type"] == "notify"
    assert service["Service"]["User"] == "kafka"
    assert service["Service"]["ReadWritePaths"] == "/srv/logs /var/log/barnabas"
    assert "Requires" not in service["Unit"]
    assert service["Service"]["TimeoutStopSec"] == "90"


@pytest.mark.parametrize(
    ("data", "home"),
    [("/srv/logs", "yes"), ("/run/user/1/logs", "read-only"), ("/homestead", "yes")],
)
def test_what_is_in_a_home_is_not_hidden(
    data: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("client.commands.unit._program", lambda: ["/usr/bin/barnabas"])
    service = Unit(run("--data", data, "--set", "barnabas.shutdown.deadline.ms=5000"))
    assert service["Service"]["ProtectHome"] == home
    assert service["Service"]["TimeoutStopSec"] == "65"


def test_an_unknown_host_is_refused() -> None:
    words = ["unit", "--socket", "--set", "listeners=PLAINTEXT://nowhere.invalid:9092"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "nowhere.invalid has no address" in done.output


def test_sockets_are_those_of_the_listeners(tmp_path: Path) -> None:
    listeners = "listeners=PLAINTEXT://:9092,MSGPACK://localhost:9094"
    run("--socket", "--data", "data", "--set", listeners, "--write", str(tmp_path))
    text = (tmp_path / "barnabas.socket").read_text()
    streams = [line.partition("=")[2] for line in text.splitlines() if line.startswith("Listen")]
    assert streams == ["9092", "127.0.0.1:9094", "127.0.0.1:9095"]
    service = Unit((tmp_path / "barnabas.service").read_text())
    assert service["Unit"]["Requires"] == "barnabas.socket"
    assert str(Path("data").absolute()) in service["Service"]["ExecStart"]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("plain", "plain"),
        ("/srv/my data", '"/srv/my data"'),
        ("100%", "100%%"),
        ("$HOME", "$$HOME"),
        ('a "b"', '"a \\"b\\""'),
    ],
)
def test_words_mean_themselves(word: str, shown: str) -> None:
    assert quoted(word) == shown


def test_lines_stay_one_line_and_paths_have_no_variables() -> None:
    assert quoted("key=one\ntwo\t\r") == r'"key=one\ntwo\t\r"'
    assert quoted("") == '""'
    assert quoted("/srv/a$b%c", is_command=False) == "/srv/a$b%%c"


def test_a_refused_configuration_gives_no_unit() -> None:
    done = CliRunner().invoke(main, ["unit", "--set", "num.partitons=1"])
    assert done.exit_code == 2
    assert "did you mean num.partitions" in done.output
