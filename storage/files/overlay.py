"""A file system that keeps every change in memory, for a directory that is served read-only.

Opening a directory repairs it: recovery cuts a torn tail, finishes an interrupted compaction and
makes index files. On an `Overlay` all of that happens in memory. It opens the files below with
O_RDONLY and calls no operation below that could change a file. So a read-only broker serves what a
normal start would serve, and the directory stays as it was, byte by byte.

    name      not noted: the file below · None: removed · a `_Node`: opened, made or renamed
    node      `below` is the file it was, `size` where it was cut, `data` what was written

`seal` ends the opening: from then on every change raises EROFS, in memory too. No part of a
read-only broker should attempt one; if one does, the error shows the defect.

A write keeps everything from its position to the end of the file in memory, at most `WRITTEN_MAX`
bytes: index entries, small text files, and the metadata records by which this broker becomes the
leader. Zeros at the end of a file are not stored, since Kafka preallocates 10 MiB of them for an
index.
"""

# ruff: noqa: D102  (methods are described by the protocols of storage.files.filesystem)
from __future__ import annotations

import errno
import mmap
import os
import posixpath
from dataclasses import dataclass
from typing import cast

from storage.files.filesystem import Buffer, File, FileSystem
from storage.files.locks import LockHandle

WRITTEN_MAX = 64 * 1024 * 1024  # bytes of one file; segment.index.bytes is 10 MiB


@dataclass(slots=True)
class _Node:
    """The content of a file: the bytes of `below` up to `start`, then `data`; `size` in all.

    A `size` of -1 means the size of `below`; there is no `data` then.
    """

    below: str | None
    size: int = -1
    start: int = 0
    data: bytearray | None = None


class OverlayFile:
    """An open file of an overlay. Implements File."""

    __slots__ = ("_file", "_node", "_overlay", "mapped", "path", "recent", "writes")

    dirty = False  # changes in memory need no fsync
    sync_descriptor = -1

    def __init__(self, overlay: Overlay, path: str, node: _Node, file: File | None) -> None:
        self._overlay = overlay
        self._node = node
        self._file = file  # below; None if it was made here
        self.path = path
        self.recent = False
        self.mapped: memoryview | None = None
        self.writes = 0

    def size(self) -> int:
        if self._node.size >= 0:
            return self._node.size
        return self._below().size()

    def pread(self, size: int, position: int) -> bytes:
        if self._node.data is None:
            return self._below().pread(self._within(size, position), position)
        return self._mixed(size, position)

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        if self._node.data is None:
            return self._below().pread_nowait(self._within(size, position), position)
        return self._mixed(size, position)

    def is_cached(self, position: int, size: int) -> bool:
        return self._node.data is not None or self._below().is_cached(position, size)

    def pull(self, size: int, position: int) -> int:
        if self._node.data is None:
            return self._below().pull(self._within(size, position), position)
        return self._within(size, position)

    def map(self, size: int) -> memoryview:
        if self._node.data is None:
            return self._below().map(size)
        return memoryview(self._mixed(size, 0))

    def forget_pages(self) -> None:
        if self.mapped is not None and isinstance(self.mapped.obj, mmap.mmap):
            self.mapped.obj.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        self.mapped = None
        if self._file is not None:
            self._file.close()

    # -- Changes, in memory -------------------------------------------------------------------

    def pwrite(self, buffer: Buffer, position: int) -> None:
        self._overlay.check_open(self.path)
        node = self._node
        if (
            node.data is None
            and node.below is not None
            and position == node.size
            and self._below().pread(len(buffer), position) == bytes(buffer)
        ):
            # Recovery cuts an index and writes the same entries again: they take no memory.
            node.size = position + len(buffer)
            return
        data, start = self._data_from(position)
        end = position + len(buffer)
        if end - start > WRITTEN_MAX:
            raise self._too_large()
        data.extend(bytes(max(0, position - start - len(data))))
        data[position - start : end - start] = buffer
        self._node.size = max(self._node.size, end)

    def truncate(self, size: int) -> None:
        self._overlay.check_open(self.path)
        if size > self.size():
            self._data_from(self.size())
        node = self._node
        if node.data is not None and size <= node.start and node.below is not None:
            node.start, node.data = 0, None
        elif node.data is not None:
            del node.data[size - node.start :]
        node.size = size

    def fdatasync(self) -> None:
        """Do nothing: changes in memory need no fsync."""

    def note_synced(self, covered: int) -> None:
        """Do nothing: there is no descriptor."""

    def reserve(self, size: int) -> None:
        """Do nothing: the disk gets no writes."""

    # -- Reading ------------------------------------------------------------------------------

    def _below(self) -> File:
        return cast("File", self._file)

    def _within(self, size: int, position: int) -> int:
        """Return how many of `size` bytes from `position` lie before the end of the file."""
        end = self._node.size
        return size if end < 0 else max(0, min(size, end - position))

    def _mixed(self, size: int, position: int) -> bytes:
        """Read across `start`: from the file below, then from memory."""
        node, size = self._node, self._within(size, position)
        below = b""
        if position < node.start:
            below = self._below().pread(min(size, node.start - position), position)
        at = max(0, position - node.start)
        stored = bytes(cast("bytearray", node.data)[at : at + size - len(below)])
        return below + stored + bytes(size - len(below) - len(stored))

    def _data_from(self, position: int) -> tuple[bytearray, int]:
        """Bring everything from `position` on into memory; return the bytes and their start."""
        node, end = self._node, self.size()
        if node.data is None:
            node.start, node.size, node.data = end, end, bytearray()
        if position < node.start:
            if node.start - position > WRITTEN_MAX:
                raise self._too_large()
            more = self._below().pread(node.start - position, position)
            if not node.data:
                more = more.rstrip(b"\0")
            node.start, node.data = position, bytearray(more) + node.data
        return node.data, node.start

    def _too_large(self) -> OSError:
        return OSError(errno.EFBIG, "too large to be changed in memory", self.path)


