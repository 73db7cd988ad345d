"""A full disk is detected, reported once, and cleared once there is space again."""

import errno
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from broker.maintenance.disk_room import DiskRoom
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from storage.files.room import Room

FULL = OSError(errno.ENOSPC, "No space left on device", "/data/t-0/0.log")


class Rig:
    """A DiskRoom over a disk with nothing but a number of free bytes."""

    def __init__(self) -> None:
        self.room = Room()
        self.metrics = Metrics()
        self.clock = ManualClock()
        self.clock.advance(1_000)
        self.free: Any = 0
        disk: Any = SimpleNamespace(free_bytes=self._free_bytes)
        self.disk_room = DiskRoom(self.room, disk, "/data", self.metrics, self.clock)

    def _free_bytes(self, path: str) -> int:
        assert path == "/data"
        if isinstance(self.free, OSError):
            raise self.free
        return int(self.free)

    def tick(self, refusals: int = 0, size_bytes: int = 0) -> bool:
        for _ in range(refusals):
            self.room.note(FULL, size_bytes)
        self.clock.advance(1_000)
        if self.disk_room.must_ask:
            self.disk_room.ask()
        return self.disk_room.look()


def test_a_disk_with_room_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    assert not rig.tick()
    assert not rig.disk_room.is_full
    assert caplog.records == []


def test_each_change_is_one_line_with_its_cause_and_its_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    rig = Rig()
    assert rig.tick(3), "it has become full"
    assert not rig.tick(5), "and it is still full"
    assert not rig.tick(0), "no write was refused, but no bytes are free either"
    assert rig.disk_room.is_full
    assert (rig.metrics.disk_full_now, rig.metrics.writes_refused) == (1, 8)
    rig.free = 4_096
    assert not rig.tick(1)
    assert rig.disk_room.is_full, "free bytes that did not suffice"
    rig.tick(0)
    assert not rig.disk_room.is_full
    assert (rig.metrics.disk_full_now, rig.metrics.writes_refused) == (0, 9)
    full, room = [record.message for record in caplog.records]
    assert "/data is full, 0 bytes free" in full
    assert "No space left on device" in full
    assert "writes then resume by themselves" in full
    assert "has room again, 4096 bytes free: it was full for 4 s, and 9 writes" in room


def test_a_failed_query_of_free_space_does_not_keep_the_disk_full() -> None:
    rig = Rig()
    rig.free = OSError(errno.EIO, "bad disk")
    assert rig.tick(1)
    rig.tick()
    assert not rig.disk_room.is_full


def test_room_for_a_small_write_is_not_room_for_the_refused_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.free = 300_000
    assert rig.tick(2, size_bytes=1_000_000)
    for _ in range(3):
        rig.tick()  # small ones are written meanwhile
        assert rig.disk_room.is_full
    rig.tick(1, size_bytes=10)
    rig.free = 1_000_000
    rig.tick()
    assert rig.disk_room.is_full, "no byte more than the refused write needs"
    rig.free = 1_000_001
    rig.tick()
    assert not rig.disk_room.is_full, "found without a try"
    assert "3 writes were refused, the largest of 1000000 bytes" in caplog.messages[-1]
    assert rig.tick(1, size_bytes=5)
    rig.tick()
    assert not rig.disk_room.is_full, "earlier refusals no longer count"
