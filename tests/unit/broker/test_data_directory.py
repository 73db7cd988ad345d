"""A start opens its directory: a new one, its own, another broker's, or an unusable one."""

import logging
import os
from pathlib import Path

import pytest

from broker import data_directory
from broker.data_directory import Opened, open_directory
from broker.runtime.clock import SystemClock
from config.broker import BrokerConfig
from config.load import Loaded, load
from storage.errors import CorruptMetadata, DirectoryLocked
from storage.files.os_filesystem import OsFileSystem
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create, produce


def loaded(directory: Path, *settings: str) -> Loaded:
    return load(file=None, environment={}, set_values=settings, data_dir=str(directory))


def opened_directory(config: BrokerConfig) -> Opened:
    return open_directory(config, OsFileSystem(), SystemClock(), os.urandom)


def told(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [message for message in caplog.messages if part in message]


async def test_a_new_directory_is_created(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig(tmp_path / "data")
    assert told(caplog, ": new, 0 topics with 0 partitions")
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert {"meta.properties", ".lock", "__cluster_metadata-0"} <= names
    assert rig.services.node_id == 1
    assert len(rig.services.cluster_id) == 22
    assert await rig.close()


def test_a_new_directory_gets_the_cluster_id_that_is_set_and_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for wanted, warned in (("first+/==", False), ("", False), ("second", True)):
        caplog.clear()
        config = loaded(tmp_path / "data", f"barnabas.cluster.id={wanted}").config
        opened = opened_directory(config)
        assert opened.logs.directory.meta.cluster_id == "first+/=="
        assert bool(told(caplog, "ignoring barnabas.cluster.id=second")) == warned
        assert opened.logs.close(clean=True)


async def test_a_node_id_that_owns_no_partition_is_refused(tmp_path: Path) -> None:
    """One bit of meta.properties: every good partition would be unknown."""
    rig = Rig(tmp_path / "data")
    await create(rig)
    assert await rig.close()
    path = tmp_path / "data" / "meta.properties"
    sound = path.read_text()
    path.write_text(sound.replace("node.id=1", "node.id=0"))
    with pytest.raises(CorruptMetadata, match=r"node\.id=0, but the metadata has t-0"):
        opened_directory(loaded(tmp_path / "data").config)
    path.write_text(sound)
    rig = Rig(tmp_path / "data")
    assert rig.services.partitions.get("t", 0)
    assert await rig.close()


async def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    with pytest.raises(DirectoryLocked):
        opened_directory(loaded(tmp_path / "data").config)
    assert await rig.close()


@pytest.mark.parametrize("operation", ["lock", "mkdir", "unlink"])
async def test_a_directory_without_permission_is_reported_with_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "data"
    if operation == "unlink":
        assert await Rig(path).close()

    def refuse(_: OsFileSystem, path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(OsFileSystem, operation, refuse)
    with pytest.raises(PermissionError) as caught:
        opened_directory(loaded(path).config)
    assert f"Permission denied for uid {os.getuid()}: '{path}" in str(caught.value)


async def test_a_failed_start_unlocks_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(data_directory, "open_metadata_log", broken)
        with pytest.raises(OSError, match="Input/output error"):
            opened_directory(loaded(tmp_path / "data").config)
    rig = Rig(tmp_path / "data")  # not locked
    assert await rig.close()


@pytest.mark.parametrize("is_clean", [True, False])
async def test_topics_and_records_survive_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_clean: bool
) -> None:
    caplog.set_level(logging.INFO)
    first = Rig(tmp_path / "data")
    topic_id = await create(first, "t", 3)
    await produce(first, batch(b"a", b"b"), partition=2)
    cluster_id = first.services.cluster_id
    if is_clean:
        assert await first.close()
    else:
        await crash(first)
    second = Rig(tmp_path / "data")
    words = "stopped cleanly" if is_clean else "recovering"
    assert told(caplog, f": {words}, 1 topics with 3 partitions")
    assert second.services.cluster_id == cluster_id
    topic = second.services.topics.by_id(topic_id)
    assert topic is not None
    assert topic.name == "t"
    log = second.services.partitions.get("t", 2).log
    assert (log.end_offset, log.high_watermark) == (2, 2)
    assert log.leader_epoch == (0 if is_clean else 1)
    assert await second.close()
