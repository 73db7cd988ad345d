"""A failure on the loop is reported once, with its owner's name, and affects nothing else."""

import asyncio
import logging
from typing import Any

import pytest

from broker.runtime import owners
from broker.runtime.clock import SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog, Owner
from tests.support import failures


class NobodyExpectedIt(Exception):
    pass


def fail(*_: Any) -> None:
    raise NobodyExpectedIt("a bug")


async def fail_later() -> None:
    raise NobodyExpectedIt("a bug")


@pytest.fixture
async def metrics() -> Metrics:
    metrics = Metrics()
    asyncio.get_running_loop().set_exception_handler(FailureLog(metrics, SystemClock()))
    return metrics


async def reported(metrics: Metrics, count: int = 1) -> list[str]:
    async with asyncio.timeout(30):
        while metrics.unexpected_failures < count:
            await asyncio.sleep(0.001)
    return failures.take()


async def test_each_way_to_the_loop_reports_its_owner(metrics: Metrics) -> None:
    loop = asyncio.get_running_loop()
    owners.soon(Owner.FLUSH, fail)
    owners.later(Owner.PARKED_FETCH, 0, fail)
    owners.spawn(Owner.COMPACTION, fail_later(), "compaction of t-0")
    await asyncio.to_thread(owners.from_thread, loop, Owner.APPEND, fail)
    owners.failed(Owner.TICKER, NobodyExpectedIt("a bug"), "the duty pages")
    lines = await reported(metrics, 5)
    for name in ("flush", "parked_fetch", "compaction of t-0", "append", "the duty pages"):
        (line,) = [line for line in lines if f"{failures.MARK} {name}," in line]
        assert "NobodyExpectedIt: a bug" in line
    assert len(lines) == 5


async def test_the_line_says_what_the_failure_is_contained_to(metrics: Metrics) -> None:
    owners.soon(Owner.GROUP_ALARM, fail)
    (line,) = await reported(metrics)
    assert Owner.GROUP_ALARM.value in line


def test_owners_have_distinct_values() -> None:
    """An enumeration makes members of the same value aliases."""
    assert [owner.name for owner in Owner] == list(Owner.__members__)


async def test_an_awaited_tasks_exception_reaches_the_awaiter_and_is_reported_once(
    metrics: Metrics,
) -> None:
    with pytest.raises(NobodyExpectedIt):
        await owners.spawn(Owner.STOP, fail_later())
    await asyncio.sleep(0)
    assert len(await reported(metrics)) == 1


async def test_a_cancelled_task_has_not_failed(metrics: Metrics) -> None:
    task = owners.spawn(Owner.STOP, asyncio.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert metrics.unexpected_failures == 0


async def test_a_running_task_is_listed(metrics: Metrics) -> None:
    tasks: set[asyncio.Task[None]] = set()
    task = owners.spawn(Owner.REQUEST, asyncio.sleep(0), among=tasks)
    assert tasks == {task}
    await task
    await asyncio.sleep(0)
    assert tasks == set()


async def test_a_task_that_must_not_end_is_restarted(metrics: Metrics) -> None:
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise NobodyExpectedIt("a bug")

    async with asyncio.timeout(30):
        await owners.keep_running(Owner.WORKER, run)
    assert runs == 3
    assert len(await reported(metrics, 2)) == 2


async def test_an_acceptor_that_cannot_accept_ends(metrics: Metrics) -> None:
    async def run() -> None:
        raise OSError(9, "Bad file descriptor")

    with pytest.raises(OSError, match="Bad file descriptor"):
        await owners.keep_running(Owner.ACCEPTOR, run)
    assert metrics.unexpected_failures == 0


async def test_a_cancelled_timer_is_not_called(metrics: Metrics) -> None:
    owners.later(Owner.PARKED_FETCH, 0, fail).cancel()
    await asyncio.sleep(0.01)
    assert metrics.unexpected_failures == 0


async def test_endless_failures_are_counted_and_logged_at_intervals(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    class Standing(SystemClock):
        def monotonic_ns(self) -> int:
            return 1

    asyncio.get_running_loop().set_exception_handler(FailureLog(metrics, Standing()))
    with caplog.at_level(logging.ERROR):
        for _ in range(100):
            owners.failed(Owner.TICKER, NobodyExpectedIt("a bug"))
    assert metrics.unexpected_failures == 100
    assert len(failures.take()) == owners.FAILURES_PER_SECOND_MAX
