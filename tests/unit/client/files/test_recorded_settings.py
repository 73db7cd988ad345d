"""Removal of recorded settings from a directory that no broker runs on."""

from pathlib import Path

import pytest

from broker.configs.changes import SET, Operation, Resource
from broker.metadata.image import CONFIG_BROKER
from client.files.recorded_settings import unset_recorded
from client.files.stopped_directory import NotRecorded
from storage.errors import DirectoryLocked
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create, produce

KEY = "max.connections.per.ip.overrides"


async def recorded(directory: Path, *, clean: bool = True) -> None:
    """Make a directory that records one setting of all brokers and one of broker 1."""
    rig = Rig(directory)
    await create(rig)
    await produce(rig, batch(b"a"))
    for name, text in (("", "127.0.0.1:0"), ("1", "127.0.0.1:1")):
        change = Resource(CONFIG_BROKER, name, [Operation(KEY, SET, text)])
        assert await rig.services.configs.alter([change]) == [None]
    with pytest.raises(DirectoryLocked):
        unset_recorded(str(directory), [""], [KEY])
    if clean:
        assert await rig.close()
    else:
        await crash(rig)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_removed_setting_is_gone_at_the_next_start(tmp_path: Path, clean: bool) -> None:
    data = tmp_path / "data"
    await recorded(data, clean=clean)
    assert unset_recorded(str(data), ["", "1"], [KEY]) == [
        ("", KEY, "127.0.0.1:0"),
        ("1", KEY, "127.0.0.1:1"),
    ]
    assert (data / ".kafka_cleanshutdown").exists() is clean
    rig = Rig(data)
    assert rig.services.logs.directory.was_clean is clean
    assert rig.services.config.connection_limits == {}
    assert await produce(rig, batch(b"b")) == 1
    assert await rig.close()


async def test_removing_an_unrecorded_setting_changes_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await recorded(data)
    with pytest.raises(NotRecorded, match=r"num\.partitions is not recorded for broker 1"):
        unset_recorded(str(data), ["1"], [KEY, "num.partitions"])
    rig = Rig(data)
    assert rig.services.logs.directory.was_clean
    assert rig.services.config.connection_limits == {"127.0.0.1": 1}
    assert await rig.close()


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match=r"no meta\.properties"):
        unset_recorded(str(tmp_path / "none"), [""], [KEY])
    assert not (tmp_path / "none").exists()
