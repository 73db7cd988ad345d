"""A reload in a whole broker: what takes effect, what waits, and what a bad file leaves."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.lifecycle.reloading import Reloading
from broker.runtime import log_lines
from config.errors import ConfigError
from config.load import Loaded, load
from tests.support.broker_rig import Rig
from tests.support.rig_client import create


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


async def reload(rig: Rig, settings: list[str], caplog: pytest.LogCaptureFixture) -> str:
    """Reload once with other settings; return what the broker said."""
    own = [f"{one.name}={one.text}" for one in rig.services.configs.settings.loaded.static.values()]
    asked, read = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def again() -> Loaded:
        loop.call_soon_threadsafe(read.set)
        return load(set_values=[*own, *settings])

    caplog.clear()
    caplog.set_level("INFO")
    running = asyncio.create_task(Reloading(again, None).run(rig.services, asked))
    asked.set()
    async with asyncio.timeout(30):
        await read.wait()
        while "SIGHUP" not in caplog.text:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    return caplog.text


@pytest.fixture(autouse=True)
def _same_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "set_level", lambda _: None)


async def test_a_changed_default_reaches_logs_that_are_open(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    await create(rig, "t")
    said = await reload(rig, ["log.retention.ms=123456", "num.io.threads=3"], caplog)
    assert "changed: log.retention.ms" in said
    assert "only a restart makes it so: num.io.threads" in said
    log = rig.services.partitions.get("t", 0).log
    assert log.config.retention_ms == 123456
    rows = {row.name: row.value for row in rig.services.configs.broker()}
    assert rows["log.retention.ms"] == "123456"


async def test_a_bad_file_changes_nothing(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    before = rig.services.configs.settings.loaded
    said = await reload(rig, ["num.partitions=many"], caplog)
    assert "the configuration is kept as it is: " in said
    assert rig.services.configs.settings.loaded is before


async def test_a_later_reload_names_what_still_waits(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert "num.io.threads" in await reload(rig, ["num.io.threads=3"], caplog)
    said = await reload(rig, ["message.max.bytes=3"], caplog)
    assert "changed: message.max.bytes" in said
    assert "restart" not in said


async def test_a_value_that_cannot_go_with_those_that_stay_is_refused(rig: Rig) -> None:
    settings = rig.services.configs.settings
    texts = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"}
    own = [f"{one.name}={one.text}" for one in settings.loaded.static.values()]
    before = settings.loaded
    changed = load(set_values=[*own, *(f"{name}={text}" for name, text in texts.items())])
    with pytest.raises(ConfigError):
        settings.replace_static(before.with_static(changed, ["max.connections.per.ip"]))
    assert settings.loaded is before
