"""Changes stay in memory: later reads see them, and the files below never change."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from storage.files.overlay import WRITTEN_MAX, Overlay
from tests.support.memory_filesystem import MemoryFileSystem

READS = {
    "open", "list", "exists", "is_directory", "size", "read", "lock_shared", "lock_holder",
    "free_bytes", "total_bytes",
}  # fmt: skip


class OnlyRead:
    """A file system with the reading operations only."""

    def __init__(self, below: MemoryFileSystem) -> None:
        self._filesystem = below

    def __getattr__(self, name: str) -> Any:
        assert name in READS, f"{name} may change a file"
        return getattr(self._filesystem, name)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> Any:
        assert not create
        assert not write
        return self._filesystem.open(path, write=False)


@pytest.fixture
def disk() -> MemoryFileSystem:
    below = MemoryFileSystem()
    below.mkdir("/d")
    below.replace("/d/a", b"0123456789")
    below.replace("/d/b", b"")
    return below


@pytest.fixture
def over(disk: MemoryFileSystem) -> Overlay:
    return Overlay(OnlyRead(disk))


def test_files_below_are_readable(over: Overlay) -> None:
    file = over.open("/d/a")
    assert (file.size(), over.size("/d/a"), over.read("/d/a")) == (10, 10, b"0123456789")
    assert file.pread(3, 8) == b"89"
    assert bytes(file.pread_nowait(3, 2) or b"") == b"234"
    assert file.is_cached(0, 10)
    assert file.pull(4, 0) == 4
    assert bytes(file.map(4)) == b"0123"
    assert over.list("/d") == ["a", "b"]
    assert over.is_directory("/d")
    assert over.free_bytes("/d") <= over.total_bytes("/d")
    with pytest.raises(FileNotFoundError):
        over.open("/d/c")


def test_an_open_is_one_call_of_the_disk(
    over: Overlay, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are opened on the event loop, where the disk may not be asked for names."""
    monkeypatch.setattr(disk, "exists", None)
    for _ in range(2):
        assert over.open("/d/a").size() == 10
    with pytest.raises(FileNotFoundError):
        over.open("/d/c")


def test_every_later_open_sees_a_truncate(over: Overlay) -> None:
    early = over.open("/d/a")
    over.open("/d/a").truncate(4)
    for file in (early, over.open("/d/a")):
        assert (file.size(), file.pread(9, 2), file.pread(9, 5)) == (4, b"23", b"")
        assert file.pread_nowait(9, 2) == b"23"
    assert over.size("/d/a") == 4
    assert over.read("/d/a") == b"0123"


def test_writes_stay_in_memory(over: Overlay, disk: MemoryFileSystem) -> None:
    file = over.open("/d/a")
    file.pwrite(b"xy", 9)
    assert over.open("/d/a").pread(99, 7) == b"78xy"
    file.truncate(2)
    file.truncate(4)
    assert file.pread(9, 0) == b"01\0\0"
    assert bytes(file.map(3)) == b"01\0"
    file.fdatasync()
    file.reserve(100)
    file.forget_pages()
    assert not file.dirty
    assert disk.read("/d/a") == b"0123456789"


def test_zeros_of_a_preallocated_file_take_no_memory(over: Overlay, disk: MemoryFileSystem) -> None:
    disk.replace("/d/index", b"entry" + bytes(10_000))
    file = over.open("/d/index")
    file.pwrite(b"more", 5)
    assert file.size() == 10_005
    assert file.pread(12, 0) == b"entrymore\0\0\0"
    assert file._node.data == b"more"
    file.truncate(7)
    file.pwrite(b"x", 2)
    assert (file.size(), file.pread(12, 0)) == (7, b"enxrymo")


def test_a_large_file_is_not_copied_into_memory(over: Overlay, disk: MemoryFileSystem) -> None:
    file = over.open("/d/a")
    with pytest.raises(OSError, match="too large"):
        file.pwrite(b"x", 2 * WRITTEN_MAX)
    assert over.read("/d/a") == b"0123456789"


def test_files_are_created_removed_and_renamed(over: Overlay, disk: MemoryFileSystem) -> None:
    over.rename("/d/a", "/d/b")
    over.open("/d/c", create=True).pwrite(b"new", 0)
    over.replace("/d/e", b"text")
    assert over.list("/d") == ["b", "c", "e"]
    assert over.read("/d/b") == b"0123456789"
    assert (over.read("/d/c"), over.read("/d/e"), over.size("/d/e")) == (b"new", b"text", 4)
    over.unlink("/d/b")
    assert not over.exists("/d/b")
    for gone in (over.open, over.size, over.read, over.unlink):
        with pytest.raises(FileNotFoundError):
            gone("/d/b")
    with pytest.raises(FileNotFoundError):
        over.rename("/d/a", "/d/z")
    with pytest.raises(OSError, match="keeps its name"):
        over.rename("/d", "/e")
    over.mkdir("/n")
    over.replace("/n/x", b"")
    over.sync_directory("/n")
    assert over.is_directory("/n")
    assert over.list("/n") == ["x"]
    over.rmdir("/n")
    assert not over.exists("/n")
    assert disk.list("/d") == ["a", "b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda over: over.open("/d/new", create=True),
        lambda over: over.open("/d/a").pwrite(b"x", 0),
        lambda over: over.open("/d/a").truncate(1),
        lambda over: over.rename("/d/a", "/d/z"),
        lambda over: over.unlink("/d/a"),
        lambda over: over.replace("/d/a", b""),
        lambda over: over.mkdir("/d/z"),
        lambda over: over.rmdir("/d"),
    ],
)
def test_a_sealed_overlay_refuses_every_change(
    over: Overlay, change: Callable[[Overlay], Any]
) -> None:
    over.seal()
    with pytest.raises(OSError) as caught:
        change(over)
    assert caught.value.errno == errno.EROFS
    assert over.read("/d/a") == b"0123456789"


def test_the_lock_is_a_readers(over: Overlay, disk: MemoryFileSystem) -> None:
    over.lock("/d/.lock").close()
    over.lock_shared("/d/.lock").close()
    assert not disk.exists("/d/.lock")


def test_writing_again_what_the_file_below_holds_takes_no_memory(over: Overlay) -> None:
    """Recovery cuts an index and rebuilds the same entries."""
    file = over.open("/d/a")
    file.truncate(2)
    file.pwrite(b"234", 2)
    assert file._node.data is None
    assert over.read("/d/a") == b"01234"
    file.pwrite(b"xy", 5)
    file.pwrite(b"78", 7)
    assert over.read("/d/a") == b"01234xy78"
