"""The pool for fsync: the kernel's syncs, what they cover, their errors, and threads otherwise."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from broker.partitions.flush_pool import FlushPool
from broker.runtime import owners
from broker.runtime.blocking_pool import thread_executor
from storage.files.kernel_syncs import kernel_syncs
from storage.files.os_filesystem import OsFile, OsFileSystem


@pytest.fixture
async def pool() -> AsyncIterator[FlushPool]:
    made = FlushPool(thread_executor(2, "test"), asyncio.get_running_loop())
    yield made
    made.close()


@pytest.fixture
def file(tmp_path: Path) -> OsFile:
    return OsFileSystem().open(str(tmp_path / "file"), create=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)


needs_syncs = pytest.mark.skipif(kernel_syncs() is None, reason="this kernel runs no fdatasyncs")


@needs_syncs
async def test_a_sync_covers_what_was_written_before_it_and_no_more(
    pool: FlushPool, file: OsFile
) -> None:
    told: list[OSError | None] = []
    file.pwrite(b"one", 0)
    assert pool.begin_syncs([(file, told.append)])
    assert pool.is_busy
    file.pwrite(b"two", 3)  # after it began
    await until(lambda: bool(told))
    assert told == [None]
    assert file.dirty
    assert not pool.is_busy
    assert pool.ended_count == 1
    assert pool.begin_syncs([(file, told.append)])
    await until(lambda: len(told) == 2)
    assert not file.dirty


@needs_syncs
async def test_an_error_is_told_with_the_file_which_stays_dirty(
    pool: FlushPool, file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[OSError | None] = []
    file.pwrite(b"one", 0)
    assert pool.begin_syncs([(file, told.append)])
    syncs = pool._syncs
    assert syncs is not None
    real = syncs.take
    monkeypatch.setattr(
        type(syncs), "take", lambda _: [(number, errno.EIO) for number, _ in real()]
    )
    await until(lambda: bool(told))
    (error,) = told
    assert error is not None
    assert (error.errno, error.filename) == (errno.EIO, file.path)
    assert file.dirty


@needs_syncs
async def test_a_failing_callback_does_not_reach_the_others(pool: FlushPool, file: OsFile) -> None:
    told: list[OSError | None] = []
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))

    def fail(_: OSError | None) -> None:
        raise ValueError("a mistake")

    assert pool.begin_syncs([(file, fail)])
    assert pool.begin_syncs([(file, told.append)])
    await until(lambda: bool(told and failures))
    assert told == [None]
    assert len(failures) == 1


async def test_without_the_kernel_threads_are_asked_for(file: OsFile) -> None:
    loop = asyncio.get_running_loop()
    pool = FlushPool(thread_executor(2, "test"), loop, lambda: None)
    assert pool.runs_syncs
    assert not pool.begin_syncs([(file, lambda _: None)])
    assert not pool.runs_syncs
    assert not pool.is_busy
    pool.close()


@needs_syncs
async def test_a_descriptor_that_cannot_be_watched_is_given_back(
    pool: FlushPool, file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(owners, "on_readable", refuse)
    before = len(os.listdir("/proc/self/fd"))
    assert not pool.begin_syncs([(file, lambda _: None)])
    assert not pool.runs_syncs
    assert len(os.listdir("/proc/self/fd")) == before


@needs_syncs
async def test_a_file_without_a_descriptor_does_not_turn_the_kernel_off(
    pool: FlushPool, file: OsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[OSError | None] = []
    with monkeypatch.context() as patched:
        patched.setattr(OsFile, "sync_descriptor", -1)
        assert not pool.begin_syncs([(file, told.append)])
    assert pool.begin_syncs([(file, told.append)])
    await until(lambda: bool(told))
