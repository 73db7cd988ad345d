"""Files and directories of a disk in memory: what programs see, and what a power cut leaves.

An `Inode` keeps live bytes, durable bytes, and the writes between the two in order. A `Directory`
keeps live and durable names, and the changes between the two in order: a change that concerns two
directories (a rename) stands in both, and happens in both or in none.
"""

from __future__ import annotations

import errno
import os

# (position, bytes), or (size, None) for a truncate.
Pending = tuple[int, bytes | None]


class Inode:
    """A file's content: live, durable, and the writes that are only live."""

    __slots__ = ("done_count", "durable", "live", "pending", "reserved_bytes", "warm_until_ns")

    def __init__(self) -> None:
        self.live = bytearray()
        self.durable = bytearray()
        self.pending: list[Pending] = []
        self.done_count = 0  # writes that were pending once and are durable or forgotten
        self.reserved_bytes = 0
        self.warm_until_ns = 0  # a simulated disk's: until then its pages stay in memory

    @property
    def used_bytes(self) -> int:
        """Room that the file takes on the disk."""
        return max(len(self.live), self.reserved_bytes)

    @property
    def mark(self) -> int:
        """What a sync that begins now covers: an argument for `settle` and `forget`."""
        return self.done_count + len(self.pending)

    def write(self, data: bytes, position: int) -> None:
        """Write to the live bytes."""
        write(self.live, data, position)
        self.pending.append((position, data))

    def truncate(self, size: int) -> None:
        """Cut or grow the live bytes."""
        truncate(self.live, size)
        self.reserved_bytes = 0
        self.pending.append((size, None))

    def settle(self, mark: int | None = None) -> None:
        """Make the writes before `mark` (default: all) durable."""
        for change in self._take(mark):
            apply(self.durable, change)

    def forget(self, mark: int | None = None) -> None:
        """Drop the pending writes before `mark`, as a failed sync does; they stay live."""
        self._take(mark)

    def harden(self) -> None:
        """Make the live bytes durable, whatever was written or forgotten before."""
        self.forget()
        self.durable[:] = self.live

    def cut(self, left: bytearray) -> None:
        """Hold `left` after a power cut."""
        self.forget()
        self.durable = left
        self.live = bytearray(left)
        self.reserved_bytes = 0

    def _take(self, mark: int | None) -> list[Pending]:
        count = len(self.pending) if mark is None else max(0, mark - self.done_count)
        taken = self.pending[:count]
        del self.pending[:count]
        self.done_count += len(taken)
        return taken


class Directory:
    """Names: live, durable, and the changes that are only live."""

    __slots__ = ("changes", "durable", "live")

    def __init__(self) -> None:
        self.live: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        self.changes: list[NameChange] = []

    def change(self, names: dict[str, Inode | Directory | None]) -> None:
        """Give names to nodes, or take them away (None), as one change."""
        NameChange([(self, names)])

    def put(self, name: str, node: Inode | Directory | None) -> None:
        """Give a name to a node, or take it away (None), durably, as all changes before it."""
        self.change({name: node})
        self.settle()

    def settle(self, count: int | None = None) -> None:
        """Make the first `count` changes (default: all) durable, with what they need elsewhere."""
        for change in self.changes[:count]:
            change.settle()

    def cut(self) -> None:
        """Hold only the durable names after a power cut."""
        self.changes.clear()
        self.live = dict(self.durable)


class NameChange:
    """Names that change at once, in one directory or in two."""

    __slots__ = ("_is_settled", "_parts")

    def __init__(self, parts: list[tuple[Directory, dict[str, Inode | Directory | None]]]) -> None:
        self._parts = parts
        self._is_settled = False
        for directory, names in parts:
            _apply_names(directory.live, names)
            directory.changes.append(self)

    def settle(self) -> None:
        """Make it durable, after all that came before it in its directories."""
        if self._is_settled:
            return
        self._is_settled = True
        for directory, names in self._parts:
            while directory.changes[0] is not self:
                directory.changes[0].settle()
            directory.changes.pop(0)
            _apply_names(directory.durable, names)


def _apply_names(
    names: dict[str, Inode | Directory], changed: dict[str, Inode | Directory | None]
) -> None:
    for name, node in changed.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def write(content: bytearray, data: bytes, position: int) -> None:
    """Put `data` at a position, which may be behind the end."""
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def truncate(content: bytearray, size: int) -> None:
    """Cut, or grow with zeros, to a size."""
    del content[size:]
    content.extend(bytes(size - len(content)))


def apply(content: bytearray, change: Pending) -> None:
    """Do a pending write or truncate."""
    position, data = change
    if data is None:
        truncate(content, position)
    else:
        write(content, data, position)


def os_error(number: int, path: str) -> OSError:
    """Return the operating system's error of that number."""
    return OSError(number, os.strerror(number), path)


def find(root: Directory, path: str) -> Inode | Directory | None:
    """Return what has that name, or None."""
    assert path.startswith("/"), path
    node: Inode | Directory | None = root
    for part in path.split("/"):
        if part:
            if not isinstance(node, Directory):
                return None
            node = node.live.get(part)
    return node


def directory_of(node: Inode | Directory | None, path: str) -> Directory:
    """Return the node if it is a directory. Raises OSError."""
    if node is None:
        raise os_error(errno.ENOENT, path)
    if not isinstance(node, Directory):
        raise os_error(errno.ENOTDIR, path)
    return node


def inode_of(node: Inode | Directory | None, path: str) -> Inode:
    """Return the node if it is a file. Raises OSError."""
    if node is None:
        raise os_error(errno.ENOENT, path)
    if isinstance(node, Directory):
        raise os_error(errno.EISDIR, path)
    return node
