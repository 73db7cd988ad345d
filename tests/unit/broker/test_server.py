"""One broker in this process: from start to stop, and each way in which it cannot go on.

As a process, with signals from outside, it is tested in tests/integration.
"""

import asyncio
import gc
import logging
import resource
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import server
from broker.handlers import HANDLERS
from broker.io_worker import IoWorker
from broker.server import EXIT_CLEAN, EXIT_FAILED, EXIT_FORCED, Broker, run
from config.load import Loaded, load
from protocol.errors import ErrorCode
from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from storage.log_manager import LogManager
from tests.support import failures
from tests.support.broker_rig import Rig

API_VERSIONS = 18
FLEXIBLE_SINCE = 3


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """What startup keeps off the collector is for the life of a process, not of the tests."""
    yield
    gc.unfreeze()


def loaded(directory: Path, *settings: str, port: int = 0) -> Loaded:
    listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
    return load(
        file=None, environment={}, set_values=[listeners, *settings], data_dir=str(directory)
    )


def port_of(broker: Broker) -> int:
    ((_, port),) = broker._assembly.bound
    return port


async def served(broker: Broker) -> asyncio.Task[int]:
    """Run a broker as a task; return once it listens."""
    task = asyncio.create_task(broker.run())
    async with asyncio.timeout(5):
        while not broker._tasks:
            assert not task.done(), task.result()
            await asyncio.sleep(0.001)
    return task


