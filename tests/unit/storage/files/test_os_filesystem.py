"""The operating system's files: short reads and writes, non-blocking reads, locks, modes."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from storage.errors import DirectoryLocked
from storage.files.os_filesystem import OsFileSystem


def test_a_lock_excludes_another_process(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    ask = (
        "import fcntl, os, sys\n"
        f"fd = os.open({path!r}, os.O_RDWR)\n"
        "try: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)\n"
    )
    lock = OsFileSystem().lock(path)
    with pytest.raises(DirectoryLocked):  # which must not drop the lock of this process
        OsFileSystem().lock(path)
    assert subprocess.run([sys.executable, "-c", ask], check=False).returncode == 7
    with pytest.raises(DirectoryLocked, match=rf"\(pid {os.getpid()}\)"):
        OsFileSystem().lock(path)
    lock.close()
    assert subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0


def test_modes_deny_access_to_other_users(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    old = os.umask(0)
    try:
        filesystem.mkdir(str(tmp_path / "d"))
        filesystem.open(str(tmp_path / "d" / "f"), create=True)
        filesystem.replace(str(tmp_path / "d" / "c"), b"")
        filesystem.lock(str(tmp_path / "d" / "l")).close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750
    for name in "fcl":
        assert stat.S_IMODE((tmp_path / "d" / name).stat().st_mode) == 0o640, name


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file.pwrite(b"0123456789", 2)
    assert (tmp_path / "f").read_bytes() == b"\0\x000123456789"


def test_a_write_of_zero_bytes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)
    with pytest.raises(OSError, match="wrote 0 of 3 bytes"):
        file.pwrite(b"abc", 0)


class _Preadv:
    """os.preadv as the kernel answers if bytes are not in memory, or if it cannot tell."""

    def __init__(self, error: int | None, count: int = 0) -> None:
        self.error = error
        self.count = count

    def __call__(self, fd: int, buffers: tuple[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        buffers[0][: self.count] = os.pread(fd, self.count, position)
        return self.count


@pytest.mark.parametrize(
    ("name", "preadv", "read", "cached"),
    [
        ("not in memory", _Preadv(errno.EAGAIN), None, False),
        ("half in memory", _Preadv(None, 4), None, True),
        ("tmpfs cannot say", _Preadv(errno.EOPNOTSUPP), b"0123456789", True),
        ("nor can others", _Preadv(errno.EINVAL), b"0123456789", True),
    ],
)
def test_non_blocking_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    preadv: _Preadv,
    read: bytes | None,
    cached: bool,
) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"0123456789", 0)
    monkeypatch.setattr(os, "preadv", preadv)
    for _ in range(2):  # a file system without support is not asked again
        assert file.pread_nowait(10, 0) == read, name
        assert file.is_cached(0, 10) is cached, name


def test_a_pull_reads_more_than_one_call_can(tmp_path: Path) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    size = 600 * 1024 + 1
    file.truncate(size)
    assert file.pull(size, 0) == size
    assert file.pull(size, 1) == size - 1


def test_a_pull_copies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"0123456789", 0)
    monkeypatch.delattr(os, "preadv")
    assert file.pull(10, 0) == 10
    assert file.pull(4, 3) == 4


def test_a_pull_needs_no_null_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"0123456789", 0)
    monkeypatch.setattr(os, "devnull", str(tmp_path / "none"))
    assert file.pull(10, 1) == 9
    plain = tmp_path / "plain"  # what a careless command leaves of the device
    plain.touch()
    monkeypatch.setattr(os, "devnull", str(plain))
    assert file.pull(10, 1) == 9
    assert not plain.stat().st_size


def test_a_pull_reports_what_the_read_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> int:
        raise OSError(errno.EINVAL, "a file system that cannot")

    def fails(*_: object) -> int:
        raise OSError(errno.EIO, "a disk that fails")

    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"0123456789", 0)
    monkeypatch.setattr(os, "sendfile", cannot)
    assert file.pull(10, 0) == 10
    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(OSError) as caught:
        file.pull(10, 0)
    assert caught.value.errno == errno.EIO


def test_a_failing_disk_is_not_reported_as_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    monkeypatch.setattr(os, "preadv", _Preadv(errno.EIO))
    for call in (lambda: file.pread_nowait(1, 0), lambda: file.is_cached(0, 1)):
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EIO


def resident_kib(path: Path) -> int:
    """How many KiB of a file's maps are in this process's memory."""
    found, of_the_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            of_the_file = line.endswith(str(path))
        elif of_the_file and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


def test_released_pages_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsFileSystem().open(str(path), create=True)
    file.forget_pages()  # nothing is mapped
    file.pwrite(bytes(range(256)) * 4096, 0)
    file.mapped = view = file.map(1 << 20)
    assert bytes(view[:4]) == bytes(view[1024:1028]) == b"\0\1\2\3"
    assert sum(view[::4096]) == 0
    assert resident_kib(path) == 1024
    file.forget_pages()
    assert resident_kib(path) == 0
    assert bytes(view[:4]) == b"\0\1\2\3"


def test_the_last_reference_closes_the_descriptor(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"abc", 0)
    reader = file
    del file
    assert reader.pread(3, 0) == b"abc"
    view = reader.map(3)
    del reader, view
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_reserve_takes_disk_space_and_changes_no_file(tmp_path: Path) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    file.pwrite(b"abc", 0)
    before = (tmp_path / "f").stat().st_blocks
    file.reserve(1024 * 1024)
    status = (tmp_path / "f").stat()
    assert status.st_size == 3
    assert (status.st_blocks - before) * 512 >= 1024 * 1024 - 8192
    assert file.pread(10, 0) == b"abc"
    file.truncate(3)
    assert (tmp_path / "f").stat().st_blocks == before


def test_a_reserve_without_disk_space_is_an_error(tmp_path: Path) -> None:
    file = OsFileSystem().open(str(tmp_path / "f"), create=True)
    with pytest.raises(OSError, match=str(tmp_path)):
        file.reserve(1 << 60)


def test_the_process_that_holds_a_lock_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    hold = (
        "import fcntl, os, sys\n"
        f"fd = os.open({path!r}, os.O_RDWR | os.O_CREAT)\n"
        "fcntl.lockf(fd, fcntl.LOCK_EX)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(DirectoryLocked) as caught:
            OsFileSystem().lock(path)
        assert caught.value.holder_pid == holder.pid
        assert f"(pid {holder.pid})" in str(caught.value)
        holder.communicate()
    OsFileSystem().lock(path).close()


def test_a_failed_replace_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk at the start, the error of a descriptor has no path of its own."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/meta.properties'"):
        OsFileSystem().replace(f"{tmp_path}/meta.properties", b"x")
    assert os.listdir(tmp_path) == []
