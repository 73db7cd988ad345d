"""fdatasyncs that a simulated kernel runs beside the broker (`storage.files.kernel_syncs`).

Each is a job with the baton: it takes the disk's time, meets its faults, may be stuck, and ends
with the process. Any number run side by side, so they end in an order of the seed. The loop hears
of them a little later, of several at once, and not always of all. As a kernel that has no room, it
refuses some; in some lives it runs none at all.

What the kernel syncs is the file that was open under the descriptor when the sync began.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, Protocol

from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop
from tests.simulation.pool import Baton, BatonExecutor

NO_SYNCS: Final = 0.25  # of the lives have a kernel that runs none
REFUSED: Final = 0.1  # of the syncs
TAKEN_MAX: Final = 4  # by one call of `take`
_SIDE_BY_SIDE: Final = 1024
_DESCRIPTOR: Final = 9


class Process(Protocol):
    """The process whose syncs these are."""

    baton: Baton
    loop: SimLoop


class SimSyncs:
    """See the module."""

    is_refused = False

    def __init__(self, process: Process, disk: SimDisk, chance: random.Random) -> None:
        self._loop = process.loop
        self._disk = disk
        self._chance = chance
        self._executor = BatonExecutor(process.baton, _SIDE_BY_SIDE, "side syncs")
        self._ended: deque[tuple[int, int]] = deque()

    def fileno(self) -> int:
        """Return what the loop calls it."""
        return _DESCRIPTOR

    def begin(self, wanted: Sequence[tuple[int, int]]) -> int:
        """Begin syncs of open files, up to one for which there is no room, or no such file."""
        for count, (number, fd) in enumerate(wanted):
            file = self._disk.described(fd)
            if file is None or self._chance.random() < REFUSED:
                return count
            future = self._executor.submit(file.sync_beside)
            future.add_done_callback(partial(self._has_ended, number))
        return len(wanted)

    def _has_ended(self, number: int, future: Future[object]) -> None:
        error = future.exception()
        assert error is None or isinstance(error, OSError), error
        self._ended.append((number, 0 if error is None else error.errno or 0))
        self._loop.readable(_DESCRIPTOR)

    def take(self) -> list[tuple[int, int]]:
        """Return some of the syncs that have ended."""
        count = min(len(self._ended), self._chance.randrange(TAKEN_MAX) + 1)
        taken = [self._ended.popleft() for _ in range(count)]
        if self._ended:
            self._loop.readable(_DESCRIPTOR)
        return taken

    def close(self) -> None:
        """Wait for what is under way."""
        self._executor.shutdown()
