"""A directory served read-only: its files, and in memory what opening would have changed.

Opening a directory repairs it: recovery cuts a torn tail, a compaction that was interrupted is
finished, index files are made. On an `Overlay` all of that happens, in memory. The files below are
opened with O_RDONLY, and nothing here calls an operation below that could change one. So what is
served is what a normal start would serve, and no byte of the directory differs afterwards.

    name      not noted: as it is below · None: removed · a `_Node`: renamed, made or changed
    node      `below` is the file it began as, `size` where it was cut, `data` what was written

`seal` ends opening: from then on every change raises EROFS, in memory as well. A broker that serves
read-only asks for none; one that does has a defect, which then shows.

What is written is held in memory from its place to the end of the file, and bounded by
`WRITTEN_MAX`: entries of indexes, small text files, and the records by which this broker takes the
lead. Kafka preallocates 10 MiB of zeros for an index; zeros at an end are not stored.
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
    """What a name stands for: the bytes of `below` up to `start`, then `data`; `size` in all.

    -1 for `size` is the size of `below`, and then there is no `data`.
    """

    below: str | None
    size: int = -1
    start: int = 0
    data: bytearray | None = None


class OverlayFile:
    """An open file of an overlay. Implements File."""

    __slots__ = ("_file", "_node", "_overlay", "mapped", "path", "recent", "writes")

    dirty = False  # what is in memory waits for no disk

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
        """Nothing waits for a disk."""

    def reserve(self, size: int) -> None:
        """Nothing will be written there."""

    # -- Reading ------------------------------------------------------------------------------

    def _below(self) -> File:
        return cast("File", self._file)

    def _within(self, size: int, position: int) -> int:
        """How many of `size` bytes from `position` are before the cut."""
        end = self._node.size
        return size if end < 0 else max(0, min(size, end - position))

    def _mixed(self, size: int, position: int) -> bytes:
        """Bytes of both kinds; zeros at the end of what is in memory are not stored."""
        node, size = self._node, self._within(size, position)
        below = b""
        if position < node.start:
            below = self._below().pread(min(size, node.start - position), position)
        at = max(0, position - node.start)
        stored = bytes(cast("bytearray", node.data)[at : at + size - len(below)])
        return below + stored + bytes(size - len(below) - len(stored))

    def _data_from(self, position: int) -> tuple[bytearray, int]:
        """Have everything from `position` on in memory; the bytes, and where they begin."""
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
        node = self._node(path)
        if node is None:
            if not create:
                raise _missing(path)
            self.check_open(path)
            node = self._names[path] = _Node(None, 0, 0, bytearray())
        file = None if node.below is None else self._below.open(node.below, write=False)
        return OverlayFile(self, path, node, file)

    def list(self, directory: str) -> list[str]:
        names = set() if directory in self._made_directories else set(self._below.list(directory))
        for path, node in self._names.items():
            parent, name = posixpath.split(path)
            if parent == directory and node is None:
                names.discard(name)
            elif parent == directory:
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
        self._names[new] = node
        self._names[old] = None

    def unlink(self, path: str) -> None:
        self.check_open(path)
        if self._node(path) is None:
            raise _missing(path)
        self._names[path] = None

    def rmdir(self, path: str) -> None:
        self.check_open(path)
        self._made_directories.discard(path)

    def replace(self, path: str, data: bytes) -> None:
        self.check_open(path)
        self._names[path] = _Node(None, len(data), 0, bytearray(data))

    def sync_directory(self, path: str) -> None:
        """Nothing waits for a disk."""

    def _node(self, path: str) -> _Node | None:
        """What the name stands for; None if there is no such file. Noted, so that all share it."""
        if path not in self._names and self._below.exists(path):
            self._names[path] = _Node(path)
        return self._names.get(path)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
