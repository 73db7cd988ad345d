"""The tasks of a broker run until a stop is requested."""

from pathlib import Path

import pytest

from broker.io_worker import IoWorker
from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_FAILED
from broker.server import Broker
from tests.support.whole_broker import loaded


async def test_a_task_that_ends_stops_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(_: IoWorker) -> None:
        return

    monkeypatch.setattr(IoWorker, "run", ends)
    assert await Broker(loaded(tmp_path / "data"), system_environment()).run() == EXIT_FAILED
    said = [record for record in caplog.records if "ended unexpectedly" in record.message]
    assert said
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "the data directory stays clean"
