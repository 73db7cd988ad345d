"""Reading without waiting: what is not in memory is said instead of fetched.

The loop looks up where bytes lie: in an index, from batch header to batch header, over the batches
that must be found sound before they are served. Each of these reads may meet pages that only the
disk has. So a look-up on the loop runs under `without_waiting`. It either ends, or raises `Cold`
with the place that is missing; a thread pulls that into memory, and the look-up begins again from
the start. Nothing was changed by the one that was given up: state belongs to the loop, and threads
only move pages. Elsewhere (in threads, before anything listens) `read` waits.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import cast

from storage.files.filesystem import File

# What comes next is wanted next: a look-up walks on from where it met the first missing page.
READ_AHEAD_BYTES = 256 * 1024


class Cold(Exception):
    """Bytes of a file are not in memory, and who asked must not wait for them."""

    def __init__(self, file: File, position: int, size: int) -> None:
        super().__init__(f"{file.path}, {size} bytes from {position} on")
        self.file = file
        self.position = position
        self.size = size

    def pull(self) -> None:
        """Bring them into memory, with some more. For a thread of the pool. Raises OSError."""
        self.file.pull(max(self.size, READ_AHEAD_BYTES), self.position)


class _Mode(threading.local):
    waits = True


_mode = _Mode()


class without_waiting:  # noqa: N801 - a context manager
    """While it is entered, `read` raises Cold in this thread instead of waiting."""

    __slots__ = ()

    def __enter__(self) -> None:
        _mode.waits = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _mode.waits = True


def read(file: File, size: int, position: int) -> bytes:
    """As `File.pread`, or as the thread's mode says. Raises OSError, Cold."""
    if _mode.waits:
        return file.pread(size, position)
    data = file.pread_nowait(size, position)
    if data is None:
        raise Cold(file, position, size)
    return cast("bytes", data)  # which a bytearray passes for
