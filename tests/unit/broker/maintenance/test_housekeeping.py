"""Housekeeping: each duty runs by itself, runs again after a failure, and ends at the stop.

Tickers with a period of a second have a period of a millisecond here.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.maintenance import housekeeping
from broker.maintenance.housekeeping import Housekeeping
from protocol.errors import ErrorCode
from storage.checkpointing import Checkpoint
from storage.files.open_files import OpenFiles
from storage.log import Log
from storage.trimming import SegmentDeletion
from tests.support import failures
from tests.support.broker_process import ROOT
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import create, produce

FAST = {
    "barnabas_recovery_point_interval_ms": "10",
    "log_retention_check_interval_ms": "1",
    "log_initial_task_delay_ms": "0",
    "producer_id_expiration_check_interval_ms": "1",
    "producer_id_expiration_ms": "1",
}


class FakeProcessor:
    """Counts how often it was swept; the first time fails if asked to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.swept = 0
        self.fails = fails

    def sweep(self) -> None:
        self.swept += 1
        if self.fails and self.swept == 1:
            raise RuntimeError("this is a bug")


class House:
    """A broker whose housekeeping runs."""

    def __init__(self, directory: Path) -> None:
        settings = {name.replace("_", "."): value for name, value in FAST.items()}
        self.rig = Rig(directory, **settings)
        self.processor = FakeProcessor()
        self.keeping = Housekeeping(self.rig.services, [self.processor])  # type: ignore[list-item]

    def log(self, topic: str = "t") -> Any:
        return self.rig.services.partitions.get(topic, 0).log

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr(housekeeping, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(housekeeping, "DEADLINE_TICK_SECONDS", 0.001)
    made = House(tmp_path / "data")
    yield made
    await made.keeping.stop()
    assert await made.rig.close()


async def test_commits_whose_deadline_has_passed_are_answered(house: House) -> None:
    await create(house.rig)
    partition = house.rig.services.partitions.get("t", 0)
    partition.flush_started_ns = house.rig.clock.monotonic_ns()  # a flush that does not end
    await produce(house.rig, batch(b"a"), acks=1)
    answers: list[ErrorCode] = []
    house.rig.services.commit.wait(partition, 1, 1, answers.append)
    house.keeping.start()
    await house.until(lambda: answers)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]
    partition.flush_started_ns = 0


async def test_queued_appends_are_retried(house: House) -> None:
    await create(house.rig)
    partition = house.rig.services.partitions.get("t", 0)
    partition.flush_started_ns = 1  # a flush older than any limit
    queued = asyncio.create_task(produce(house.rig, batch(b"a"), acks=1))
    await house.until(lambda: partition.queue)
    partition.flush_started_ns = 0
    house.keeping.start()
    assert await queued == 0


async def test_connections_are_swept(house: House) -> None:
    house.keeping.start()
    await house.until(lambda: house.processor.swept > 2)


async def test_recovery_points_advance_and_are_written(house: House, tmp_path: Path) -> None:
    await create(house.rig)
    await produce(house.rig, batch(b"a", b"b"))
    house.keeping.start()
    await house.until(lambda: house.log().recovery_point == 2)
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    await house.until(lambda: path.exists() and "\nt 0 2\n" in path.read_text())


async def test_a_checkpoint_that_fails_is_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Checkpoint.run
    failed: list[object] = []

    def fails_once(checkpoint: Checkpoint) -> None:
        if not failed:
            failed.append(checkpoint)
            raise OSError(28, "No space left on device")
        run(checkpoint)

    monkeypatch.setattr(Checkpoint, "run", fails_once)
    await create(house.rig)
    await produce(house.rig, batch(b"a"))
    house.keeping.start()
    await house.until(lambda: house.log().recovery_point == 1)
    assert failed
    await house.until(lambda: any("No space left" in message for message in caplog.messages))


async def test_write_caching_logs_are_flushed_after_flush_ms(house: House) -> None:
    await create(house.rig, "cached", write_caching="true", flush_ms="1", retention_ms="-1")
    await create(house.rig, "never", write_caching="true", retention_ms="-1")
    for name in ("cached", "never"):
        await produce(house.rig, batch(b"a"), topic=name)
        assert house.log(name).durable_offset == 0
    house.keeping.start()
    await house.until(lambda: house.log("cached").durable_offset == 1)
    assert house.log("never").durable_offset == 0


async def test_old_segments_are_deleted_in_every_log_but_a_broken_one(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "kept", "old"):
        await create(house.rig, name, retention_ms="-1" if name == "kept" else "1")
        await produce(house.rig, batch(b"a"), topic=name)

    apply_retention = Log.apply_retention

    def sometimes_broken(log: Log, now_ms: int) -> bool:
        if log.topic == "broken":
            raise OSError(5, "Input/output error")
        return apply_retention(log, now_ms)

    monkeypatch.setattr(Log, "apply_retention", sometimes_broken)
    house.keeping.start()
    await house.until(lambda: house.log("old").start_offset == 1)
    assert house.log("kept").start_offset == house.log("broken").start_offset == 0
    await house.until(lambda: any("broken-0 failed" in message for message in caplog.messages))


