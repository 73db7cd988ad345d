"""Checkpoint files are written one at a time, and always include the caller's changes."""

import asyncio
from collections.abc import Callable

import pytest

from broker.partitions.checkpoint_writer import CheckpointWriter
from broker.runtime.blocking_pool import BlockingPool, thread_executor


class FakeLogs:
    """A value to write and the values written; a write takes its value when it begins."""

    def __init__(self) -> None:
        self.value = 0
        self.written = [0]
        self.running = 0
        self.most_running = 0
        self.failures = 0
        self.finished = 0

    def begin_write_checkpoints(self) -> Callable[[], None] | None:
        value = self.value
        if value == self.written[-1]:
            return None

        def write() -> None:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self.running -= 1
            if self.failures:
                self.failures -= 1
                raise OSError("no space")
            self.written.append(value)

        return write

    def finish_write_checkpoints(self) -> None:
        self.finished += 1


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs()


async def write_all(logs: FakeLogs, count: int) -> list[BaseException | None]:
    pool = BlockingPool(thread_executor(4, "test"), asyncio.get_running_loop())
    writer = CheckpointWriter(logs, pool)  # type: ignore[arg-type]

    async def change_and_write() -> None:
        logs.value += 1
        wanted = logs.value
        await writer.write()
        assert max(logs.written) >= wanted

    outcomes = await asyncio.gather(
        *(change_and_write() for _ in range(count)), return_exceptions=True
    )
    pool.close()
    return outcomes


async def test_a_waiting_caller_finds_its_change_written_and_callers_share_a_write(
    logs: FakeLogs,
) -> None:
    assert await write_all(logs, 50) == [None] * 50
    assert logs.written[-1] == 50
    assert logs.written == sorted(logs.written)
    assert len(logs.written) <= 4
    assert logs.most_running == 1
    assert logs.finished == len(logs.written) - 1


async def test_a_failure_reaches_the_caller_and_the_next_call_retries(logs: FakeLogs) -> None:
    logs.failures = 1
    outcomes = await write_all(logs, 3)
    assert [type(outcome) for outcome in outcomes] == [OSError, type(None), type(None)]
    assert logs.written[-1] == 3


async def test_without_changes_no_file_is_written(logs: FakeLogs) -> None:
    pool = BlockingPool(thread_executor(1, "test"), asyncio.get_running_loop())
    await CheckpointWriter(logs, pool).write()  # type: ignore[arg-type]
    pool.close()
    assert logs.written == [0]
