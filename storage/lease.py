"""The right of a log to use the file names in its partition's directory.

A topic may be deleted and created again under the same name. The new log's files then have the
paths that the old log's files had. A job in another thread that still holds paths of the old log
must not write to the new log's files, so every write by name happens within `Lease.use`.

    the log's thread     calls `end` when the log is closed, before its directory is renamed
    a job in a thread    `with lease.use() as is_ours`: writes only if `is_ours`
    the deletion         renames the directory within `use` too

Every write by name therefore happens before the rename, or not at all. Reads need no lease: see
`LogFile.file`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Lease:
    """One log's right to its directory's names. `is_over` is final."""

    __slots__ = ("_lock", "is_over")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_over = False

    def end(self) -> None:
        """End the lease: every `use` that begins from now on yields False. Does not wait."""
        self.is_over = True

    @contextmanager
    def use(self) -> Iterator[bool]:
        """Hold the directory's name; yields whether it is still this log's."""
        with self._lock:
            yield not self.is_over