async def test_retention_goes_on_where_checkpoints_cannot_be_written(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a full disk it is what makes room."""
    for name in ("old", "older"):
        await create(house.rig, name, retention_ms="1")
        await produce(house.rig, batch(b"a"), topic=name)

    async def fail(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(house.rig.services.checkpoints), "write", fail)
    house.keeping.start()
    for name in ("old", "older"):
        log = house.log(name)
        await house.until(lambda log=log: log.start_offset == 1)  # type: ignore[misc]
        files = [path.name for path in (tmp_path / "data" / f"{name}-0").glob("*.log")]
        assert files == [f"{1:020}.log"]


async def test_deleted_files_are_removed_after_their_delay(house: House, tmp_path: Path) -> None:
    await create(house.rig, "soon", file_delete_delay_ms="0")
    await create(house.rig, "later")
    for name in ("soon", "later"):
        await house.rig.services.topics.delete(name)

    def left() -> list[str]:
        return [path.name[:4] for path in (tmp_path / "data").glob("*-delete")]

    assert sorted(left()) == ["late", "soon"]
    house.keeping.start()
    await house.until(lambda: left() == ["late"])


async def test_idle_producers_expire(house: House) -> None:
    await create(house.rig)
    ids = {"producer_id": 7, "producer_epoch": 0}
    await produce(house.rig, batch(b"a", base_sequence=5, **ids))
    assert len(house.log().producers.entries) == 1
    house.keeping.start()
    await house.until(lambda: not house.log().producers.entries)


async def test_a_failed_duty_is_reported_and_runs_again(house: House) -> None:
    house.processor.fails = True
    house.keeping.start()
    await house.until(lambda: house.processor.swept > 2)
    (line,) = failures.take()
    assert "the duty connections" in line
    assert "RuntimeError: this is a bug" in line


async def test_the_stop_waits_for_a_running_duty(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def duty() -> None:
        began.set()
        await go_on.wait()
        ended.set()

    monkeypatch.setattr(house.keeping, "_deletions", duty)
    house.keeping.start()
    await began.wait()
    stop = asyncio.create_task(house.keeping.stop())
    await asyncio.sleep(0.005)
    assert not stop.done()
    go_on.set()
    await stop
    assert ended.is_set()
    swept = house.processor.swept
    await asyncio.sleep(0.005)
    assert house.processor.swept == swept


@pytest.mark.parametrize("job", [Checkpoint, SegmentDeletion])
async def test_a_duty_begins_no_further_log_once_the_stop_waits(
    house: House, monkeypatch: pytest.MonkeyPatch, job: type
) -> None:
    """On a slow disk a round over all logs would take longer than a stop may."""
    ran: list[object] = []
    go_on = threading.Event()

    def slow(self: object) -> None:
        ran.append(self)
        go_on.wait(5)

    for name in ("a", "b"):
        await create(house.rig, name, retention_ms="1")
        await produce(house.rig, batch(b"x"), topic=name)
    with monkeypatch.context() as patch:
        patch.setattr(job, "run", slow)
        house.keeping.start()
        await house.until(lambda: ran)
        stop = asyncio.create_task(house.keeping.stop())
        await asyncio.sleep(0.005)
        go_on.set()
        await stop
    assert len(ran) == 1


async def test_handlers_are_imported_while_the_broker_is_idle(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    threads: set[int] = set()

    class Row:
        def load(self) -> None:
            loaded.append(self)
            threads.add(threading.get_ident())
            if len(loaded) == 1:
                raise OSError("Too many open files")

    first, second = rows = [Row(), Row()]
    monkeypatch.setattr(house.keeping, "_not_loaded", rows)
    house.keeping.start()
    await house.until(lambda: not rows)
    assert loaded == [second, second, first]
    assert threading.get_ident() not in threads


async def test_sent_pages_are_released(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[OpenFiles] = []
    monkeypatch.setattr(OpenFiles, "sweep", lambda files: swept.append(files))
    house.keeping.start()
    await house.until(lambda: house.rig.services.logs.home.files in swept)


async def test_checkpoints_of_many_logs_take_turns(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await create(house.rig, f"t{number}")
    monkeypatch.setattr(housekeeping, "LOGS_PER_TURN", 2, raising=False)
    monkeypatch.setattr(Log, "begin_checkpoint", lambda _: turns.append(turn))
    turn = 0
    turns: list[int] = []

    async def count() -> None:
        nonlocal turn
        while len(turns) < 5:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await house.keeping.write_checkpoints()
    assert max(turns.count(one) for one in turns) == 2
    await counting
    monkeypatch.undo()


async def test_an_unexpected_checkpoint_failure_affects_only_its_log(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint ends with the failure, so another can begin; other logs have their own."""
    run = Checkpoint.run
    failed: list[object] = []

    def fails(checkpoint: Checkpoint) -> None:
        if any("/bad-0/" in path for path, _ in checkpoint._small_files) and len(failed) < 3:
            failed.append(checkpoint)
            raise ZeroDivisionError
        run(checkpoint)

    monkeypatch.setattr(Checkpoint, "run", fails)
    for topic in ("bad", "good"):
        await create(house.rig, topic)
        await produce(house.rig, batch(b"a"), topic=topic)
    house.keeping.start()
    await house.until(lambda: house.log("good").recovery_point == 1)
    await house.until(lambda: house.log("bad").recovery_point == 1)
    assert len(failed) == 3
    assert len(failures.take()) == 3


def test_all_of_groups_is_imported_before_the_first_request() -> None:
    """In a separate process: other tests have imported it in this one."""
    program = (
        "import pkgutil, sys; from broker.handlers import HANDLERS;"
        "from broker.maintenance.housekeeping import GroupModules;"
        "assert 'broker.groups.coordinator' not in sys.modules;"
        "[each.load() for each in (*HANDLERS, GroupModules())];"
        "import broker.groups as street;"
        "modules = pkgutil.walk_packages(street.__path__, 'broker.groups.');"
        "missing = {module.name for module in modules} - set(sys.modules);"
        "assert not missing, missing"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
