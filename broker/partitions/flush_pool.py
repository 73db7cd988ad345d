"""The pool for fsync: lets the kernel run an fdatasync where it does that, and has threads besides.

`begin_sync` costs a system call and no thread (`storage.files.kernel_syncs`). It returns False
where the kernel does not do it, or the file's own `fdatasync` must be called (files in memory, and
disks with faults): its caller then uses `submit`, as for everything that is more than one
fdatasync. It raises nothing: a flush that has begun, and that neither the kernel nor a thread has,
would never end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeAlias

from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.owners import Owner
from storage.files.filesystem import File
from storage.files.kernel_syncs import SideSyncs, kernel_syncs

SyncDone: TypeAlias = Callable[[OSError | None], None]
MakeSyncs: TypeAlias = Callable[[], SideSyncs | None]


class FlushPool(BlockingPool):
    """Threads, and the fdatasyncs that the kernel runs; all methods are for the loop's thread."""

    def __init__(
        self,
        executor: Executor,
        loop: asyncio.AbstractEventLoop,
        make_syncs: MakeSyncs = kernel_syncs,
    ) -> None:
        super().__init__(executor, loop)
        self._make_syncs = make_syncs
        self._syncs: SideSyncs | None = None
        self._is_asked = False  # for such syncs, at the first one
        self.runs_syncs = True  # until the kernel says otherwise
        self._number = 0
        self._under_way: dict[int, tuple[File, int, SyncDone]] = {}

    def begin_sync(self, file: File, done: SyncDone) -> bool:
        """Begin an fdatasync of `file` in the kernel, then `done(error or None)` on the loop.

        Returns False where that cannot be: then a call in a thread has to do it.
        """
        descriptor = file.sync_descriptor
        if descriptor < 0:
            return False
        if not self._is_asked:
            self._ask()
        covered = file.writes  # a write that comes from here on may not be covered
        number = self._number = self._number + 1
        if self._syncs is None or not self._syncs.begin(number, descriptor):
            self.runs_syncs = self._syncs is not None and not self._syncs.is_refused
            return False
        self._under_way[number] = file, covered, done
        self._outstanding += 1
        return True

    def _ask(self) -> None:
        self._is_asked = True
        syncs = self._make_syncs()
        if syncs is None:
            return
        try:
            owners.on_readable(self._loop, Owner.FLUSH, syncs.fileno(), self._take_synced)
        except OSError:  # the kernel watches no more descriptors for this user
            syncs.close()
        else:
            self._syncs = syncs

    def _take_synced(self) -> None:
        assert self._syncs is not None, "it has called"
        for number, code in self._syncs.take():
            file, covered, done = self._under_way.pop(number)
            self._returned()
            error = None
            if code:
                error = OSError(code, os.strerror(code), file.path)
            else:
                file.note_synced(covered)
            owners.step(Owner.FLUSH, done, error)

    def close(self) -> None:
        """As in `BlockingPool`: what is under way ends first."""
        super().close()
        if self._syncs is not None:
            self._loop.remove_reader(self._syncs.fileno())
            self._syncs.close()
            self._syncs = None
