"""Reads that do not wait: bytes that are not in memory raise `Cold`.

The loop looks up where bytes are: in an index, from batch header to batch header, over batches that
must be checked before they are served. Any of these reads may need pages that only the disk has. So
a look-up on the loop runs within `without_waiting`. It either completes, or raises `Cold` with the
missing range; a thread pulls that range into memory, and the look-up starts again. A look-up that
was given up has changed nothing: state belongs to the loop, and threads only move pages. Elsewhere,
in threads and before the broker listens, `read` waits.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import cast

from storage.files.filesystem import File

# A look-up walks on from the first missing page, so the pages behind it are needed next.
READ_AHEAD_BYTES = 256 * 1024


class Cold(Exception):
    """Bytes of a file are not in memory, and the caller must not wait for them."""

    def __init__(self, file: File, position: int, size: int) -> None:
        super().__init__(f"{file.path}: {size} bytes from position {position} are not in memory")
        self.file = file
        self.position = position
        self.size = size

    def pull(self) -> None:
        """Bring them into memory, and some behind them. For a thread of the pool. OSError."""
        self.file.pull(max(self.size, READ_AHEAD_BYTES), self.position)


class _Mode(threading.local):
    waits = True


_mode = _Mode()


class without_waiting:  # noqa: N801 - a context manager
    """Within this context, `read` raises Cold in this thread instead of waiting."""

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
    """Return bytes as `File.pread` does; within `without_waiting`, raise Cold. Raises OSError."""
    if _mode.waits:
        return file.pread(size, position)
    data = file.pread_nowait(size, position)
    if data is None:
        raise Cold(file, position, size)
    return cast("bytes", data)  # which a bytearray passes for
