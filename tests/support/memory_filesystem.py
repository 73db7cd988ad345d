"""A disk in memory that can fail, tear and lose power: `storage.files.filesystem` for tests.

Every file keeps the bytes that programs see (live), the bytes on the disk (durable), and the
writes between the two in order. Every directory keeps live and durable entries. So

- only `fdatasync` makes a file's bytes durable, and only `sync_directory` the names in a directory;
- a failed `fdatasync` forgets the pending writes, as Linux marks the pages clean: a second one
  succeeds and saves none of them;
- `crash()` is a power cut. Pending writes are lost, kept, torn in the middle or present as zeros,
  by `unsynced`. Files opened before are dead.
- `kill()` ends only the process: everything live stays.

`fail(op, nth)` makes the nth call of an operation from now raise. `counts` holds how often each
operation ran, so that a test can first count a scenario's calls and then fail them one by one.
`before` is called before every operation, for sweeps over all calls. Reads of `cold` files that
must not wait return None.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from storage.errors import DirectoryLocked
from storage.files.filesystem import TEMPORARY_SUFFIX, Buffer

OPERATIONS = (
    "open", "pread", "pwrite", "fdatasync", "truncate", "reserve", "map", "close", "list", "mkdir",
    "rename", "unlink", "rmdir", "sync_directory", "read", "replace", "lock", "size",
)  # fmt: skip

# (operation, path) -> the error to raise, and how much of a pwrite reaches the file first.
Before = Callable[[str, str], tuple[BaseException, float] | None]


class _Inode:
    """A file's content: live, durable, and the writes that are only live."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # (position, bytes) or (size, None)

    def write(self, data: bytes, position: int) -> None:
        _write(self.live, data, position)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        _truncate(self.live, size)
        self.pending.append((size, None))

    def settle(self, count: int | None = None) -> None:
        """Apply the first `count` pending writes (default: all) to the durable bytes."""
        for position, data in self.pending[:count]:
            if data is None:
                _truncate(self.durable, position)
            else:
                _write(self.durable, data, position)
        self.pending.clear()


class _Directory:
    def __init__(self) -> None:
        self.live: dict[str, _Inode | _Directory] = {}
        self.durable: dict[str, _Inode | _Directory] = {}


@dataclass
class _Fault:
    op: str
    nth: int
    error: int
    forever: bool
    path_part: str
    bytes_written: int
    seen: int = field(default=0)

    def hits(self, op: str, path: str) -> bool:
        if op != self.op or self.path_part not in path:
            return False
        self.seen += 1
        return self.seen == self.nth or (self.forever and self.seen > self.nth)


