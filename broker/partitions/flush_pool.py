"""The pool for fsync: lets the kernel run an fdatasync where it does that, and has threads besides.

`begin_syncs` costs one system call and no thread (`storage.files.kernel_syncs`). What it does not
begin, where the kernel does not do it or has no room, needs `submit`, as everything does that is
more than one fdatasync. So do files whose own `fdatasync` must be called (files in memory, and
disks with faults): they have no `sync_descriptor`. It raises nothing: a flush that has begun, and
that neither the kernel nor a thread has, would never end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
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

    def begin_syncs(self, wanted: Sequence[tuple[File, SyncDone]]) -> int:
        """Begin fdatasyncs of files in the kernel, then `done(error or None)` of each on the loop.

        Each file has a `sync_descriptor`. Returns how many were begun, the first ones: a call in a
        thread has to do the others.
        """
        if not self._is_asked:
            self._ask()
        if self._syncs is None:
            self.runs_syncs = False
            return 0
        first = self._number + 1
        self._number += len(wanted)
        # A write that comes from here on may not be covered.
        covered = [file.writes for file, _ in wanted]
        asked = [(first + at, file.sync_descriptor) for at, (file, _) in enumerate(wanted)]
        count = self._syncs.begin(asked)
        for at in range(count):
            file, done = wanted[at]
            self._under_way[first + at] = file, covered[at], done
        self._outstanding += count
        self.runs_syncs = not self._syncs.is_refused
        return count

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
            try:
                done(error)
            except Exception as failure:
                owners.failed(Owner.FLUSH, failure)

    def close(self) -> None:
        """As in `BlockingPool`: what is under way ends first."""
        super().close()
        if self._syncs is not None:
            self._loop.remove_reader(self._syncs.fileno())
            self._syncs.close()
            self._syncs = None