async def api_versions(port: int, version: int = 0) -> ApiVersionsResponse:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = encode_message(ApiVersionsRequest(), 0)
    header = struct.pack(">hhih", API_VERSIONS, version, 1, -1)
    header += b"" if version < FLEXIBLE_SINCE else b"\0"  # no tagged fields
    writer.write(struct.pack(">i", len(header) + len(body)) + header + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    response, _ = decode_message(ApiVersionsResponse, 0, memoryview(answer), 4)
    assert isinstance(response, ApiVersionsResponse)
    return response


async def test_from_start_to_a_clean_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = Broker(loaded(tmp_path / "data"))
    running = await served(broker)
    port = port_of(broker)
    response = await api_versions(port)
    assert {row.api_key for row in response.api_keys} == {int(row.api_key) for row in HANDLERS}
    broker._signalled(signal.SIGTERM)
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
    broker = Broker(loaded(tmp_path / "data"))
    running = await served(broker)
    response = await api_versions(port_of(broker), version=99)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    broker._signalled(signal.SIGTERM)
    assert await running == EXIT_CLEAN


async def test_a_second_signal_hurries_and_the_stop_stays_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(loaded(tmp_path / "data", "barnabas.shutdown.deadline.ms=600000"))
    running = await served(broker)
    broker._answered = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    broker._signalled(signal.SIGTERM)
    await asyncio.sleep(0.01)
    assert not running.done()
    broker._signalled(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    (line,) = [message for message in caplog.messages if "SIGTERM again" in message]
    assert "only the disk is" in line
    assert not [message for message in caplog.messages if "does not answer" in message]


class Left(Exception):
    """The process would have ended here."""


def leave() -> None:
    raise Left


@pytest.mark.parametrize("count", [2, 3])
async def test_signals_at_any_step_of_a_stop_are_told_truthfully(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """A stop takes some twenty turns of the loop: the later signals come in each of them once."""
    for turns in range(0, 60, 3):
        caplog.clear()
        broker = Broker(loaded(tmp_path / f"{turns}"))
        running = await served(broker)
        broker._leave = leave  # type: ignore[method-assign]
        broker._signalled(signal.SIGTERM)
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(count - 1):
            broker._signalled(signal.SIGTERM)
        try:
            code = await running
        except Left:
            assert count == 3, turns
        else:
            is_marked = (tmp_path / f"{turns}" / ".kafka_cleanshutdown").exists()
            assert code == (EXIT_CLEAN if is_marked else EXIT_FORCED), turns
            assert count == 3 or is_marked, turns
        assert not [message for message in caplog.messages if "does not answer" in message]


async def test_a_stop_that_cannot_write_everything_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(loaded(tmp_path / "data"))
    running = await served(broker)
    close = broker._assembly.services.logs.close
    monkeypatch.setattr(
        broker._assembly.services.logs, "close", lambda **options: close(**options) and False
    )
    broker._signalled(signal.SIGTERM)
    assert await running == EXIT_FAILED


async def test_what_is_left_at_a_stop_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for leak in (0, 7):
        caplog.clear()
        broker = Broker(loaded(tmp_path / "data"))
        running = await served(broker)
        broker._assembly.budget.take(leak)
        task = asyncio.create_task(asyncio.sleep(60 * leak), name="forgotten")
        await asyncio.sleep(0)
        broker._signalled(signal.SIGTERM)
        assert await running == EXIT_CLEAN
        task.cancel()
        (line,) = [message for message in caplog.messages if "at rest" in message]
        if leak:
            assert line.startswith("not at rest at the stop")
            assert "7 request bytes" in line
            assert "task forgotten" in line
            assert len(failures.take()) == 1, "the fixture of every test would fail it"
        else:
            assert line == "at rest: nothing is held"


async def test_a_third_signal_leaves_as_a_crash_would(tmp_path: Path) -> None:
    broker = Broker(loaded(tmp_path / "data"))
    running = await served(broker)
    for _ in range(4):
        broker._signalled(signal.SIGINT)
    assert await running == EXIT_FORCED
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    rig = Rig(tmp_path / "data")  # the directory is free
    assert await rig.close()


async def test_a_task_that_ends_stops_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_: IoWorker) -> None:
        return

    monkeypatch.setattr(IoWorker, "run", ends)
    assert await Broker(loaded(tmp_path / "data")).run() == EXIT_FAILED
    said = [record for record in caplog.records if "has ended" in record.message]
    assert said
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "the data are not to blame"


async def test_a_taken_port_is_said_and_leaves_the_directory_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_in: list[str] = []
    close = LogManager.close

    def noted_close(logs: LogManager, *, clean: bool) -> bool:
        closed_in.append(threading.current_thread().name)
        return close(logs, clean=clean)

    monkeypatch.setattr(LogManager, "close", noted_close)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = Broker(loaded(tmp_path / "data", port=taken.getsockname()[1]))
        with pytest.raises(OSError, match=r"cannot listen on .*port taken"):
            await broker.run()
    assert "MainThread" not in closed_in
    assert closed_in
    rig = Rig(tmp_path / "data")
    assert rig.services.logs.directory.was_clean
    assert await rig.close()


async def test_a_listener_for_everyone_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Bound to loopback all the same: only the warning is of interest.
    real = server.bind
    monkeypatch.setattr(
        server, "bind", lambda listener, *rest: real(listener._replace(host="127.0.0.1"), *rest)
    )
    settings = ("listeners=PLAINTEXT://0.0.0.0:0", "advertised.listeners=PLAINTEXT://localhost:1")
    broker = Broker(
        load(file=None, environment={}, set_values=settings, data_dir=str(tmp_path / "data"))
    )
    running = await served(broker)
    broker._signalled(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert sum("open to the network" in message for message in caplog.messages) == 1


def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep `run` from arranging the logging and limits of this process."""
    monkeypatch.setattr(server.log_lines, "configure", lambda *_: None)
    monkeypatch.setattr(server, "_raise_descriptor_limit", lambda: None)
    monkeypatch.setattr(server, "_ignore_signals", lambda: None)


def test_run_says_in_one_line_why_it_cannot_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(monkeypatch)
    (tmp_path / "data").write_text("a file where the directory should be")
    assert run(loaded(tmp_path / "data")) == EXIT_FAILED
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert line.message.startswith("cannot go on: ")
    assert str(tmp_path / "data") in line.message
    assert line.exc_info is None


def test_run_passes_on_what_the_configuration_warned_of(
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


def test_the_limit_of_descriptors_is_raised_to_the_hard_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    for limits, expected in (((10, 20), [(20, 20)]), ((20, 20), [])):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        raised.clear()
        server._raise_descriptor_limit()
        assert raised == expected
