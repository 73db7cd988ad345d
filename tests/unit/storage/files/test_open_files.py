"""The bound holds, except for files with unsynced writes; no caller reads a wrong file."""

from __future__ import annotations

import errno
import weakref

import pytest

from storage.files.open_files import EVICTED_FOR_ONE_MAX, VIEWED_BYTES_MAX, OpenFiles
from tests.support.memory_filesystem import MemoryFile, MemoryFileSystem


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


def test_the_least_recently_used_file_is_closed(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 3)
    for path in ("/a", "/b", "/c"):
        files.get(path)
    files.get("/a")  # used again since the clock hand last passed
    files.get("/d")
    assert [path for path in ("/a", "/b", "/c", "/d") if files.peek(path)] == ["/a", "/c", "/d"]
    assert (len(files), files.evicted_count) == (3, 1)


def test_dirty_files_stay_open_even_above_the_bound(disk: MemoryFileSystem) -> None:
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
    assert len(files) == 2, "files above the bound are closed once they are synced"
    assert files.evicted_count == 2


def test_a_reader_keeps_a_file_that_was_evicted(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 1)
    reader = files.get("/a")
    files.get("/b")
    assert files.peek("/a") is None
    assert reader.pread(1, 0) == b"a"


def test_rename_keeps_the_open_file(disk: MemoryFileSystem) -> None:
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
    disk.fail("open", error=errno.EACCES)
    with pytest.raises(OSError, match="Permission denied"):
        files.get("/b")
    disk.fail("rename")
    with pytest.raises(OSError, match="Input/output"):
        files.rename("/a", "/z")
    assert files.get("/a") is file
    assert len(files) == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_files_that_are_not_used_make_room_if_there_is_no_descriptor(
    disk: MemoryFileSystem, number: int
) -> None:
    """Connections have taken more than the quarter that the capacity leaves to them."""
    files = OpenFiles(disk, 10)
    files.get("/a").pwrite(b"A", 0)
    files.get("/b")
    files.get("/c")
    disk.fail("open", error=number)
    assert files.get("/d") is files.peek("/d")
    assert files.evicted_count == 1
    assert files.peek("/a") is not None
    disk.fail("open", error=number, forever=True)
    with pytest.raises(OSError, match="open files"):
        files.get("/e")
    assert [path for path in ("/a", "/b", "/c", "/d") if files.peek(path)] == ["/a"]


def test_only_some_files_are_closed_for_one(disk: MemoryFileSystem) -> None:
    """If their descriptors do not help, the others stay open."""
    files = OpenFiles(disk, 100)
    for number in range(40):
        files.get(f"/{number}", create=True)
    disk.fail("open", error=errno.ENFILE, forever=True)
    with pytest.raises(OSError, match="open files"):
        files.get("/e")
    assert len(files) == 40 - EVICTED_FOR_ONE_MAX


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


def test_pages_of_sent_maps_are_released_after_a_pause_and_after_many_sent_bytes(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OpenFiles(disk, 10)
    forgotten: list[str] = []
    for path in ("/a", "/b", "/c"):  # /c is not sent
        file = files.get(path)
        monkeypatch.setattr(file, "forget_pages", lambda path=path: forgotten.append(path))
    files.viewed(files.get("/a"), 1)
    files.sweep()
    files.viewed(files.get("/b"), 1)
    files.sweep()
    assert forgotten == []  # they are still in use
    files.sweep()
    assert forgotten == ["/a", "/b"]
    files.sweep()
    assert forgotten == ["/a", "/b"]
    for _ in range(VIEWED_BYTES_MAX >> 20):
        files.viewed(files.get("/b"), 1 << 20)
    assert forgotten == ["/a", "/b"]
    files.viewed(files.get("/a"), 1)
    assert forgotten == ["/a", "/b", "/b", "/a"]


@pytest.mark.parametrize("how", ["forgotten", "renamed", "evicted", "closed"])
def test_a_file_that_leaves_the_table_is_not_kept_open_because_it_was_sent(
    disk: MemoryFileSystem, how: str
) -> None:
    files = OpenFiles(disk, 1)
    files.get("/a", create=True)
    sent = weakref.ref(files.get("/a"))
    files.viewed(files.get("/a"), 1)
    if how == "forgotten":
        files.forget("/a")
    elif how == "renamed":
        files.rename("/a", "/b")
        files.forget("/b")
    elif how == "evicted":
        files.get("/b", create=True)
    else:
        files.close()
    assert sent() is None


class Watched(MemoryFileSystem):
    """Open files that look themselves up whenever the cache asks whether they are dirty."""

    files: OpenFiles
    missing: list[str]

    def open(self, path: str, *, create: bool = False, write: bool = True) -> MemoryFile:
        disk, made = self, super().open(path, create=create, write=write)

        class Asked(type(made)):  # type: ignore[misc]
            @property
            def dirty(self) -> bool:
                if disk.files.peek(path) is not self:
                    disk.missing.append(path)
                return bool(super().dirty)

        made.__class__ = Asked
        return made


def test_no_file_is_missing_while_another_is_evicted() -> None:
    """A flush that looked at that moment would skip the fsync of a dirty file."""
    disk = Watched()
    disk.missing = []
    disk.files = files = OpenFiles(disk, 2)
    for name in "abcdef":
        files.get(f"/{name}", create=True).pwrite(b"x", 0)
    assert len(files) == 6
    assert files.over_capacity_count > 0
    files.get("/a").fdatasync()
    files.get("/g", create=True)
    assert (files.peek("/a"), disk.missing) == (None, [])


def test_a_file_about_to_be_written_is_not_evicted(disk: MemoryFileSystem) -> None:
    files = OpenFiles(disk, 2)
    file = files.get_to_write("/a")
    for name in "bcd":
        files.get(f"/{name}")
    assert files.peek("/a") is file
    file.pwrite(b"A", 0)
    file.fdatasync()
    for name in "ef":
        files.get(f"/{name}")
    assert files.peek("/a") is None
