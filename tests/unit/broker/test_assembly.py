"""Putting a broker together: what the configuration and an open directory become."""

import asyncio
import os
from pathlib import Path

import pytest

from broker.assembly import assemble
from broker.data_directory import open_directory
from broker.handlers import HANDLERS
from broker.runtime.blocking_pool import thread_executor
from broker.runtime.clock import SystemClock
from config.listeners import Listener
from config.load import Loaded, load
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from storage.files.os_filesystem import OsFileSystem
from tests.support.authorizing import AUTHORIZED
from tests.support.broker_rig import LISTENER, Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import crash, create, produce


def loaded(directory: Path, *settings: str) -> Loaded:
    return load(file=None, environment={}, set_values=settings, data_dir=str(directory))


def told(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [message for message in caplog.messages if part in message]


@pytest.mark.parametrize("read_only", ["false", "true"])
async def test_a_directory_of_no_topic_is_put_aside_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, read_only: str
) -> None:
    first = Rig(tmp_path / "data")
    await create(first)
    assert await first.close()
    stray = tmp_path / "data" / "stranger-0"
    stray.mkdir()
    (stray / "00000000000000000000.log").write_bytes(b"something")
    (tmp_path / "data" / "notes.txt").write_text("mine")
    second = Rig(tmp_path / "data", barnabas_read_only=read_only)
    assert told(caplog, "stranger-0")
    assert told(caplog, "notes.txt in the data directory belongs to no topic")
    assert await second.close()
    if read_only == "false":
        (stray,) = (tmp_path / "data").glob("stranger-0.*-stray")
    assert (stray / "00000000000000000000.log").read_bytes() == b"something"
    assert (tmp_path / "data" / "t-0").is_dir()


async def test_versions_are_those_of_the_table_but_for_produce(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    rows = {row.api_key: (row.min_version, row.max_version) for row in rig.services.api_versions}
    for handler in HANDLERS:
        lowest = 0 if handler.api_key == ApiKey.PRODUCE else handler.min_version
        assert rows.pop(handler.api_key) == (lowest, handler.max_version)
    assert rows == {}
    assert rig.services.served_keys == {int(row.api_key) for row in HANDLERS}
    assert await rig.close()


async def test_topics_take_the_configs_of_the_operator(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", log_retention_hours="1", message_max_bytes="2000000")
    await create(rig, retention_bytes="77")
    config = rig.services.partitions.get("t", 0).log.config
    assert (config.retention_ms, config.max_message_bytes) == (3_600_000, 2_000_000)
    assert config.retention_bytes == 77
    assert await rig.close()


async def test_it_listens_after_recovery_and_advertises_the_port_it_got(tmp_path: Path) -> None:
    first = Rig(tmp_path / "data")
    await create(first)
    await produce(first, batch(b"a"))
    await crash(first)
    config = loaded(tmp_path / "data")
    opened = open_directory(config.config, OsFileSystem(), SystemClock(), os.urandom)
    recovered = []

    def bind() -> list[tuple[Listener, int]]:
        recovered.append(opened.logs.get("t", 0).high_watermark)
        return [(LISTENER._replace(port=0), 54_321)]

    loop = asyncio.get_running_loop()
    parts = assemble(config, opened, bind, SystemClock(), os.urandom, thread_executor, loop)
    assert recovered == [1]
    assert parts.services.advertised.endpoint(FakeConnection().info) == ("127.0.0.1", 54_321)
    assert parts.services.logs.close(clean=True)
    parts.services.pool.close()


async def test_a_flush_that_ends_wakes_readers_and_queued_appends(tmp_path: Path) -> None:
    """The three that wait on a partition are tied to each other here and nowhere else."""
    rig = Rig(tmp_path / "data")
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = 1  # as though a flush hung: appends queue
    queued = asyncio.create_task(produce(rig, batch(b"a"), acks=1))
    while not rig.services.metrics.appends_queued:
        await asyncio.sleep(0)
    partition.flush_started_ns = 0
    # The flush of another partition has ended: that looks at every queue.
    await create(rig, "other")
    await produce(rig, batch(b"b"), topic="other")
    assert await queued == 0
    code = await rig.services.commit.durable(partition, 1, 5_000)
    assert code == ErrorCode.NONE
    assert await rig.close()


async def test_the_coordinator_is_created_on_first_use_and_existing_groups_are_loaded(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "t")
    await produce(rig, batch(b"x"))
    assert not rig.services.has_groups
    asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    answer = await rig.call(asked, 6)
    assert answer.coordinators[0].error_code == ErrorCode.NONE
    assert rig.services.has_groups
    assert await rig.close()
    again = Rig(tmp_path / "data")
    assert again.services.has_groups
    assert await again.close()


async def test_super_users_without_an_authorizer_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path / "data", super_users="User:admin")
    assert rig.services.authorizer is None
    assert len(told(caplog, "super.users is set, but authorizer.class.name is not")) == 1
    assert await rig.close()


async def test_open_doors_are_warned_of_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path / "data", **{**AUTHORIZED, "super_users": ""})
    assert rig.services.authorizer is not None
    assert len(told(caplog, "super.users is empty")) == 1
    assert len(told(caplog, "MSGPACK has no authentication")) == 1
    assert await rig.close()
