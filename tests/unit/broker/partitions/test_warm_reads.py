"""A look-up that misses pages is repeated once a thread has loaded them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker.partitions.warm_reads import warm, when_warm
from broker.runtime.blocking_pool import BlockingPool, thread_executor
from broker.runtime.owners import Owner
from storage.segments import cold
from storage.segments.cold import KEPT_BYTES_MAX, STARTS_MAX, Cold
from tests.support.memory_filesystem import MemoryFile, MemoryFileSystem


@pytest.fixture
async def pool() -> AsyncIterator[BlockingPool]:
    pool = BlockingPool(thread_executor(1, "test"), asyncio.get_running_loop())
    yield pool
    pool.close()


class ColdFile:
    """A file whose bytes are in memory after the nth pull."""

    def __init__(self, pulls_needed: int = 1) -> None:
        self.filesystem = MemoryFileSystem()
        self.filesystem.open("/f", create=True).pwrite(b"here", 0)
        self.filesystem.cold.add("/f")
        self.file: MemoryFile = self.filesystem.open("/f")
        self.pulls = 0
        self.pulls_needed = pulls_needed
        self.file.pull = self.pull  # type: ignore[method-assign]

    def pull(self, size: int, position: int) -> int:
        self.pulls += 1
        if self.pulls >= self.pulls_needed:
            self.filesystem.cold.clear()
        return size

    def read(self) -> bytes:
        return cold.read(self.file, 4, 0)  # type: ignore[arg-type]


@pytest.fixture(params=["awaited", "called back"])
def look_up(request: pytest.FixtureRequest, pool: BlockingPool) -> Any:
    async def called_back(read: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        when_warm(pool, Owner.FETCH_READ, read, future.set_result)
        async with asyncio.timeout(30):
            found = await future
        if isinstance(found, Exception):
            raise found
        return found

    return called_back if request.param == "called back" else lambda read: warm(pool, read)


async def test_a_look_up_in_memory_returns_at_once(look_up: Any) -> None:
    assert await look_up(lambda: 7) == 7


async def test_missing_pages_are_pulled_first(look_up: Any) -> None:
    file = ColdFile()
    assert await look_up(file.read) == b"here"
    assert file.pulls == 1


async def test_pages_that_never_stay_in_memory_are_kept_for_their_look_up(look_up: Any) -> None:
    file = ColdFile(pulls_needed=1000)

    def look() -> bytes:
        return b"".join(cold.read(file.file, 1, at) for at in range(4))  # type: ignore[arg-type]

    file.filesystem.counts.clear()
    assert await look_up(look) == b"here"
    assert file.pulls == 4
    assert file.filesystem.counts["pread"] == 4 + (1 + 2 + 3 + 4 + 4)  # pulled, or asked for


async def test_after_many_starts_a_look_up_waits(look_up: Any) -> None:
    file = ColdFile(pulls_needed=1000)
    file.file.pwrite(bytes(KEPT_BYTES_MAX), 4)  # too many to keep
    found = await look_up(
        lambda: cold.read(file.file, KEPT_BYTES_MAX + 4, 0)  # type: ignore[arg-type]
    )
    assert found == b"here" + bytes(KEPT_BYTES_MAX)
    assert file.pulls == STARTS_MAX


async def test_an_error_of_the_disk_is_raised_where_the_look_up_reads(look_up: Any) -> None:
    """A look-up does without an index that cannot be read."""
    file = ColdFile()
    file.file.pull = lambda size, position: _fail()  # type: ignore[method-assign, assignment]

    def look() -> str:
        try:
            file.read()
        except OSError as error:
            return f"without the index: {error}"
        return "with it"

    assert await look_up(look) == "without the index: [Errno 5] Input/output error"


def _fail() -> None:
    raise OSError(5, "Input/output error")


async def test_an_error_of_the_look_up_or_of_the_pull_is_reported(look_up: Any) -> None:
    with pytest.raises(OSError, match="Input/output"):
        await look_up(_fail)
    file = ColdFile()
    file.file.pull = lambda size, position: _fail()  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="Input/output"):
        await look_up(file.read)


def test_cold_is_never_an_error_for_clients() -> None:
    assert not issubclass(Cold, OSError)
