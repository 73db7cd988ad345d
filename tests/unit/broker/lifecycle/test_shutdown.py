"""The stop of a broker, with further signals at each of its steps."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NoReturn

import pytest

from broker.lifecycle import shutdown
from broker.lifecycle.environment import Environment, system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN, EXIT_FAILED, EXIT_FORCED, Shutdown
from broker.runtime.record_work import WalkAbandoned
from broker.server import Broker
from broker.transactions.late_records import PAUSE_SECONDS
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_loading import TransactionLoading
from protocol.control_records import Marker
from storage.clean_stop import StopJob
from storage.log import Log
from tests.support import failures
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create
from tests.support.transaction_client import SETTINGS, begin
from tests.support.whole_broker import loaded, served


def with_deadline(
    directory: Path, deadline_ms: int, environment: Environment | None = None
) -> Broker:
    """Return a broker that is not started, with the deadline of its stop."""
    deadline = f"barnabas.shutdown.deadline.ms={deadline_ms}"
    return Broker(loaded(directory / "data", deadline), environment or system_environment())


async def test_a_second_signal_hurries_and_the_stop_stays_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = with_deadline(tmp_path, 600_000)
    running = await served(broker)
    broker._serving.answered = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    broker._signals.received(signal.SIGTERM)
    await asyncio.sleep(0.01)
    assert not running.done()
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    (line,) = [message for message in caplog.messages if "SIGTERM again" in message]
    assert "only for the disk" in line
    assert not [message for message in caplog.messages if "does not answer" in message]


async def test_no_late_record_is_written_while_logs_are_closed_after_a_stop_that_came_to_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = with_deadline(tmp_path, 10)
    running = await served(broker)
    transactions = broker._assembly.services.transactions
    await transactions.ensure_log()
    ids = await transactions.init("t", 60_000, None)
    await transactions.add("t", *ids, {"a": [0]})
    await transactions.end("t", *ids, is_commit=True, version=4)
    late = transactions.store.log.late
    assert late.count == 1
    close_logs, written = Shutdown._closed_logs, []

    async def close_slowly(self: Shutdown) -> bool:
        monkeypatch.setattr(Log, "append_own", lambda *_: written.append("too late"))
        await asyncio.sleep(3 * PAUSE_SECONDS)
        return await close_logs(self)

    monkeypatch.setattr(Shutdown, "_closed_logs", close_slowly)
    broker._serving.answered = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert written == []
    late.add(Transaction("t", 1, 1))
    assert not late.count


@pytest.mark.parametrize("is_hurried", [False, True])
async def test_no_piece_of_a_large_request_is_appended_while_logs_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_hurried: bool
) -> None:
    broker = with_deadline(tmp_path, 600_000 if is_hurried else 10)
    running = await served(broker)
    large, appended = broker._assembly.services.large_produces, []
    monkeypatch.setattr("broker.large_produces.pieces", lambda _: repeat([]))
    producing = asyncio.create_task(large.begin("c", [], lambda: None, appended.append))
    close_logs, while_closing = Shutdown._closed_logs, []

    async def close_slowly(self: Shutdown) -> bool:
        count = len(appended)
        await asyncio.sleep(0.01)
        while_closing.append(len(appended) - count)
        return await close_logs(self)

    monkeypatch.setattr(Shutdown, "_closed_logs", close_slowly)
    broker._serving.answered = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    broker._signals.received(signal.SIGTERM)
    if is_hurried:
        await asyncio.sleep(0.01)
        broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert appended
    assert while_closing == [0]
    with pytest.raises(WalkAbandoned):
        await producing
    assert "c" not in large.lines.waiting


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """A directory in which a crash has left a marker whose decision is not on the disk."""
    directory = tmp_path / "data"
    rig = Rig(directory, **SETTINGS)
    producer = await begin(rig)
    await create(rig, "t", 1)
    partition = rig.services.partitions.get("t", 0)
    data = batch(
        b"x", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    partition.log.append_own(bytearray(data), 1)
    partition.log.append_marker(Marker(producer.producer_id, 1, True, 0), 1)
    rig.services.commit.flush_now(partition)
    await crash(rig)
    return directory


def whole(directory: Path) -> Broker:
    settings = [f"{key.replace('_', '.')}={value}" for key, value in SETTINGS.items()]
    return Broker(loaded(directory, *settings), system_environment())


async def test_a_stop_waits_until_transactions_are_looked_at_that_a_crash_has_left(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on = TransactionLoading._read, asyncio.Event()

    async def late(*arguments: Any) -> None:
        await go_on.wait()
        await read(*arguments)

    monkeypatch.setattr(TransactionLoading, "_read", late)
    running = await served(broker := whole(crashed))
    broker._signals.received(signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert not running.done()
    go_on.set()
    assert await running == EXIT_CLEAN
    assert (crashed / ".kafka_cleanshutdown").exists()


async def test_a_hurried_stop_leaves_them_to_the_next_start(
    crashed: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(TransactionLoading, "_read", never)
    running = await served(broker := whole(crashed))
    broker._signals.received(signal.SIGTERM)
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_FAILED
    assert "that the next start has to look at" in caplog.text
    assert not (crashed / ".kafka_cleanshutdown").exists()
    monkeypatch.undo()
    again = Rig(crashed, **SETTINGS)
    assert again.services.partitions.get("t", 0).log.keeps_replayed
    await again.services.transactions.loading.load()
    assert not again.services.partitions.get("t", 0).log.keeps_replayed
    await again.close()


class Left(Exception):
    """The process would have exited here."""


def leave(code: int) -> NoReturn:
    assert code == EXIT_FORCED
    raise Left


@pytest.mark.parametrize("count", [2, 3])
async def test_signals_at_any_step_of_a_stop_are_reported_truthfully(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """A stop takes some twenty turns of the loop; the later signals arrive once in each turn."""
    for turns in range(0, 60, 3):
        caplog.clear()
        broker = Broker(loaded(tmp_path / f"{turns}"), replace(system_environment(), leave=leave))
        running = await served(broker)
        broker._signals.received(signal.SIGTERM)
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(count - 1):
            broker._signals.received(signal.SIGTERM)
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
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)
    closing = broker._assembly.services.logs.closing

    def unclean(steps: Iterator[Sequence[StopJob]]) -> Generator[Sequence[StopJob], None, bool]:
        yield from steps
        return False

    monkeypatch.setattr(
        broker._assembly.services.logs, "closing", lambda **options: unclean(closing(**options))
    )
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_FAILED


async def test_a_stop_warns_of_anything_left_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for leak in (0, 7):
        caplog.clear()
        broker = Broker(loaded(tmp_path / "data"), system_environment())
        running = await served(broker)
        broker._assembly.network.budget.take(leak)
        task = asyncio.create_task(asyncio.sleep(60 * leak), name="forgotten")
        await asyncio.sleep(0)
        broker._signals.received(signal.SIGTERM)
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


async def test_a_third_signal_exits_like_a_crash(tmp_path: Path) -> None:
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)
    for _ in range(4):
        broker._signals.received(signal.SIGINT)
    assert await running == EXIT_FORCED
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    rig = Rig(tmp_path / "data")  # the directory is unlocked
    assert await rig.close()


class SlowJobs:
    """Stands in for the jobs of 32 logs; each takes `seconds` of a thread, or for ever."""

    def __init__(self, seconds: float, stuck: int = 0) -> None:
        self.seconds = seconds
        self.stuck = stuck
        self.go_on = threading.Event()

    def closing(self, **_: object) -> Generator[Sequence[StopJob], None, bool]:
        calls = [self.call] * (32 - self.stuck) + [self.wait] * self.stuck
        yield [StopJob(call) for call in calls]
        return True

    def call(self) -> None:
        time.sleep(self.seconds)

    def wait(self) -> None:
        self.go_on.wait(20)


async def test_a_stop_flushes_logs_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)
    logs = broker._assembly.services.logs
    monkeypatch.setattr(logs, "closing", SlowJobs(0.2).closing)
    broker._signals.received(signal.SIGTERM)
    began = time.monotonic()
    assert await running == EXIT_CLEAN
    assert time.monotonic() - began < 32 * 0.2 / 2
    logs.abandon()


@pytest.mark.parametrize(("stuck", "reason"), [(2, "is slow, 3"), (32, "does not answer: exiting")])
async def test_a_stop_past_its_deadline_says_whether_the_disk_answers(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    stuck: int,
    reason: str,
) -> None:
    monkeypatch.setattr(shutdown, "CLOSE_SECONDS_MIN", 0.5)
    broker = with_deadline(tmp_path, 500, replace(system_environment(), leave=leave))
    running = await served(broker)
    logs = broker._assembly.services.logs
    jobs = SlowJobs(0.001, stuck)
    monkeypatch.setattr(logs, "closing", jobs.closing)
    broker._signals.received(signal.SIGTERM)
    with pytest.raises(Left):
        await running
    (line,) = [message for message in caplog.messages if "exiting without it" in message]
    assert reason in line
    jobs.go_on.set()
    logs.abandon()


@pytest.mark.parametrize(("ended", "reason"), [(2, "is slow, 2 calls"), (0, "does not answer")])
async def test_a_stop_that_cannot_drain_says_whether_the_disk_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ended: int, reason: str
) -> None:
    broker = with_deadline(tmp_path, 300, replace(system_environment(), leave=leave))
    running = await served(broker)
    services = broker._assembly.services
    go_on = threading.Event()

    async def answered() -> None:
        for _ in range(ended):
            await services.pool.run(lambda: None)
        with suppress(asyncio.CancelledError):
            await services.pool.run(partial(go_on.wait, 20))

    broker._serving.answered = answered  # type: ignore[method-assign]
    broker._signals.received(signal.SIGTERM)
    with pytest.raises(Left):
        await running
    (line,) = [message for message in caplog.messages if "exiting without it" in message]
    assert reason in line
    go_on.set()
    while services.pool.is_busy:
        await asyncio.sleep(0.001)
    services.logs.abandon()
