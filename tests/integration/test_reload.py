"""SIGHUP to a broker as a user runs it: its log file, its configuration file, and its window."""

import json
import os
import pty
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerNotReady, BrokerProcess
from tests.support.patience import Limit
from tests.support.raw_client import RawClient


@pytest.fixture(autouse=True)
def _without_nohup() -> Iterator[None]:
    """Under nohup a broker would inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def until(said: str, path: Path) -> str:
    """Wait until a file holds a text; return the file's."""
    limit = Limit(30)
    while not path.exists() or said not in path.read_text():
        assert not limit.is_over, (said, path.exists() and path.read_text())
        time.sleep(0.01)
    return path.read_text()


class FileBroker(BrokerProcess):
    """A broker with a properties file."""

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self.data.parent / "server.properties")]


def test_a_broker_is_reloaded_and_goes_on_serving(tmp_path: Path) -> None:
    file, lines = tmp_path / "server.properties", tmp_path / "broker.log"
    file.write_text(
        f"barnabas.log.file={lines}\nbarnabas.log.format=json\nmessage.max.bytes=1000\n"
    )
    with FileBroker(tmp_path / "data", {}) as broker:
        until("Kafka Server started", lines)
        rotated = lines.rename(tmp_path / "broker.log.1")
        file.write_text(
            f"barnabas.log.file={lines}\nbarnabas.log.format=json\nmessage.max.bytes=2000\n"
            "num.io.threads=3\nbarnabas.log.level=DEBUG\n"
        )
        broker.send_signal(signal.SIGHUP)
        said = [json.loads(line) for line in until("num.io.threads", lines).splitlines()]
        fields = {name: text for one in said for name, text in one.get("fields", {}).items()}
        assert fields["changed"] == "barnabas.log.level, message.max.bytes"
        assert fields["restart"] == "num.io.threads"
        with RawClient(broker.host, broker.port) as client:
            client.api_versions()
        file.write_text("num.partitions=none\n")
        broker.send_signal(signal.SIGHUP)
        assert "server.properties:1" in until("kept as it is", lines)
        assert broker.stop() == 0
    assert "at rest: nothing is held" in lines.read_text()  # a DEBUG line
    assert "Kafka Server started" in rotated.read_text()
    assert broker.output() == ""


def test_a_log_file_that_cannot_be_opened_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"barnabas.log.file": str(tmp_path / "no" / "file")})
    with pytest.raises(BrokerNotReady, match=r"cannot start: barnabas\.log\.file"):
        broker.start()
    assert not broker.data.exists()


def test_a_broker_stops_when_its_window_is_closed(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"barnabas.log.file": str(tmp_path / "lines")})
    child, window = pty.fork()
    if child == 0:
        os.execv(broker.command()[0], broker.command())
    try:
        until("Kafka Server started", tmp_path / "lines")
        os.close(window)
        until("stopped; everything is on disk", tmp_path / "lines")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