class MemoryFileSystem:
    """See the module. Paths are absolute; "/" exists."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, str]] = []  # (operation, path), in order
        self.capacity_bytes = capacity_bytes
        self.cold: set[str] = set()  # paths whose bytes are not in memory
        self.generation = 0
        self.before: Before | None = None
        self._root = _Directory()
        self._faults: list[_Fault] = []
        self._locks: set[str] = set()

    # Operations for tests.

    def fail(
        self,
        op: str,
        nth: int = 1,
        error: int = errno.EIO,
        *,
        forever: bool = False,
        path_part: str = "",
        bytes_written: int = 0,
    ) -> None:
        """Make the nth call of `op` from now (on a path with `path_part`) raise `error`.

        With `forever` all later calls raise, too. A failing pwrite leaves its first
        `bytes_written` bytes in the file.
        """
        assert op in OPERATIONS, op
        self._faults.append(_Fault(op, nth, error, forever, path_part, bytes_written))

    def heal(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def kill(self) -> None:
        """End the process that used the files: locks and open files go, all bytes stay."""
        self.generation += 1
        self._locks.clear()

    def crash(self, unsynced: str = "lost") -> None:
        """Cut the power. Pending writes are `lost`, `kept`, `torn` (the first half of them, and
        half of the one in the middle) or `zeros` (the size grew, the bytes did not arrive).
        Names that no sync_directory covered are lost, except with `kept`.
        """
        assert unsynced in ("lost", "kept", "torn", "zeros"), unsynced
        self.kill()
        self._crash_directory(self._root, unsynced)

    def live_bytes(self, path: str) -> bytes:
        """Return the bytes that programs see in the file."""
        return bytes(self._inode(path).live)

    def durable_bytes(self, path: str) -> bytes | None:
        """Return the file's bytes on the disk, or None if its name is not durable."""
        node: _Inode | _Directory | None = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(node, _Directory):
                return None
            node = node.durable.get(part)
        return bytes(node.durable) if isinstance(node, _Inode) else None

    def edit(self, path: str, position: int, data: bytes) -> None:
        """Change bytes durably and outside of any file call, as bit rot does."""
        inode = self._inode(path)
        _write(inode.live, data, position)
        _write(inode.durable, data, position)

    # The file system's contract.

    def open(self, path: str, *, create: bool = False, write: bool = True) -> MemoryFile:
        self._enter("open", path)
        parent, name = self._parent(path)
        node = parent.live.get(name)
        if node is None:
            if not create:
                raise _error(errno.ENOENT, path)
            node = parent.live[name] = _Inode()
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        return MemoryFile(self, path, node, writable=write)

    def list(self, directory: str) -> list[str]:
        self._enter("list", directory)
        return sorted(self._directory(directory).live)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        self._enter("size", path)
        return len(self._inode(path).live)

    def mkdir(self, path: str) -> None:
        self._enter("mkdir", path)
        parent, name = self._parent(path)
        if name in parent.live:
            raise _error(errno.EEXIST, path)
        parent.live[name] = _Directory()

    def rename(self, old: str, new: str) -> None:
        self._enter("rename", old)
        parent, name = self._parent(old)
        if name not in parent.live:
            raise _error(errno.ENOENT, old)
        target, new_name = self._parent(new)
        there = target.live.get(new_name)
        if isinstance(there, _Directory) and there.live:
            raise _error(errno.ENOTEMPTY, new)
        target.live[new_name] = parent.live.pop(name)

    def unlink(self, path: str) -> None:
        self._enter("unlink", path)
        self._inode(path)
        parent, name = self._parent(path)
        del parent.live[name]

    def rmdir(self, path: str) -> None:
        self._enter("rmdir", path)
        if self._directory(path).live:
            raise _error(errno.ENOTEMPTY, path)
        parent, name = self._parent(path)
        del parent.live[name]

    def sync_directory(self, path: str) -> None:
        self._enter("sync_directory", path)
        directory = self._directory(path)
        directory.durable = dict(directory.live)

    def read(self, path: str) -> bytes:
        self._enter("read", path)
        return bytes(self._inode(path).live)

    def replace(self, path: str, data: bytes) -> None:
        self._enter("replace", path)
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.fdatasync()
        self.rename(temporary, path)
        self.sync_directory(posixpath.dirname(path))

    def lock(self, path: str) -> MemoryLock:
        self._enter("lock", path)
        if path in self._locks:
            raise DirectoryLocked(path)
        self.open(path, create=True)
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def lock_shared(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise DirectoryLocked(path)
        return MemoryLock(set(), path)  # a reader's lock does not exclude others

    def lock_holder(self, path: str) -> int | None:
        return 0 if path in self._locks else None

    def free_bytes(self, path: str) -> int:
        self._directory(path)
        if self.capacity_bytes is None:
            return 2**40
        return max(0, self.capacity_bytes - self.used_bytes())

    def total_bytes(self, path: str) -> int:
        self._directory(path)
        return 2**40 if self.capacity_bytes is None else self.capacity_bytes

    def used_bytes(self) -> int:
        """Return the total bytes of all live files."""
        return _used(self._root)

    # Internals.

    def _enter(self, op: str, path: str, writes_bytes: int = 0) -> tuple[BaseException, int] | None:
        """Count a call; raise if it must fail (a pwrite gets the error, to write its part)."""
        self.counts[op] += 1
        self.calls.append((op, path))
        found: tuple[BaseException, int] | None = None
        asked = None if self.before is None else self.before(op, path)
        if asked is not None:
            found = asked[0], int(writes_bytes * asked[1])
        for fault in self._faults:
            if fault.hits(op, path) and found is None:
                found = _error(fault.error, path), fault.bytes_written
        if found is not None and op != "pwrite":
            raise found[0]
        return found

    def _find(self, path: str) -> _Inode | _Directory | None:
        assert path.startswith("/"), path
        node: _Inode | _Directory | None = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(node, _Directory):
                return None
            node = node.live.get(part)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, name = posixpath.split(path.rstrip("/"))
        return self._directory(parent), name

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        return node

    def _crash_directory(self, directory: _Directory, unsynced: str) -> None:
        if unsynced == "kept":
            directory.durable = dict(directory.live)
        directory.live = dict(directory.durable)
        for node in directory.live.values():
            if isinstance(node, _Directory):
                self._crash_directory(node, unsynced)
            else:
                _crash_file(node, unsynced)


class MemoryFile:
    """An open file of a MemoryFileSystem."""

    def __init__(
        self, filesystem: MemoryFileSystem, path: str, inode: _Inode, *, writable: bool
    ) -> None:
        self.path = path
        self.recent = False
        self.mapped: memoryview | None = None
        self.writes = 0
        self.synced_writes = 0
        self._filesystem = filesystem
        self._inode = inode
        self._writable = writable
        self._generation = filesystem.generation
        self._closed = False

    @property
    def dirty(self) -> bool:
        return self.writes != self.synced_writes

    def size(self) -> int:
        self._check()
        return len(self._inode.live)

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread")
        return bytes(self._inode.live[position : position + size])

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        self._enter("pread")
        if self.path in self._filesystem.cold:
            return None
        return bytes(self._inode.live[position : position + size])

    def is_cached(self, position: int, size: int) -> bool:
        self._check()
        return self.path not in self._filesystem.cold

    def pull(self, size: int, position: int) -> int:
        return len(self.pread(size, position))

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self._check()
        data = bytes(buffer)
        fault = self._filesystem._enter("pwrite", self.path, len(data))
        if not self._writable:
            raise _error(errno.EBADF, self.path)
        self.writes += 1
        if fault is not None:
            error, bytes_written = fault
            if bytes_written:
                self._inode.write(data[:bytes_written], position)
            raise error
        filesystem = self._filesystem
        if filesystem.capacity_bytes is not None:
            growth = max(0, position + len(data) - len(self._inode.live))
            free = filesystem.free_bytes("/")
            if growth > free:
                self._inode.write(data[: len(data) - growth + free], position)
                raise _error(errno.ENOSPC, self.path)
        self._inode.write(data, position)

    def fdatasync(self) -> None:
        covered = self.writes
        try:
            self._enter("fdatasync")
        except OSError:
            self._inode.pending.clear()
            raise
        self._inode.settle()
        self.synced_writes = covered

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        self.writes += 1
        self._inode.truncate(size)

    def reserve(self, size: int) -> None:
        self._enter("reserve")
        self.reserved = size

    def map(self, size: int) -> memoryview:
        self._enter("map")
        if not 0 < size <= len(self._inode.live):
            raise ValueError("mmap length is greater than file size")
        return memoryview(bytes(self._inode.live[:size]))

    def forget_pages(self) -> None:
        self._check()

    def close(self) -> None:
        self._enter("close")
        self.mapped = None
        self._closed = True

    def _check(self) -> None:
        if self._closed or self._generation != self._filesystem.generation:
            raise _error(errno.EBADF, self.path)

    def _enter(self, op: str) -> None:
        self._check()
        self._filesystem._enter(op, self.path)


class MemoryLock:
    """A lock of a MemoryFileSystem."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def close(self) -> None:
        self._locks.discard(self._path)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _write(content: bytearray, data: bytes, position: int) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def _crash_file(inode: _Inode, unsynced: str) -> None:
    if unsynced == "kept":
        inode.settle()
    elif unsynced == "torn" and inode.pending:
        middle = len(inode.pending) // 2
        position, data = inode.pending[middle]
        if data is not None:
            inode.pending[middle] = position, data[: len(data) // 2]
        inode.settle(middle + 1)
    elif unsynced == "zeros":
        size = max(len(inode.durable), len(inode.live))
        _truncate(inode.durable, size)
    inode.pending.clear()
    inode.live = bytearray(inode.durable)


def _used(directory: _Directory) -> int:
    return sum(
        _used(node) if isinstance(node, _Directory) else len(node.live)
        for node in directory.live.values()
    )
