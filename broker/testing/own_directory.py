"""A directory that goes when its process has gone, also by `kill -9`: then the next one removes it.

The process holds a lock on the file `.owner` in it for as long as it lives. The kernel releases the
lock at its end, so a directory whose lock can be had has no owner any more. The file is locked
before it gets its name: what is just being made is never taken for abandoned.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Final

PREFIX: Final = "barnabas-"
OWNER: Final = ".owner"


class OwnDirectory:
    """A directory of this process, made in `parent` or in TMPDIR."""

    def __init__(self, parent: str | None = None) -> None:
        remove_abandoned(parent or tempfile.gettempdir())
        self.path = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
        name = os.path.join(self.path, OWNER)
        self._lock = os.open(f"{name}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(f"{name}.new", name)

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(parent: str) -> None:
    """Remove the directories of processes that have ended without removing them."""
    with suppress(OSError):  # what belongs to others cannot be removed, and need not be
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                _remove_if_abandoned(os.path.join(parent, name))


def _remove_if_abandoned(path: str) -> None:
    try:
        lock = os.open(os.path.join(path, OWNER), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # it has an owner
        pass
    finally:
        os.close(lock)