class Overlay:
    """The files of `below`, and changes in memory. Implements FileSystem."""

    def __init__(self, below: FileSystem) -> None:
        self._below = below
        self._names: dict[str, _Node | None] = {}
        self._changed: dict[str, set[str]] = {}  # by directory, the names that differ from below
        self._made_directories: set[str] = set()
        self.is_sealed = False

    def seal(self) -> None:
        """Refuse every change from now on."""
        self.is_sealed = True

    def check_open(self, path: str) -> None:
        """Raise EROFS once the overlay is sealed."""
        if self.is_sealed:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    # -- Reading ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OverlayFile:  # noqa: ARG002
        node = self._names.get(path)
        file = None
        if node is not None:
            file = None if node.below is None else self._below.open(node.below, write=False)
        elif path not in self._names:
            try:
                file = self._below.open(path, write=False)
            except FileNotFoundError:
                pass
            else:
                node = self._names[path] = _Node(path)
        if node is None:
            if not create:
                raise _missing(path)
            self.check_open(path)
            node = _Node(None, 0, 0, bytearray())
            self._change(path, node)
        return OverlayFile(self, path, node, file)

    def list(self, directory: str) -> list[str]:
        names = set() if directory in self._made_directories else set(self._below.list(directory))
        for name in self._changed.get(directory, ()):
            if self._names[posixpath.join(directory, name)] is None:
                names.discard(name)
            else:
                names.add(name)
        return sorted(names)

    def exists(self, path: str) -> bool:
        if path in self._names:
            return self._names[path] is not None
        return path in self._made_directories or self._below.exists(path)

    def is_directory(self, path: str) -> bool:
        return path in self._made_directories or self._below.is_directory(path)

    def size(self, path: str) -> int:
        node = self._names.get(path)
        if node is None and path in self._names:
            raise _missing(path)
        if node is None or node.size < 0:
            return self._below.size(path if node is None else cast("str", node.below))
        return node.size

    def read(self, path: str) -> bytes:
        if path not in self._names:
            return self._below.read(path)
        file = self.open(path)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def free_bytes(self, path: str) -> int:
        return self._below.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self._below.total_bytes(path)

    def lock(self, path: str) -> LockHandle:
        return self._below.lock_shared(path)

    def lock_shared(self, path: str) -> LockHandle:
        return self._below.lock_shared(path)

    def lock_holder(self, path: str) -> int | None:
        return self._below.lock_holder(path)

    # -- Changes, in memory -------------------------------------------------------------------

    def mkdir(self, path: str) -> None:
        self.check_open(path)
        self._made_directories.add(path)

    def rename(self, old: str, new: str) -> None:
        self.check_open(old)
        node = self._node(old)
        if node is None:
            raise _missing(old)
        if self._below.is_directory(old):
            raise OSError(errno.EROFS, "a directory keeps its name", old)
        self._change(new, node)
        self._change(old, None)

    def unlink(self, path: str) -> None:
        self.check_open(path)
        if self._node(path) is None:
            raise _missing(path)
        self._change(path, None)

    def rmdir(self, path: str) -> None:
        self.check_open(path)
        self._made_directories.discard(path)

    def replace(self, path: str, data: bytes) -> None:
        self.check_open(path)
        self._change(path, _Node(None, len(data), 0, bytearray(data)))

    def sync_directory(self, path: str) -> None:
        """Do nothing: changes in memory need no fsync."""

    def _change(self, path: str, node: _Node | None) -> None:
        self._names[path] = node
        directory, name = posixpath.split(path)
        self._changed.setdefault(directory, set()).add(name)

    def _node(self, path: str) -> _Node | None:
        """Return the node of a name, None if there is no such file; all who open it share it."""
        if path not in self._names and self._below.exists(path):
            self._names[path] = _Node(path)
        return self._names.get(path)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
