"""What the disk would not have after a power cut: every change that no sync has covered, undone.

A change is noted with what it replaced: bytes of a file, its size, a name in a directory. A sync of
the file, or of the directory, forgets the changes before it. `undo` takes back what is left, the
latest first, so the directory is as a disk that kept nothing it was not told to keep.

Files that lose their names are kept in `stash`, by hard links, as long as that may be undone. All
methods are called under one lock (`controlled_files`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

PIECE_BYTES: Final = 64 * 1024

Inode = tuple[int, int]
Undo = Callable[[], None]


class FileChanges:
    """The changes of one file, and a descriptor by which they are undone under any name."""

    def __init__(self, fd: int) -> None:
        self.fd = os.dup(fd)
        self.left: list[tuple[int, Undo]] = []


class Unsynced:
    """The changes of one data directory that no sync has covered."""

    def __init__(self, stash: str) -> None:
        self._stash = stash
        self._stashed = 0
        self._count = 0  # of all changes, for their order
        self._contents: dict[Inode, FileChanges] = {}
        self._names: dict[str, list[tuple[int, Undo, str | None]]] = {}  # by directory

    # -- contents -------------------------------------------------------------------------------

    def writes(self, fd: int, size: int, position: int) -> None:
        """Note a write of `size` bytes that is about to happen."""
        old_size = os.fstat(fd).st_size
        overlap = max(0, min(position + size, old_size) - position)
        old = os.pread(fd, overlap, position) if overlap else b""

        def undo(ours: int) -> None:
            os.pwrite(ours, old, position)
            os.ftruncate(ours, old_size)

        self._note(fd, undo)

    def truncates(self, fd: int, size: int) -> None:
        """Note a truncation that is about to happen."""
        old_size = os.fstat(fd).st_size
        lost = []
        for position in range(size, old_size, PIECE_BYTES):
            piece = os.pread(fd, min(PIECE_BYTES, old_size - position), position)
            if piece.strip(b"\0"):
                lost.append((position, piece))

        def undo(ours: int) -> None:
            os.ftruncate(ours, old_size)
            for position, piece in lost:
                os.pwrite(ours, piece, position)

        self._note(fd, undo)

    def begin_sync(self) -> int:
        """Return the number of the last change that a sync beginning now will cover."""
        return self._count

    def synced(self, fd: int, covered: int) -> None:
        """Forget what a sync has covered."""
        inode = _inode(fd)
        changes = self._contents.get(inode)
        if changes is None:
            return
        changes.left = [change for change in changes.left if change[0] > covered]
        if not changes.left:
            os.close(changes.fd)
            del self._contents[inode]

    def _note(self, fd: int, undo: Callable[[int], None]) -> None:
        inode = _inode(fd)
        changes = self._contents.get(inode)
        if changes is None:
            changes = self._contents[inode] = FileChanges(fd)
        self._count += 1
        changes.left.append((self._count, partial(undo, changes.fd)))

    # -- names ----------------------------------------------------------------------------------

    def created(self, path: str, *, is_directory: bool = False) -> None:
        """Note a new name."""

        # The name may have moved on since; then its later change is taken back first.
        def undo() -> None:
            if is_directory:
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)

        self._note_name(path, undo, None)

    def loses(self, path: str) -> None:
        """Note that a file is about to lose its name."""
        kept = self._keep(path)
        self._note_name(path, lambda: _put_back(kept, path), kept)

    def lost_directory(self, path: str) -> None:
        """Note that an empty directory has been removed."""
        self._note_name(path, lambda: os.mkdir(path), None)

    def renames(self, old: str, new: str) -> None:
        """Note that a file is about to get another name, which may be taken."""
        kept = self._keep(new) if os.path.isfile(new) else None

        def undo() -> None:
            os.replace(new, old)
            if kept is not None:
                _put_back(kept, new)

        self._note_name(new, undo, kept)
        self._follow(old, new)

    def synced_directory(self, path: str) -> None:
        """Forget the changes of names in a directory."""
        for _, _, kept in self._names.pop(os.path.abspath(path), ()):
            if kept is not None:
                with suppress(OSError):
                    os.unlink(kept)

    def _keep(self, path: str) -> str:
        os.makedirs(self._stash, exist_ok=True)
        self._stashed += 1
        kept = os.path.join(self._stash, str(self._stashed))
        try:
            os.link(path, kept)
        except OSError:  # another disk, where a directory of data is mounted
            shutil.copyfile(path, kept)
        return kept

    def _note_name(self, path: str, undo: Undo, kept: str | None) -> None:
        self._count += 1
        directory = os.path.dirname(os.path.abspath(path))
        self._names.setdefault(directory, []).append((self._count, undo, kept))

    def _follow(self, old: str, new: str) -> None:
        """Let changes inside a renamed directory be found under its new name."""
        before, after = os.path.abspath(old), os.path.abspath(new)
        for name in [one for one in self._names if one == before or one.startswith(before + "/")]:
            self._names[after + name[len(before) :]] = self._names.pop(name)

    # -- the cut --------------------------------------------------------------------------------

    def undo(self) -> int:
        """Take back all changes, the latest first; return how many there were."""
        changes = [change for of in self._contents.values() for change in of.left]
        changes += [(number, undo) for of in self._names.values() for number, undo, _ in of]
        changes.sort(key=lambda change: change[0], reverse=True)
        for _, undo in changes:
            # A file that is gone for good has nothing to take back.
            with suppress(FileNotFoundError):
                undo()
        self._contents.clear()
        self._names.clear()
        return len(changes)


def _put_back(kept: str, path: str) -> None:
    shutil.move(kept, path)


def _inode(fd: int) -> Inode:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
