"""The one seam between storage and the operating system's files.

Everything that storage reads or writes goes through a `FileSystem` and the `File`s it opens, so
that tests can put a disk there that fails, tears writes or loses power. `OsFileSystem` is the
real one. The contract, for every implementation:

- Writes are positioned (`pwrite`) and whole: all bytes are in the page cache, or an OSError left
  the call. After an OSError an unknown prefix of the bytes may be in the file.
- Nothing is durable before `fdatasync` of the file and `sync_directory` of the directory that
  holds its name. `replace` does both: after it, the old or the new content survives a crash.
- A `File` may be dropped while another thread reads from it: its descriptor is closed when the
  last reference goes (CPython counts references, so this is at once and never too early). Closing
  it explicitly is for owners who know that nobody else reads.
- Mapped memory is for `send` only: touching a mapped page that the disk cannot deliver kills the
  process, while `send` answers EFAULT (decided in docs/decisions/0030-reading-and-sending.md).

`ON_THE_LOOP` says which operations the thread of the event loop may call while the broker serves
(design.md, I13). Every other one may wait for the disk and belongs in a thread of the pool; before
anything listens, and at the stop, all may be called anywhere. Tests hold brokers to it
(tests/support/loop_guard.py).

Files are made with mode 0640 and directories with 0750, less the umask. No clock, no logging.
"""

# ruff: noqa: D102  (methods of the Os classes are described by their protocols)
from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import sys
from typing import Any, Final, Protocol, cast

from storage.files import locks
from storage.files.locks import LockHandle

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750
PROBE_STEP_BYTES = 128 * 1024  # the kernel's default readahead window: cached pages come in runs
TEMPORARY_SUFFIX = ".tmp"  # Kafka's CheckpointFile uses the same

# The one declaration of what the loop may call while it serves, and why that does not wait.
ON_THE_LOOP: Final = {
    "File.pwrite": "goes into the page cache; the append queue stops when the disk lags behind",
    "File.pread_nowait": "gives None instead of waiting",
    "File.is_cached": "asks without waiting",
    "File.map": "takes addresses and reads nothing",
    "File.forget_pages": "gives back pages; what is sent at once is bounded",
    "File.size": "the inode of an open file is in memory",
    "File.truncate": "takes back a write that failed; the log that it belongs to takes no other",
    "File.close": "no write is left that a close would wait for",
    "FileSystem.open": "makes the files of a roll, or opens one again that was let go: no fsync",
    "FileSystem.unlink": "takes back the empty files of a roll that failed",
    "FileSystem.rename": "readers must not see compaction's swap half done; names are not synced",
}
# How much of what is quick a turn of the loop may do, so that together it is not slow. Batches are
# those whose headers are read one by one, at a microsecond each.
TURN_MAX: Final = {
    "FileSystem.unlink": 60,
    "FileSystem.rename": 200,
    "bytes read": 32 * 1024 * 1024,
    "batches walked": 10_000,
}

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. `writes` and `synced_writes` count, so that both threads may look."""

    path: str
    writes: int
    recent: bool  # set by users of a cache of open files, cleared by its eviction
    mapped: memoryview | None  # the map in use, kept here so that it goes when the file goes

    @property
    def dirty(self) -> bool:
        """Whether a write was made that no fdatasync has covered."""

    def size(self) -> int:
        """Bytes in the file."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file. May block."""

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        """As pread, but None if a byte of it is not in memory. Never waits for the disk."""

    def is_cached(self, position: int, size: int) -> bool:
        """Probe whether a range is in memory: both ends and a byte each 128 KiB."""

    def pull(self, size: int, position: int) -> int:
        """Have a range in memory, for whoever reads it next; how much of it there is. May block."""

    def pwrite(self, buffer: Buffer, position: int) -> None:
        """Write all bytes at `position`, or raise OSError."""

    def fdatasync(self) -> None:
        """Make all bytes written before the call durable, and the size with them."""

    def truncate(self, size: int) -> None:
        """Cut (or grow with zeros) to `size` bytes."""

    def reserve(self, size: int) -> None:
        """Have the disk keep room for a file of `size` bytes; the file does not change.

        Writes below `size` then find room on a full disk. `truncate` gives the room back.
        """

    def map(self, size: int) -> memoryview:
        """Return the first `size` bytes as a read-only view of the page cache, for sending."""

    def forget_pages(self) -> None:
        """Take the pages of the map out of this process's memory; its views stay good."""

    def close(self) -> None:
        """Close now. Only for an owner who knows that nobody else uses the file."""


