"""Files that are held open from the cut until they are copied, so that their content stays.

Retention and compaction delete files, and replace checkpoints, all the time. A name may be gone
when the copy comes to it, and then all is to be looked at again; on a loaded machine that may go on
for ever. What is open can be read whatever happens to its name. So a copy opens its files at once,
which takes microseconds each, and needs a new cut only for what went before that.

A process may not open any number of files. Those beyond the limit are opened when they are copied.
After an attempt that found one of them gone there are fewer, since what was copied is used again.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Self

RESERVED: Final = 100  # descriptors for everything else
PINS_MAX: Final = 65_536  # other programs need some of the system's, too


def pins_max() -> int:
    """Return how many files may be held, after asking for as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return max(0, min(soft - RESERVED, PINS_MAX))


class Pins:
    """Open files by path; those that were not taken are closed at the end."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._left = pins_max()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go(len(self._held))

    def _let_go(self, count: int) -> None:
        """Close the last `count` files."""
        for _ in range(min(count, len(self._held))):
            os.close(self._held.popitem()[1])

    def hold(self, path: str) -> bool:
        """Open a file, if there is room. Raises FileNotFoundError, OSError."""
        if self._left <= 0:
            return False
        try:
            self._held[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._left = 0
            self._let_go(RESERVED)
            return False
        self._left -= 1
        return True

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Return a descriptor of a file, held or opened now. Raises FileNotFoundError, OSError."""
        fd = self._held.pop(path, None)
        if fd is None:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
