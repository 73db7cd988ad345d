"""One broker in this process: from start to stop, and each failure to start.

As a process, with signals from outside, it is tested in tests/integration.
"""

import asyncio
import logging
import signal
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from broker import server
from broker.handlers import HANDLERS
from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN, EXIT_FAILED
from broker.network.acceptor import bind
from broker.server import Broker, run
from config.load import load
from protocol.errors import ErrorCode
from storage.log_manager import LogManager
from tests.support.broker_rig import Rig
from tests.support.whole_broker import api_versions, loaded, port_of, served


async def test_from_start_to_a_clean_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)
    port = port_of(broker)
    response = await api_versions(port)
    assert {row.api_key for row in response.api_keys} == {int(row.api_key) for row in HANDLERS}
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    lines = [message for message in caplog.messages if "storage" not in message]
    wanted = [
        f"listening on PLAINTEXT://127.0.0.1:{port}",
        # testcontainers waits for these two.
        "Transitioning from RECOVERY to RUNNING",
        "started",
        "SIGTERM: stopping",
        "everything is on disk",
    ]
    found = [next(n for n, line in enumerate(lines) if words in line) for words in wanted]
    assert found == sorted(found)


async def test_an_unknown_version_over_the_wire_is_answered(tmp_path: Path) -> None:
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)
    response = await api_versions(port_of(broker), version=99)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN


async def test_a_port_in_use_is_reported_and_leaves_the_directory_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_in: list[str] = []
    close = LogManager.close

    def noted_close(logs: LogManager, **how: bool) -> bool:
        closed_in.append(threading.current_thread().name)
        return close(logs, **how)

    monkeypatch.setattr(LogManager, "close", noted_close)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = Broker(
            loaded(tmp_path / "data", port=taken.getsockname()[1]), system_environment()
        )
        with pytest.raises(OSError, match=r"cannot listen on .*another broker"):
            await broker.run()
    assert "MainThread" not in closed_in
    assert closed_in
    rig = Rig(tmp_path / "data")
    assert rig.services.logs.directory.was_clean
    assert await rig.close()


async def test_a_listener_beyond_loopback_logs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Bound to loopback all the same: only the warning is of interest.
    environment = replace(
        system_environment(),
        bind=lambda listener, *rest: bind(listener._replace(host="127.0.0.1"), *rest),
    )
    settings = ("listeners=PLAINTEXT://0.0.0.0:0", "advertised.listeners=PLAINTEXT://localhost:1")
    broker = Broker(
        load(file=None, environment={}, set_values=settings, data_dir=str(tmp_path / "data")),
        environment,
    )
    running = await served(broker)
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert sum("open to the network" in message for message in caplog.messages) == 1


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `run` from arranging the logging and limits of this process."""
    monkeypatch.setattr(server.log_lines, "configure", lambda *_: None)
    monkeypatch.setattr(server.process, "raise_descriptor_limit", lambda: None)
    monkeypatch.setattr(server.stop_signals, "ignore", lambda: None)


def test_run_reports_a_failed_start_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(monkeypatch)
    (tmp_path / "data").write_text("a file where the directory should be")
    assert run(loaded(tmp_path / "data")) == EXIT_FAILED
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.message.startswith("cannot start or continue: ")
    assert str(tmp_path / "data") in line.message
    assert line.exc_info is None


def test_run_logs_the_warnings_of_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    quiet(monkeypatch)

    async def ends(_: Broker) -> int:
        return EXIT_CLEAN

    monkeypatch.setattr(Broker, "run", ends)
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitons=3\ncompression.lz4.level=1\n")
    wanted = load(
        file=str(properties), environment={}, set_values=[], data_dir=str(tmp_path / "data")
    )
    assert run(wanted) == EXIT_CLEAN
    assert any("num.partitons" in message for message in caplog.messages)
    assert any("without effect" in message for message in caplog.messages)
