"""The tests' own disk: it must lose what a disk loses, and fail when a test asks for it."""

from __future__ import annotations

import errno

import pytest

from tests.support.memory_filesystem import MemoryFile, MemoryFileSystem


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    memory.mkdir("/d")
    memory.sync_directory("/")
    return memory


def written(disk: MemoryFileSystem, *, synced: bytes, pending: list[bytes]) -> MemoryFile:
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
    file.pwrite(synced, 0)
    file.fdatasync()
    position = len(synced)
    for piece in pending:
        file.pwrite(piece, position)
        position += len(piece)
    return file


@pytest.mark.parametrize(
    ("unsynced", "left"),
    [
        ("lost", b"base"),
        ("kept", b"baseaabbccdd"),
        ("torn", b"baseaabbc"),
        ("zeros", b"base" + bytes(8)),
    ],
)
def test_a_power_cut(disk: MemoryFileSystem, unsynced: str, left: bytes) -> None:
    file = written(disk, synced=b"base", pending=[b"aa", b"bb", b"cc", b"dd"])
    assert disk.live_bytes("/d/f") == b"baseaabbccdd"
    assert disk.durable_bytes("/d/f") == b"base"
    disk.crash(unsynced)
    assert disk.read("/d/f") == left
    for call in (file.size, lambda: file.pread(1, 0), file.fdatasync):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()


def test_names_are_durable_after_a_directory_sync(disk: MemoryFileSystem) -> None:
    file = disk.open("/d/new", create=True)
    file.pwrite(b"x", 0)
    file.fdatasync()
    assert disk.durable_bytes("/d/new") is None
    written(disk, synced=b"old", pending=[])
    disk.open("/d/late", create=True)
    disk.rename("/d/f", "/d/g")
    disk.mkdir("/e")
    disk.crash()
    assert disk.list("/") == ["d"]
    assert disk.list("/d") == ["f", "new"]
    assert disk.read("/d/f") == b"old"
    disk.unlink("/d/f")
    disk.crash()
    assert disk.read("/d/f") == b"old"


def test_a_truncate_is_pending_too(disk: MemoryFileSystem) -> None:
    file = written(disk, synced=b"base", pending=[])
    file.truncate(2)
    assert disk.live_bytes("/d/f") == b"ba"
    disk.crash()
    assert disk.read("/d/f") == b"base"


def test_a_failed_sync_drops_pending_writes(disk: MemoryFileSystem) -> None:
    """As on Linux, the pages are clean afterwards, so a second fsync does not write them."""
    file = written(disk, synced=b"base", pending=[b"lost"])
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        file.fdatasync()
    assert file.dirty
    file.pwrite(b"good", 8)
    file.fdatasync()
    assert disk.live_bytes("/d/f") == b"baselostgood"
    disk.crash()
    assert disk.read("/d/f") == b"base" + bytes(4) + b"good"


def test_faults_hit_the_nth_call(disk: MemoryFileSystem) -> None:
    disk.fail("list", 2, errno.EACCES)
    disk.fail("read", 2, forever=True)
    disk.fail("open", path_part="bad")
    disk.list("/d")
    with pytest.raises(PermissionError):
        disk.list("/d")
    disk.list("/d")
    written(disk, synced=b"x", pending=[])
    disk.read("/d/f")
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            disk.read("/d/f")
    with pytest.raises(OSError, match="Input/output"):
        disk.open("/d/bad", create=True)
    disk.heal()
    disk.read("/d/f")
    assert disk.counts["read"] == 5
    assert disk.calls[-1] == ("read", "/d/f")


def test_a_failing_write_leaves_the_configured_part(disk: MemoryFileSystem) -> None:
    file = written(disk, synced=b"base", pending=[])
    disk.fail("pwrite", error=errno.ENOSPC, bytes_written=3)
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"abcdef", 4)
    assert disk.live_bytes("/d/f") == b"baseabc"


def test_a_full_disk_accepts_the_bytes_that_fit(disk: MemoryFileSystem) -> None:
    file = written(disk, synced=b"base", pending=[])
    disk.capacity_bytes = 6
    assert disk.free_bytes("/") == 2
    assert disk.total_bytes("/") == disk.capacity_bytes
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"abcdef", 4)
    assert disk.live_bytes("/d/f") == b"baseab"
    file.pwrite(b"overwriting is free"[:4], 0)


def test_kill_loses_locks_but_no_bytes(disk: MemoryFileSystem) -> None:
    disk.lock("/d/.lock")
    file = written(disk, synced=b"base", pending=[b"rest"])
    disk.kill()
    disk.lock("/d/.lock")
    assert disk.read("/d/f") == b"baserest"
    with pytest.raises(OSError, match="Bad file"):
        file.pread(1, 0)


def test_rot_and_cold_bytes(disk: MemoryFileSystem) -> None:
    file = written(disk, synced=b"base", pending=[])
    disk.edit("/d/f", 1, b"X")
    assert file.pread(4, 0) == disk.durable_bytes("/d/f") == b"bXse"
    disk.cold.add("/d/f")
    assert file.pread_nowait(4, 0) is None
    assert not file.is_cached(0, 4)
    assert file.pread(4, 0) == b"bXse"
