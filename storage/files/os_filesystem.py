"""The operating system's files, behind the interface of `storage.files.filesystem`.

Reads that must not wait use RWF_NOWAIT. A file system that does not support it gets plain reads:
tmpfs, whose data are in memory anyway, is the usual one.
"""

# ruff: noqa: D102  (the methods are described by their protocols)
from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import stat
import sys
from typing import Any, cast

from storage.files import locks
from storage.files.copy_blocks import SHARED_BYTES_MIN, CopyBlocks
from storage.files.filesystem import TEMPORARY_SUFFIX, Buffer
from storage.files.locks import LockHandle

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750
PROBE_STEP_BYTES = 128 * 1024  # the kernel's default readahead window: cached pages come in runs

_MMAP_OPTIONS: dict[str, Any] = {"flags": mmap.MAP_SHARED, "prot": mmap.PROT_READ}
if sys.version_info >= (3, 13):  # before, every map holds a descriptor of its own
    _MMAP_OPTIONS["trackfd"] = False

# The standard library's posix_fallocate makes the file larger, which is not what is wanted here.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
FALLOC_FL_KEEP_SIZE = 1  # linux/falloc.h

# Where `pull` cannot hand pages to the null device, it copies to this buffer, from all threads at
# once: its content does not matter, and fresh memory for each piece would cost more than the piece.
_NOWHERE = memoryview(mmap.mmap(-1, 256 * 1024))

_blocks = CopyBlocks()

_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL)


class OsFile:
    """A file of the operating system, by descriptor."""

    __slots__ = ("_fd", "mapped", "nowait", "path", "recent", "synced_writes", "writes")

    def __init__(self, path: str, fd: int) -> None:
        self._fd = fd
        self.path = path
        self.recent = False
        self.mapped: memoryview | None = None
        self.writes = 0
        self.synced_writes = 0
        self.nowait = hasattr(os, "RWF_NOWAIT")  # until the file system says otherwise

    @property
    def dirty(self) -> bool:
        return self.writes != self.synced_writes

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        pieces = [data]  # a short read means the end of the file, or a signal: read again
        got = len(data)
        while got < size:
            piece = os.pread(self._fd, size - got, position + got)
            if not piece:
                break
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        if not self.nowait:
            return OsFile.pread(self, size, position)
        buffer = bytearray(size) if size < SHARED_BYTES_MIN else _blocks.take(size)
        try:
            got = os.preadv(self._fd, (buffer,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self.nowait = False  # tmpfs and others: just read
            return OsFile.pread(self, size, position)
        if got == size:
            return buffer
        # Short: the rest is either not in memory or not in the file.
        if position + got < self.size():
            return None
        return buffer[:got]

    def is_cached(self, position: int, size: int) -> bool:
        if size <= 0 or not self.nowait:
            return True
        probe = (bytearray(1),)
        last = position + size - 1
        at = position
        try:
            while at < last:
                os.preadv(self._fd, probe, at, os.RWF_NOWAIT)
                at += PROBE_STEP_BYTES
            os.preadv(self._fd, probe, last, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self.nowait = False
        return True

    def pull(self, size: int, position: int) -> int:
        got = _pages_read(self._fd, size, position)
        while got < size:
            piece = (_NOWHERE[: size - got],)
            count = os.preadv(self._fd, piece, position + got)
            if not count:
                break
            got += count
        return got

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self.writes += 1
        written = os.pwrite(self._fd, buffer, position)
        if written != len(buffer):
            self._pwrite_rest(memoryview(buffer), written, position)

    def _pwrite_rest(self, view: memoryview, written: int, position: int) -> None:
        """Go on after a short write: the next call writes more, or raises the reason."""
        while written < len(view):
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, f"wrote {written} of {len(view)} bytes", self.path)
            written += count

    def fdatasync(self) -> None:
        covered = self.writes  # a write that comes while this waits is not covered
        os.fdatasync(self._fd)
        self.synced_writes = covered

    @property
    def sync_descriptor(self) -> int:
        return self._fd

    def note_synced(self, covered: int) -> None:
        self.synced_writes = covered

    def truncate(self, size: int) -> None:
        self.writes += 1
        os.ftruncate(self._fd, size)

    def reserve(self, size: int) -> None:
        if _LIBC.fallocate(self._fd, FALLOC_FL_KEEP_SIZE, 0, size):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self.path)

    def map(self, size: int) -> memoryview:
        return memoryview(mmap.mmap(self._fd, size, **_MMAP_OPTIONS))

    def forget_pages(self) -> None:
        mapped = self.mapped
        if mapped is not None:
            cast("mmap.mmap", mapped.obj).madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        self.mapped = None
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


def _pages_read(descriptor: int, size: int, position: int) -> int:
    """Read pages of a file without copying them; return how many bytes, perhaps too few.

    The kernel hands the null device pages, as it does a socket, and they stay in the page cache.
    The device is opened each time: a descriptor that were kept, and closed by a process that
    forks, could become another file's. Nor is a plain file of that name written to. What went
    wrong is told by the read that follows.
    """
    got = 0
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            while got < size and stat.S_ISCHR(os.fstat(nowhere).st_mode):
                count = os.sendfile(nowhere, descriptor, position + got, size - got)
                if not count:
                    break
                got += count
        finally:
            os.close(nowhere)
    return got


class OsFileSystem:
    """The operating system's files. See `FileSystem` for the contract of each method."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OsFile:
        flags = os.O_RDWR if write else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return OsFile(path, os.open(path, flags, FILE_MODE))

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def exists(self, path: str) -> bool:
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mkdir(self, path: str) -> None:
        os.mkdir(path, DIRECTORY_MODE)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        if os.path.islink(path):  # to another disk: the empty directory there stays
            os.unlink(path)
        else:
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + TEMPORARY_SUFFIX
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # on a full disk it would take up the missing room
            error.filename = path  # the error of a descriptor has none
            raise
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> LockHandle:
        return locks.take(path, FILE_MODE)

    def lock_shared(self, path: str) -> LockHandle:
        return locks.take_shared(path)

    def lock_holder(self, path: str) -> int | None:
        return locks.lock_holder(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize
