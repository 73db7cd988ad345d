"""Pauses before the flushes of logs that no request waits for, and their timers."""

import asyncio
from types import SimpleNamespace
from typing import Any

from broker.partitions.lingering import Lingering


def partition() -> Any:
    return SimpleNamespace(flush_scheduled=False)


async def test_partitions_of_one_pause_leave_together_and_each_once() -> None:
    left: list[list[Any]] = []
    lingering = Lingering(left.append)
    first, second = partition(), partition()
    for one in (first, second, first):
        lingering.add(one, 0.001)
    assert first.flush_scheduled
    assert second.flush_scheduled
    while not left:
        await asyncio.sleep(0.001)
    assert left == [[first, second]]
    assert not first.flush_scheduled


async def test_a_partition_that_comes_after_the_end_has_a_pause_of_its_own() -> None:
    left: list[list[Any]] = []
    lingering = Lingering(left.append)
    one = partition()
    for count in (1, 2):
        lingering.add(one, 0.001)
        while len(left) < count:
            await asyncio.sleep(0.001)
    assert left == [[one], [one]]


async def test_pauses_of_other_lengths_end_by_themselves() -> None:
    left: list[list[Any]] = []
    lingering = Lingering(left.append)
    short, long = partition(), partition()
    lingering.add(long, 60)
    lingering.add(short, 0.001)
    while not left:
        await asyncio.sleep(0.001)
    assert left == [[short]]
    assert long.flush_scheduled
