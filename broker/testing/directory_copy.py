"""Copies and removals of data directories, file by file, so that they can wait between two files.

Holes stay holes in a copy, since an index reserves 10 MiB of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 1024 * 1024


def copying(source: str, target: str) -> Iterator[int]:
    """Copy what is below `source` to `target`, which is empty or missing.

    Yields the bytes that were copied since the last time, at least once for each file.
    """
    os.makedirs(target, 0o750, exist_ok=True)
    for entry in _entries(source):
        there = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield from copying(entry.path, there)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
        else:
            yield from _copy_file(entry.path, there)


def emptying(path: str) -> Iterator[None]:
    """Remove what is in a directory, which may be where a disk is mounted; yield at each file."""
    for entry in _entries(path):
        if entry.is_dir(follow_symlinks=False):
            yield from removing(entry.path)
        else:
            os.unlink(entry.path)
            yield


def removing(path: str) -> Iterator[None]:
    """Remove a directory; yield after each file."""
    yield from emptying(path)
    os.rmdir(path)


def finish(steps: Iterator[object]) -> None:
    """Go through all steps without waiting."""
    for _ in steps:
        pass


def _entries(path: str) -> list[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        return list(entries)


def _copy_file(source: str, target: str) -> Iterator[int]:
    ours = os.open(source, os.O_RDONLY)
    theirs = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.fstat(ours).st_mode & 0o777)
    try:
        position = 0
        while (begin := _next_data(ours, position)) is not None:
            position = os.lseek(ours, begin, os.SEEK_HOLE)
            while begin < position:
                piece = os.pread(ours, min(position - begin, PIECE_BYTES), begin)
                if not piece:
                    break
                begin += os.pwrite(theirs, piece, begin)
                yield len(piece)
        os.ftruncate(theirs, os.fstat(ours).st_size)
    finally:
        os.close(ours)
        os.close(theirs)
    yield 0


def _next_data(fd: int, position: int) -> int | None:
    """Return where the next bytes begin that are no hole; None at the end."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None
