"""The bound holds, but for files whose writes nobody has synced; nobody reads a wrong file."""

from __future__ import annotations

import errno

import pytest

from storage.open_files import OpenFiles
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture
def disk() -> MemoryFileSystem:
    memory = MemoryFileSystem()
    for name in "abcdef":
        memory.open(f"/{name}", create=True).pwrite(name.encode(), 0)
    memory.counts.clear()
    return memory


def test_an_open_file_is_not_opened_again(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 10)
    assert files.get("/a") is files.get("/a")
    assert disk.counts["open"] == files.opened_count == 1
    assert files.peek("/a") is files.get("/a")
    assert files.peek("/b") is None


def test_the_longest_unused_goes(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 3)
    for path in ("/a", "/b", "/c"):
        files.get(path)
    files.get("/a")  # used again since the hand last passed
    files.get("/d")
    assert [path for path in ("/a", "/b", "/c", "/d") if files.peek(path)] == ["/a", "/c", "/d"]
    assert (len(files), files.evicted_count) == (3, 1)


def test_a_dirty_file_stays_and_the_bound_gives_way(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 2)
    files.get("/a").pwrite(b"A", 0)
    files.get("/b").pwrite(b"B", 0)
    files.get("/c")
    assert len(files) == 3
    assert files.over_capacity_count == 1
    files.get("/a").fdatasync()
    files.get("/b").fdatasync()
    files.get("/d")
    assert files.peek("/d") is not None
    assert files.evicted_count == 1


def test_a_reader_keeps_what_was_let_go(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 1)
    reader = files.get("/a")
    files.get("/b")
    assert files.peek("/a") is None
    assert reader.pread(1, 0) == b"a"


def test_rename_goes_on_with_the_open_file(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 4)
    file = files.get("/a")
    stale = files.get("/b")
    files.rename("/a", "/b")
    assert files.get("/b") is file
    assert file.path == "/b"
    assert files.peek("/a") is None
    assert stale.pread(1, 0) == b"b"
    with pytest.raises(OSError) as caught:
        files.get("/a")
    assert caught.value.errno == errno.ENOENT


def test_a_failed_open_or_rename_changes_nothing(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 4)
    file = files.get("/a")
    disk.fail("open", error=errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        files.get("/b")
    disk.fail("rename")
    with pytest.raises(OSError, match="Input/output"):
        files.rename("/a", "/z")
    assert files.get("/a") is file
    assert len(files) == 1


def test_create_and_forget(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 4)
    first = files.get("/new", create=True)
    files.forget("/new")
    files.forget("/never")
    assert files.get("/new") is not first
    files.close()
    assert len(files) == 0


def test_maps_count_as_descriptors(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 4)
    files.get("/b")
    file = files.get("/a")
    file.mapped = file.map(1)
    assert files.descriptor_count == 3


def test_pages_of_all_maps_are_let_go_after_a_rest_and_when_much_was_sent(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OpenFiles(disk, 10)
    forgotten: list[str] = []
    for path in ("/a", "/b"):
        file = files.get(path)
        monkeypatch.setattr(file, "forget_pages", lambda path=path: forgotten.append(path))
    files.viewed(1)
    files.sweep()
    files.viewed(1)
    files.sweep()
    assert forgotten == []  # they are still wanted
    files.sweep()
    assert forgotten == ["/a", "/b"]
    files.sweep()
    assert forgotten == ["/a", "/b"]
    for _ in range(512):
        files.viewed(1 << 20)
    assert forgotten == ["/a", "/b"]
    files.viewed(1)
    assert forgotten == ["/a", "/b"] * 2
