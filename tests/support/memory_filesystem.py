"""A disk in memory that can fail, tear and lose power: `storage.files.filesystem` for tests.

Files and directories (`tests.support.memory_inodes`) keep what programs see (live), what is on the
disk (durable), and the changes between the two in order. So

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

import contextlib
import errno
import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from storage.errors import DirectoryLocked
from storage.files.filesystem import TEMPORARY_SUFFIX
from tests.support.memory_file import MemoryFile
from tests.support.memory_inodes import (
    Directory,
    Inode,
    NameChange,
    directory_of,
    find,
    inode_of,
    os_error,
    truncate,
    write,
)

OPERATIONS = (
    "open", "pread", "pwrite", "fdatasync", "truncate", "reserve", "map", "close", "list", "mkdir",
    "rename", "unlink", "rmdir", "sync_directory", "read", "replace", "lock", "size",
)  # fmt: skip

# (operation, path) -> the error to raise, and how much of a pwrite reaches the file first.
Before = Callable[[str, str], tuple[BaseException, float] | None]


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

    file_class: type[MemoryFile] = MemoryFile

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.calls: list[tuple[str, str]] = []  # (operation, path), in order
        self.capacity_bytes = capacity_bytes
        self.cold: set[str] = set()  # paths whose bytes are not in memory
        self.generation = 0
        self.before: Before | None = None
        self._root = Directory()
        self._found: dict[str, Directory] = {}  # directories by path, without the last "/"
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
        self._found.clear()
        self._crash_directory(self._root, unsynced)

    def live_bytes(self, path: str) -> bytes:
        """Return the bytes that programs see in the file."""
        return bytes(self._inode(path).live)

    def durable_bytes(self, path: str) -> bytes | None:
        """Return the file's bytes on the disk, or None if its name is not durable."""
        node: Inode | Directory | None = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(node, Directory):
                return None
            node = node.durable.get(part)
        return bytes(node.durable) if isinstance(node, Inode) else None

    def edit(self, path: str, position: int, data: bytes) -> None:
        """Change bytes durably and outside of any file call, as bit rot does."""
        inode = self._inode(path)
        write(inode.live, data, position)
        write(inode.durable, data, position)

    # The file system's contract.

    def open(self, path: str, *, create: bool = False, write: bool = True) -> MemoryFile:
        self._enter("open", path, changes=write)
        parent, name = self._parent(path)
        node = parent.live.get(name)
        if node is None and create:
            node = Inode()
            parent.change({name: node})
        return self.file_class(self, path, inode_of(node, path), writable=write)

    def list(self, directory: str) -> list[str]:
        self._enter("list", directory)
        return sorted(self._directory(directory).live)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def size(self, path: str) -> int:
        self._enter("size", path)
        return len(self._inode(path).live)

    def mkdir(self, path: str) -> None:
        self._enter("mkdir", path)
        parent, name = self._parent(path)
        if name in parent.live:
            raise os_error(errno.EEXIST, path)
        parent.change({name: Directory()})

    def rename(self, old: str, new: str) -> None:
        self._enter("rename", old)
        parent, name = self._parent(old)
        if name not in parent.live:
            raise os_error(errno.ENOENT, old)
        target, new_name = self._parent(new)
        there = target.live.get(new_name)
        if isinstance(there, Directory) and there.live:
            raise os_error(errno.ENOTEMPTY, new)
        node = parent.live[name]
        if target is not parent:
            NameChange([(parent, {name: None}), (target, {new_name: node})])
        elif name != new_name:
            parent.change({name: None, new_name: node})
        if isinstance(node, Directory):
            self._found.clear()

    def unlink(self, path: str) -> None:
        self._enter("unlink", path)
        self._inode(path)
        parent, name = self._parent(path)
        parent.change({name: None})

    def rmdir(self, path: str) -> None:
        self._enter("rmdir", path)
        if self._directory(path).live:
            raise os_error(errno.ENOTEMPTY, path)
        parent, name = self._parent(path)
        parent.change({name: None})
        self._found.clear()

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        count = len(directory.changes)  # what comes while this waits is not covered
        self._enter("sync_directory", path)
        directory.settle(count)

    def read(self, path: str) -> bytes:
        self._enter("read", path)
        return bytes(self._inode(path).live)

    def replace(self, path: str, data: bytes) -> None:
        self._enter("replace", path)
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.fdatasync()
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(temporary)
            raise
        self.rename(temporary, path)
        self.sync_directory(posixpath.dirname(path))

    def lock(self, path: str) -> MemoryLock:
        self._enter("lock", path)
        if path in self._locks:
            raise DirectoryLocked(path)
        file = self.open(path, create=True)
        self._locks.add(path)
        return MemoryLock(self._locks, path, file)

    def lock_shared(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise DirectoryLocked(path)
        return MemoryLock(set(), path, None)  # a reader's lock does not exclude others

    def lock_holder(self, path: str) -> int | None:
        return 0 if path in self._locks else None

    def free_bytes(self, path: str) -> int:
        self._directory(path)
        return self.room_bytes()

    def total_bytes(self, path: str) -> int:
        self._directory(path)
        return 2**40 if self.capacity_bytes is None else self.capacity_bytes

    def room_bytes(self) -> int:
        """Return what the disk still has room for."""
        if self.capacity_bytes is None:
            return 2**40
        return max(0, self.capacity_bytes - self.used_bytes())

    def used_bytes(self) -> int:
        """Return what all live files take up."""
        return _used(self._root)

    # Internals.

    def _enter(
        self, op: str, path: str, size: int = 0, position: int = 0, *, changes: bool = True
    ) -> tuple[BaseException, int] | None:
        """Count a call; raise if it must fail (a pwrite gets the error, to write its part).

        `size` and `position` are the bytes that a file's call is about; an open that cannot write
        `changes` nothing.
        """
        self.counts[op] += 1
        self.calls.append((op, path))
        found: tuple[BaseException, int] | None = None
        asked = None if self.before is None else self.before(op, path)
        if asked is not None:
            found = asked[0], int(size * asked[1])
        for fault in self._faults:
            if fault.hits(op, path) and found is None:
                found = os_error(fault.error, path), fault.bytes_written
        if found is not None and op != "pwrite":
            raise found[0]
        return found

    def _find(self, path: str) -> Inode | Directory | None:
        """Return what has that name: by its directory, whose look-up is kept."""
        parent, _, name = path.rpartition("/")
        if not name:
            return find(self._root, path)
        directory = self._found.get(parent)
        if directory is None:
            node = find(self._root, parent or "/")
            if not isinstance(node, Directory):
                return None
            directory = self._found[parent] = node
        return directory.live.get(name)

    def _parent(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        directory = self._found.get(parent)
        return (self._directory(parent or "/") if directory is None else directory), name

    def _directory(self, path: str) -> Directory:
        return directory_of(self._find(path), path)

    def _inode(self, path: str) -> Inode:
        return inode_of(self._find(path), path)

    def _crash_directory(self, directory: Directory, unsynced: str) -> None:
        if unsynced == "kept":
            directory.settle()
        directory.cut()
        for node in directory.live.values():
            if isinstance(node, Directory):
                self._crash_directory(node, unsynced)
            else:
                _crash_file(node, unsynced)


class MemoryLock:
    """A lock of a MemoryFileSystem."""

    def __init__(self, locks: set[str], path: str, file: MemoryFile | None) -> None:
        self._locks = locks
        self._file = file
        self._path = path

    def close(self) -> None:
        self._locks.discard(self._path)
        self._file = None


def _crash_file(inode: Inode, unsynced: str) -> None:
    if unsynced == "kept":
        inode.settle()
    elif unsynced == "torn" and inode.pending:
        middle = len(inode.pending) // 2
        position, data = inode.pending[middle]
        if data is not None:
            inode.pending[middle] = position, data[: len(data) // 2]
        inode.settle(inode.done_count + middle + 1)
    elif unsynced == "zeros":
        truncate(inode.durable, max(len(inode.durable), len(inode.live)))
    inode.cut(inode.durable)


def _used(directory: Directory) -> int:
    return sum(
        _used(node) if isinstance(node, Directory) else node.used_bytes
        for node in directory.live.values()
    )
