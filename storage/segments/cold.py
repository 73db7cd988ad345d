"""Reads that do not wait: what is not in memory raises `Cold`.

The loop looks up where bytes are: in an index, from batch header to batch header, over batches that
must be checked before they are served. Any of these reads may need pages that only the disk has. So
a look-up on the loop runs within `without_waiting`. It either completes, or raises `Cold` with what
it misses; a thread pulls that, and the look-up starts again. A look-up that was given up has
changed nothing: state belongs to the loop, and threads only move pages. Elsewhere, in threads and
before the broker listens, `read` waits.

Pages may leave memory before the look-up comes back to them, and a disk may refuse to give them.
So `Pulled` keeps what threads have pulled for one look-up, errors too. Each start gets further than
the one before, and an error is raised where the look-up expects it.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final

from storage.files.filesystem import File

# A look-up walks on from the first missing page, so the pages behind it are needed next.
READ_AHEAD_BYTES = 256 * 1024
# How often a look-up may start again for bytes, and how many of them are kept for it.
STARTS_MAX = 64
KEPT_BYTES_MAX = 1024 * 1024


class Pulled:
    """What threads have pulled for one look-up. Its caller counts `starts_left` down."""

    __slots__ = ("_bytes_left", "_found", "starts_left")

    def __init__(self) -> None:
        self.starts_left = STARTS_MAX
        self._bytes_left = KEPT_BYTES_MAX
        self._found: dict[Any, bytes | Exception] = {}

    def keep(self, key: object, found: bytes | Exception) -> None:
        """Keep bytes as far as there is room, and any error."""
        if isinstance(found, bytes):
            if len(found) > self._bytes_left:
                return
            self._bytes_left -= len(found)
        self._found[key] = found

    def keep_whole(self, key: object, found: bytes | Exception) -> None:
        """Keep what is no part of a file, whatever its size: pulling it again would bring as much.

        Its size is bounded by that of the answer.
        """
        self._found[key] = found

    def get(self, key: object) -> bytes | None:
        """Return the bytes that were kept; None if there are none. Raises a kept error."""
        found = self._found.get(key)
        if isinstance(found, Exception):
            raise found
        return found


NOTHING: Final = Pulled()  # of a look-up that has missed nothing yet; it is never filled


class Cold(Exception):
    """A look-up misses something that only a wait brings."""

    def pull(self) -> None:
        """Bring it into memory. For a thread of the pool. Raises nothing of the disk's."""
        raise NotImplementedError

    def keep(self, pulled: Pulled) -> None:
        """Give what was pulled to the look-up. For the loop."""
        raise NotImplementedError


class ColdBytes(Cold):
    """Bytes of a file are not in memory, and the caller must not wait for them."""

    def __init__(self, file: File, position: int, size: int) -> None:
        super().__init__(f"{file.path}: {size} bytes from position {position} are not in memory")
        self.file = file
        self.position = position
        self.size = size
        self._found: bytes | Exception = b""

    def pull(self) -> None:
        """Read them, and bring some behind them into memory."""
        try:
            self.file.pull(max(self.size, READ_AHEAD_BYTES), self.position)
            self._found = self.file.pread(self.size, self.position)
        except OSError as error:
            self._found = error

    def keep(self, pulled: Pulled) -> None:
        """Keep the bytes, or the error of the disk."""
        pulled.keep((self.file, self.position, self.size), self._found)


class _Mode(threading.local):
    pulled: Pulled | None = None  # of the look-up that must not wait


_mode = _Mode()


class without_waiting:  # noqa: N801 - a context manager
    """Within this context, this thread's reads raise Cold instead of waiting."""

    __slots__ = ("_pulled",)

    def __init__(self, pulled: Pulled) -> None:
        self._pulled = pulled

    def __enter__(self) -> None:
        _mode.pulled = self._pulled

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _mode.pulled = None


def read(file: File, size: int, position: int) -> bytes:
    """Return bytes as `File.pread` does; within `without_waiting`, raise Cold. Raises OSError."""
    pulled = _mode.pulled
    if pulled is None:
        return file.pread(size, position)
    data = file.pread_nowait(size, position)
    if data is None:
        data = pulled.get((file, position, size))
        if data is None:
            raise ColdBytes(file, position, size)
    if type(data) is memoryview:
        return bytes(data)
    return data  # type: ignore[return-value]  # a bytearray passes for bytes


def kept(key: object) -> bytes | None:
    """Return what was kept of `key` for the look-up under way; None if nothing. Raises an error."""
    pulled = _mode.pulled
    return None if pulled is None else pulled.get(key)


def may_wait(key: object) -> bool:
    """Return whether the caller may wait for what `key` names. Raises the error it was kept with.

    For what takes more than a read: the caller raises a `Cold` of its own.
    """
    pulled = _mode.pulled
    if pulled is not None:
        pulled.get(key)
    return pulled is None
