"""The file system's contract, kept by the operating system's files and by those in memory."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.errors import DirectoryLocked
from storage.files.filesystem import FileSystem
from storage.files.os_filesystem import OsFileSystem
from tests.support.memory_filesystem import MemoryFileSystem


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and an empty directory on it."""
    if request.param == "os":
        return OsFileSystem(), str(tmp_path)
    memory = MemoryFileSystem()
    memory.mkdir("/data")
    return memory, "/data"


def test_a_file_returns_the_bytes_written_to_it(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)
    file.pwrite(b"hello", 0)
    file.pwrite(memoryview(bytearray(b"world")), 7)
    assert file.size() == 12
    cases = [
        ("whole", 12, 0, b"hello\0\0world"),
        ("inner", 3, 1, b"ell"),
        ("past the end", 100, 7, b"world"),
        ("at the end", 5, 12, b""),
        ("nothing", 0, 3, b""),
    ]
    for name, size, position, expected in cases:
        assert file.pread(size, position) == expected, name
        assert file.pread_nowait(size, position) == expected, name
        assert file.pull(size, position) == len(expected), name
    assert filesystem.read(f"{root}/a") == b"hello\0\0world"
    assert filesystem.size(f"{root}/a") == 12
    assert file.is_cached(0, 12)
    file.truncate(4)
    assert (file.size(), file.pread(10, 0)) == (4, b"hell")


def test_a_file_is_dirty_until_a_sync_covers_its_writes(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)
    assert not file.dirty
    file.pwrite(b"x", 0)
    assert file.dirty
    file.fdatasync()
    assert not file.dirty
    file.truncate(0)
    assert file.dirty


def test_a_map_shows_the_file_and_outlives_its_close(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    file = filesystem.open(f"{root}/a", create=True)
    file.pwrite(b"0123456789", 0)
    view = file.map(10)[2:5]
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(ValueError, match="file size"):
        file.map(11)
    file.close()
    filesystem.unlink(f"{root}/a")
    assert bytes(view) == b"234"  # a regular small file on a healthy disk: safe to look at here


def test_names(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    filesystem.mkdir(f"{root}/d")
    filesystem.open(f"{root}/d/b", create=True).pwrite(b"b", 0)
    filesystem.open(f"{root}/d/a", create=True).pwrite(b"a", 0)
    assert filesystem.list(f"{root}/d") == ["a", "b"]
    assert filesystem.is_directory(f"{root}/d")
    assert not filesystem.is_directory(f"{root}/d/a")
    filesystem.rename(f"{root}/d/a", f"{root}/d/b")
    assert filesystem.list(f"{root}/d") == ["b"]
    assert filesystem.read(f"{root}/d/b") == b"a"
    filesystem.sync_directory(f"{root}/d")
    filesystem.rename(f"{root}/d", f"{root}/e")
    assert not filesystem.exists(f"{root}/d")
    filesystem.unlink(f"{root}/e/b")
    filesystem.rmdir(f"{root}/e")
    assert filesystem.list(root) == []
    assert 0 < filesystem.free_bytes(root) <= filesystem.total_bytes(root)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda fs, root: fs.open(f"{root}/no"), errno.ENOENT),
        (lambda fs, root: fs.read(f"{root}/no"), errno.ENOENT),
        (lambda fs, root: fs.size(f"{root}/no"), errno.ENOENT),
        (lambda fs, root: fs.list(f"{root}/no"), errno.ENOENT),
        (lambda fs, root: fs.unlink(f"{root}/no"), errno.ENOENT),
        (lambda fs, root: fs.rename(f"{root}/no", f"{root}/x"), errno.ENOENT),
        (lambda fs, root: fs.mkdir(f"{root}/d"), errno.EEXIST),
        (lambda fs, root: fs.rmdir(f"{root}/d"), errno.ENOTEMPTY),
        (lambda fs, root: fs.open(f"{root}/no/f", create=True), errno.ENOENT),
        (lambda fs, root: fs.open(f"{root}/d/f", write=False).pwrite(b"x", 0), errno.EBADF),
    ],
)
def test_errors_are_those_of_the_operating_system(
    disk: tuple[FileSystem, str], call: object, wanted: int
) -> None:
    filesystem, root = disk
    filesystem.mkdir(f"{root}/d")
    filesystem.open(f"{root}/d/f", create=True)
    with pytest.raises(OSError) as caught:
        call(filesystem, root)  # type: ignore[operator]
    assert caught.value.errno == wanted


def test_replace_leaves_the_new_content_and_no_temporary_file(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    for data in (b"first, longer", b"second", b""):
        filesystem.replace(f"{root}/c", data)
        assert filesystem.read(f"{root}/c") == data
        assert filesystem.list(root) == ["c"]


def test_a_lock_is_exclusive_until_closed(disk: tuple[FileSystem, str]) -> None:
    filesystem, root = disk
    lock = filesystem.lock(f"{root}/.lock")
    with pytest.raises(DirectoryLocked, match=r"Failed to acquire lock on file .*\.lock"):
        filesystem.lock(f"{root}/.lock")
    lock.close()
    filesystem.lock(f"{root}/.lock").close()
