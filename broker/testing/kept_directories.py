"""The snapshots of one broker, and a copy of the one that is likely to be restored next.

A copy of ten topics costs as much as a start of a broker. So one is made file by file while it is
quiet, and a restore only gives it its name; if it is not complete then, the rest is copied. There
is no such copy of more than SPARE_BYTES_MAX: a test would wait for the disk, or fill it.
"""

from __future__ import annotations

import os
import shutil
from typing import Final

from broker.testing.command_refused import CommandRefused, suggestion
from broker.testing.directory_copy import copying, emptying, finish
from broker.testing.removal_queue import RemovalQueue

SPARE_BYTES_MAX: Final = 256 * 1024 * 1024


class KeptDirectories:
    """Snapshots in `place`, a directory for each. `removals` takes what is replaced."""

    def __init__(self, place: str, removals: RemovalQueue) -> None:
        self._place = place
        self._removals = removals
        self._spare: _Spare | None = None
        self._is_spared = True  # no copies are made if they are too large, or cannot be used

    def new_place(self, name: str) -> str:
        """Return where a new snapshot goes. Raises CommandRefused."""
        path = self._path_of(name)
        if os.path.lexists(path):
            raise CommandRefused(f"there is a snapshot {name!r} already: give it another name")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def drop(self, name: str) -> None:
        """Forget a snapshot that has failed: half of one is none."""
        shutil.rmtree(os.path.dirname(self._path_of(name)), ignore_errors=True)

    def check(self, name: str) -> None:
        """Refuse a name that no snapshot has. Raises CommandRefused."""
        if not os.path.isdir(self._path_of(name)):
            known = sorted(os.listdir(self._place)) if os.path.isdir(self._place) else []
            raise CommandRefused(
                f"there is no snapshot {name!r}; there are {', '.join(known) or 'none'}."
                f"{suggestion(name, known)}"
            )

    def put(self, name: str, directory: str) -> None:
        """Replace what is in `directory` with a snapshot, and begin a copy for the next time."""
        spare = self._spare_of(name)
        try:
            self._removals.take(directory)
        except OSError:  # a mount, or in a directory of others
            finish(emptying(directory))
            spare, self._is_spared = None, False
        if spare is not None:
            os.rename(spare.path, directory)
            self._spare = None
        else:
            finish(copying(self._path_of(name), directory))
        self.prepare(name)

    def prepare(self, name: str) -> None:
        """Begin a copy of a snapshot, unless it is there."""
        if self._spare is not None and self._spare.name != name:
            self._drop_spare()
        if self._spare is None and self._is_spared:
            self._spare = _Spare(name, self._path_of(name), f"{self._place}-spare")

    def step(self) -> bool:
        """Copy one file, or a piece of it; return whether there is more to copy."""
        if self._spare is None or self._spare.is_complete:
            return False
        try:
            self._spare.step()
        except OSError:  # a full disk, perhaps: the restore will say so
            self._spare.failed = True
        if self._spare.failed or self._spare.size_bytes > SPARE_BYTES_MAX:
            self._drop_spare()
            self._is_spared = False
            return False
        return not self._spare.is_complete

    def _spare_of(self, name: str) -> _Spare | None:
        """Return the copy of that snapshot, completed; None if none was begun."""
        self.prepare(name)
        while self.step():
            pass
        return self._spare

    def _drop_spare(self) -> None:
        assert self._spare is not None
        if os.path.isdir(self._spare.path):
            self._removals.take(self._spare.path)
        self._spare = None

    def _path_of(self, name: str) -> str:
        if not name or not name.replace("-", "").replace("_", "").isalnum():
            raise CommandRefused(
                f"the name of the snapshot is {name!r}, expected letters, digits, - and _"
            )
        return os.path.join(self._place, name, "data")


class _Spare:
    """A copy that is being made."""

    def __init__(self, name: str, source: str, path: str) -> None:
        self.name = name
        self.path = path
        self.size_bytes = 0
        self.is_complete = False
        self.failed = False
        self._steps = copying(source, path)

    def step(self) -> None:
        """Copy one file, or a piece of it."""
        copied = next(self._steps, None)
        if copied is None:
            self.is_complete = True
        else:
            self.size_bytes += copied
