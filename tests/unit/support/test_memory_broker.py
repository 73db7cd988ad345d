"""The broker of scripted lives ends at any point where its process is killed."""

import asyncio

import pytest

from tests.support.memory_broker import Killed, MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem


def die() -> None:
    raise Killed


def test_a_broker_killed_in_the_turn_in_which_its_work_ended_ends() -> None:
    broker = MemoryBroker(MemoryFileSystem())

    async def work() -> None:
        broker.loop.call_soon(die)

    with pytest.raises(Killed):
        broker.run(work())
    broker.end()
    assert broker.loop.is_closed()


def test_all_tasks_end_with_the_broker_even_if_the_process_dies_in_each() -> None:
    broker = MemoryBroker(MemoryFileSystem())
    ended = []

    async def wait(number: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(number)
            die()

    async def work() -> None:
        tasks = [broker.loop.create_task(wait(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert len(tasks) == 5
        die()

    with pytest.raises(Killed):
        broker.run(work())
    broker.end()
    assert sorted(ended) == list(range(5))
