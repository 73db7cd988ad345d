"""A copy of a data directory: holes stay holes, since an index reserves 10 MiB of them."""

from __future__ import annotations

import errno
import os
import shutil


def copy_directory(source: str, target: str) -> None:
    """Copy files and directories below `source` to `target`, which is empty or missing."""
    os.makedirs(target, 0o750, exist_ok=True)
    for entry in os.scandir(source):
        there = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            copy_directory(entry.path, there)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
        else:
            _copy_file(entry.path, there)


def empty_directory(path: str) -> None:
    """Remove what is in a directory, which may be where a disk is mounted."""
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _copy_file(source: str, target: str) -> None:
    ours = os.open(source, os.O_RDONLY)
    theirs = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.fstat(ours).st_mode & 0o777)
    try:
        position = 0
        while (begin := _next_data(ours, position)) is not None:
            position = os.lseek(ours, begin, os.SEEK_HOLE)
            while begin < position:
                piece = os.pread(ours, min(position - begin, 1024 * 1024), begin)
                if not piece:
                    break
                begin += os.pwrite(theirs, piece, begin)
        os.ftruncate(theirs, os.fstat(ours).st_size)
    finally:
        os.close(ours)
        os.close(theirs)


def _next_data(fd: int, position: int) -> int | None:
    """Return where the next bytes begin that are no hole; None at the end."""
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None
