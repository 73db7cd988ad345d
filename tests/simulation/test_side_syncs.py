"""The simulated kernel's syncs: they end, late and in any order, with the errors of the disk."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.conftest import MakeLoop
from tests.simulation.disk import SimDisk
from tests.simulation.plan import Shape
from tests.simulation.pool import Baton
from tests.simulation.side_syncs import SimSyncs
from tests.simulation.world import SECOND

Made = Callable[[str], "Process"]
COUNT = 12


class Process:
    """A loop, a baton, a disk, and syncs beside them."""

    def __init__(self, loop: Any, seed: str) -> None:
        self.loop = loop
        self.baton = Baton(loop.world)
        world = loop.world
        self.disk = SimDisk(world, self.baton, world.chance("disk"), Shape(cold_chance=0))
        self.disk.load({"t-0": {str(number): b"" for number in range(COUNT)}}, at="/data")
        self.syncs = SimSyncs(self, self.disk, world.chance(seed))
        self.told: list[tuple[int, int]] = []
        loop.add_reader(self.syncs.fileno(), lambda: self.told.extend(self.syncs.take()))
        self.files: list[Any] = []

    def begin(self) -> list[int]:
        """Write to the files and begin a sync of each; return which were taken."""
        self.files = [self.disk.open(f"/data/t-0/{number}") for number in range(COUNT)]
        for file in self.files:
            file.pwrite(b"data", 0)
        return [
            number
            for number, file in enumerate(self.files)
            if self.syncs.begin([(number, file.sync_descriptor)])
        ]

    def turn(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def made(loop_of: MakeLoop) -> Made:
    return lambda seed: Process(loop_of(seed), seed)


def test_all_are_told_once_in_an_order_of_the_seed_and_are_on_the_disk(made: Made) -> None:
    orders, refused_count = set(), 0
    for seed in ("1", "2", "3"):
        process = made(seed)
        begun = process.begin()
        refused_count += COUNT - len(begun)
        process.turn(1)
        assert sorted(process.told) == [(number, 0) for number in begun]
        orders.add(tuple(process.told))
        for number in begun:
            assert process.disk.durable_bytes(f"/data/t-0/{number}") == b"data"
            assert process.files[number].dirty, "it is for the caller to note"
    assert len(orders) == 3
    assert refused_count


def test_an_error_is_told_by_its_number_and_loses_what_was_written(made: Made) -> None:
    process = made("1")
    process.disk.fail("fdatasync", path_part="/3")
    begun = process.begin()
    assert 3 in begun
    process.turn(1)
    assert dict(process.told) == {number: errno.EIO if number == 3 else 0 for number in begun}
    assert process.disk.durable_bytes("/data/t-0/3") == b""


def test_a_stuck_one_holds_up_no_other(made: Made) -> None:
    process = made("1")
    process.disk.stick(process.loop.world.now_ns + 60 * SECOND, path_part="/3")
    begun = process.begin()
    process.turn(1)
    assert sorted(number for number, _ in process.told) == [n for n in begun if n != 3]
    process.turn(61)
    assert sorted(number for number, _ in process.told) == begun


def test_a_closed_file_has_no_descriptor(made: Made) -> None:
    process = made("1")
    file: Any = process.disk.open("/data/t-0/0")
    descriptor = file.sync_descriptor
    assert descriptor > 0
    file.close()
    assert file.sync_descriptor == -1
    assert not any(process.syncs.begin([(number, descriptor)]) for number in range(20))


@pytest.mark.parametrize("fails", [False, True])
def test_no_write_counts_as_synced_that_none_has_covered(made: Made, fails: bool) -> None:
    process = made("1")
    if fails:
        process.disk.fail("fdatasync", path_part="/0")
    begun = process.begin()
    assert 0 in begun
    process.turn(1)
    file, found = process.files[0], process.disk.order.found
    file.note_synced(file.writes)
    assert found == ["writes of /data/t-0/0 count as synced, and no sync has covered them"] * fails
    file.pwrite(b"more", 4)
    file.note_synced(file.writes)
    assert found == ["writes of /data/t-0/0 count as synced, and no sync has covered them"]