class FileSystem(Protocol):
    """Whole files and directories. Every method raises OSError as the system gives it."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file for positioned reads and writes. With `create`, make it when missing."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def is_directory(self, path: str) -> bool:
        """Whether the name is a directory."""

    def size(self, path: str) -> int:
        """Bytes in the file of that name."""

    def mkdir(self, path: str) -> None:
        """Make one directory; its parent must exist. The caller syncs the parent."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file of that name atomically."""

    def unlink(self, path: str) -> None:
        """Remove a file's name."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def read(self, path: str) -> bytes:
        """All bytes of a (small) file."""

    def replace(self, path: str, data: bytes) -> None:
        """Give a small file new content, durably: a crash leaves the old or the new content."""

    def lock(self, path: str) -> LockHandle:
        """Take an exclusive lock on a file, making it when missing. DirectoryLocked if taken."""

    def lock_shared(self, path: str) -> LockHandle:
        """Take a reader's lock, which keeps writers away, and write nothing.

        DirectoryLocked if a writer holds the file. One that is missing or unreadable is not locked.
        """

    def free_bytes(self, path: str) -> int:
        """Bytes that an unprivileged writer may still use on the file system of `path`."""

    def total_bytes(self, path: str) -> int:
        """Bytes of the file system of `path`, used or not."""


_MMAP_OPTIONS: dict[str, Any] = {"flags": mmap.MAP_SHARED, "prot": mmap.PROT_READ}
if sys.version_info >= (3, 13):  # before, every map holds a descriptor of its own
    _MMAP_OPTIONS["trackfd"] = False

# The standard library's posix_fallocate makes the file larger, which is not what is wanted here.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
FALLOC_FL_KEEP_SIZE = 1  # linux/falloc.h

# What is pulled in is copied here, by all threads at once: nobody reads it. Fresh memory for each
# piece would cost more than the piece.
_NOWHERE = memoryview(mmap.mmap(-1, 256 * 1024))

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
        pieces = [data]  # a short read is the end of the file, or a signal's doing: ask again
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
        buffer = bytearray(size)
        try:
            got = os.preadv(self._fd, (buffer,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            self.nowait = False  # tmpfs and others: there is nothing to ask, so just read
            return OsFile.pread(self, size, position)
        if got == size:
            return buffer
        # Short: the rest is either not in memory or not in the file.
        if position + got < self.size():
            return None
        del buffer[got:]
        return buffer

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
        got = 0
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
        """Go on after a short write: the next call writes on, or says why it cannot."""
        while written < len(view):
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, f"wrote {written} of {len(view)} bytes", self.path)
            written += count

    def fdatasync(self) -> None:
        covered = self.writes  # those of now; one that comes while we wait is not covered
        os.fdatasync(self._fd)
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
        return os.path.lexists(path)

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
        if os.path.islink(path):  # to another disk: the directory there stays, empty
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
                os.unlink(temporary)  # on a full disk it would hold the room that is missing
            error.filename = path  # which a descriptor's error has not
            raise
        finally:
            os.close(fd)
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> LockHandle:
        return locks.take(path, FILE_MODE)

    def lock_shared(self, path: str) -> LockHandle:
        return locks.take_shared(path)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize
