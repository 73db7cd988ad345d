"""Locks on a data directory's `.lock`, as Java's FileLock takes them: fcntl record locks.

    take           for a broker that writes: exclusive, and the file is made if it is missing
    take_shared    for one that only reads: any number of readers, and no writer beside them
    lock_holder    for tools: asks the kernel which broker writes, and takes no lock

Such locks belong to the process, and closing any descriptor of the file drops them: so `_held`
guards against a second taker in this process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from typing import Final, Protocol

from storage.errors import DirectoryLocked

_FLOCK: Final = struct.Struct("hhqqi4x")  # fcntl.h, Linux: type, whence, start, length, pid

_held: set[tuple[int, int]] = set()  # (device, inode), of the whole process


class LockHandle(Protocol):
    """A held lock; released by close or by the end of the process."""

    def close(self) -> None:
        """Release."""


class _Lock:
    """A lock, by the descriptor that it was taken with."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._key = _key_of(os.fstat(fd))
        _held.add(self._key)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self._key)


class _NoLock:
    """What a reader has of a file that cannot be locked."""

    def close(self) -> None:
        """Nothing is held."""


def take(path: str, mode: int) -> LockHandle:
    """Take an exclusive lock, making the file with `mode` if it is missing.

    Raises DirectoryLocked if another process or this one holds it, OSError.
    """
    _check_not_ours(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, mode)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise _refused(path, fd, error) from None
    return _Lock(fd)


def take_shared(path: str) -> LockHandle:
    """Take a shared lock and write nothing. Raises DirectoryLocked if a writer holds the file.

    A file that is missing, unreadable, or on a file system without locks is not locked: nobody can
    tell then whether a broker writes here.
    """
    _check_not_ours(path)
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return _NoLock()
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        refused = _refused(path, fd, error)
        if isinstance(refused, DirectoryLocked):
            raise refused from None
        return _NoLock()
    return _Lock(fd)


def _check_not_ours(path: str) -> None:
    """Refuse a file that this process has locked, before it is opened: closing would unlock it."""
    if os.path.exists(path) and _key_of(os.stat(path)) in _held:
        raise DirectoryLocked(path, os.getpid())


def _refused(path: str, fd: int, error: OSError) -> DirectoryLocked | OSError:
    """Close the descriptor, and say why there is no lock."""
    holder_pid = _holder_of(fd, fcntl.F_WRLCK)
    os.close(fd)
    is_taken = error.errno in (errno.EAGAIN, errno.EACCES)
    return DirectoryLocked(path, holder_pid or 0) if is_taken else error


def lock_holder(path: str) -> int | None:
    """Return the id of the process that holds an exclusive lock on a file, None if none does.

    0 if it has no id here (it runs in another container). Readers do not count. Trying to take the
    lock instead could keep a broker from starting. Not for a process that holds the lock: it would
    lose it.
    """
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return _holder_of(fd, fcntl.F_RDLCK)
    finally:
        os.close(fd)


def _holder_of(fd: int, wanted: int) -> int | None:
    """Return who holds a lock that excludes the `wanted` one; None also if that is unknown."""
    if not sys.platform.startswith("linux"):
        return None  # the layout of `struct flock` is Linux's, of 64 bits
    asked = _FLOCK.pack(wanted, os.SEEK_SET, 0, 0, 0)
    try:
        found: tuple[int, ...] = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if found[0] == fcntl.F_UNLCK else max(0, found[4])


def _key_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
