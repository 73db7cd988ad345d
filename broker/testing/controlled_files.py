"""The operating system's files, with rules, a disk that can be full, and a power that can be cut.

Each change goes through one lock: the rules are met, the change is noted as not synced
(`unsynced`), and it is made. A sync is made outside of the lock, since it may take long. Once the
power is cut, no call returns any more.

A failed sync leaves the kernel's pages as they are, unlike Linux: what it did not cover is lost at
a power cut, also if a later sync succeeds for other bytes.
"""

# ruff: noqa: D102  (the methods are described by their protocols)
from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.runtime.clock import hold
from broker.testing.fault_rules import CallRule
from broker.testing.rule_book import RuleBook
from broker.testing.unsynced import Unsynced
from storage.files.filesystem import TEMPORARY_SUFFIX, Buffer
from storage.files.os_filesystem import OsFile, OsFileSystem

HALF: Final = 2


class ControlledFiles(OsFileSystem):
    """The files of one broker; `directory` is its data directory, seen by rules from there."""

    def __init__(self, directory: str, book: RuleBook, unsynced: Unsynced) -> None:
        self._directory = os.path.abspath(directory)
        self._book = book
        self.unsynced = unsynced
        self._turn = threading.RLock()
        self._free_bytes: int | None = None  # None: what the disk has
        self._is_off = False

    # -- what tests do to the disk --------------------------------------------------------------

    def fill(self, free_bytes: int | None) -> None:
        """Let so many bytes be written, and no more; None: as many as the disk has."""
        with self._turn:
            self._free_bytes = free_bytes

    def cut_power(self) -> int:
        """Take back what was not synced; return how many changes. No call returns from now on."""
        with self._turn:
            self._is_off = True
            return self.unsynced.undo()

    # -- what files need ------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Iterator[None]:
        """Let one change be made and noted at a time, while there is power."""
        with self._turn:
            if not self._is_off:
                yield
                return
        threading.Event().wait()

    def obey(self, call: str, path: str) -> CallRule | None:
        """Wait or fail as the rules say; return one that has a write half done."""
        inside = os.path.relpath(os.path.abspath(path), self._directory)
        half = None
        for rule in self._book.meet_call(call, inside):
            if rule.delay:
                hold(rule.delay)  # the disk is slow: the thread that waits for it waits
            if rule.half:
                half = rule
            elif rule.code:
                raise OSError(rule.code, os.strerror(rule.code), path)
        return half

    def take_room(self, size: int, path: str) -> None:
        """Take room for bytes that a file grows by. Raises OSError."""
        self.check_room(size, path)
        if self._free_bytes is not None and size > 0:
            self._free_bytes -= size

    def check_room(self, size: int, path: str) -> None:
        """Raise OSError if there is no room for so many bytes."""
        if self._free_bytes is not None and size > 0 and size > self._free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    @property
    def watches_reads(self) -> bool:
        """Whether a rule is for reads: then all of them are made by threads, and met there."""
        return any(rule.call == "pread" for rule in self._book.calls)

    # -- files and names ------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OsFile:
        is_new = create and not os.path.lexists(path)
        self.obey("create" if is_new else "open", path)
        with self.change():
            if is_new:
                self.take_room(1, path)
            real = super().open(path, create=create, write=write)
            if is_new:
                self.unsynced.created(path)
            return ControlledFile(self, path, real)

    def mkdir(self, path: str) -> None:
        with self.change():
            self.take_room(1, path)
            super().mkdir(path)
            self.unsynced.created(path, is_directory=True)

    def rename(self, old: str, new: str) -> None:
        self.obey("rename", new)
        with self.change():
            self.unsynced.renames(old, new)
            super().rename(old, new)

    def unlink(self, path: str) -> None:
        self.obey("unlink", path)
        with self.change():
            self.unsynced.loses(path)
            super().unlink(path)

    def rmdir(self, path: str) -> None:
        with self.change():
            super().rmdir(path)
            self.unsynced.lost_directory(path)

    def sync_directory(self, path: str) -> None:
        self.obey("sync_directory", path)
        super().sync_directory(path)
        with self.change():
            self.unsynced.synced_directory(path)

    def replace(self, path: str, data: bytes) -> None:
        self.obey("replace", path)
        with self.change():
            self.take_room(len(data), path)
            self._replace(path, data)

    def _replace(self, path: str, data: bytes) -> None:
        """Replace a file as the real one does; its directory is synced with it."""
        temporary = path + TEMPORARY_SUFFIX
        super().replace(path, data)
        assert not os.path.lexists(temporary)
        self.unsynced.synced_directory(os.path.dirname(path) or ".")

    def free_bytes(self, path: str) -> int:
        real = super().free_bytes(path)
        return real if self._free_bytes is None else min(real, self._free_bytes)


class ControlledFile(OsFile):
    """An open file of a `ControlledFiles`."""

    __slots__ = ("_files",)

    def __init__(self, files: ControlledFiles, path: str, real: OsFile) -> None:
        super().__init__(path, os.dup(real.sync_descriptor))
        self._files = files

    def pread(self, size: int, position: int) -> bytes:
        self._files.obey("pread", self.path)
        return super().pread(size, position)

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        return None if self._files.watches_reads else super().pread_nowait(size, position)

    def is_cached(self, position: int, size: int) -> bool:
        return not self._files.watches_reads and super().is_cached(position, size)

    def pull(self, size: int, position: int) -> int:
        self._files.obey("pread", self.path)
        return super().pull(size, position)

    def pwrite(self, buffer: Buffer, position: int) -> None:
        files = self._files
        half = files.obey("pwrite", self.path)
        with files.change():
            view = memoryview(buffer)
            if half is not None:
                view = view[: len(view) // HALF]
            files.take_room(position + len(view) - self.size(), self.path)
            files.unsynced.writes(self._fd, len(view), position)
            super().pwrite(view, position)
            if half is not None:
                raise OSError(half.code, os.strerror(half.code), self.path)

    def truncate(self, size: int) -> None:
        self._files.obey("truncate", self.path)
        with self._files.change():
            self._files.unsynced.truncates(self._fd, size)
            super().truncate(size)

    def reserve(self, size: int) -> None:
        with self._files.change():
            self._files.check_room(size - self.size(), self.path)
            super().reserve(size)

    @property
    def sync_descriptor(self) -> int:
        """No other way to sync than `fdatasync`, which obeys and notes."""
        return -1

    def fdatasync(self) -> None:
        files = self._files
        files.obey("fdatasync", self.path)
        with files.change():
            covered = files.unsynced.begin_sync()
        super().fdatasync()
        with files.change():
            files.unsynced.synced(self._fd, covered)
