"""The right of a log to use the names in its partition's directory.

A topic may be deleted and made anew under the same name, and the new log's files have the paths
that the old one's had. A job in another thread that holds paths of the old log must not write to
the new one's files: so whoever writes by name there does it within `Lease.use`.

    the log's thread     end() when the log is closed, before its directory is renamed
    a job in a thread    `with lease.use() as mine`: writes only if `mine`
    the deletion         renames the directory within `use`, too

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
        """Take the right away from every `use` that has not begun. Does not wait."""
        self.is_over = True

    @contextmanager
    def use(self) -> Iterator[bool]:
        """Keep the directory's name as it is meanwhile; yields whether the log still has it."""
        with self._lock:
            yield not self.is_over
