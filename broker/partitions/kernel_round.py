"""A round of flushes that the kernel runs side by side, for as many as it takes.

A flush that is one fdatasync needs no thread (`storage.files.kernel_syncs`). Each flush is told as
it ends: it waits for no other one of its round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.partitions.flush_pool import FlushPool, SyncDone
from broker.partitions.flush_round import EndedFlush, FlushRound, Job
from storage.files.filesystem import File

KERNEL_BYTES_MAX = 128 * 1024  # of a flush: writing more out takes its worker long


class KernelRound(FlushRound):
    """Flushes that were begun in the kernel; none of them waits to begin, so no rest is taken."""

    __slots__ = ("_told", "left")

    def __init__(
        self, started_ns: int, now_ns: Callable[[], int], told: Callable[[KernelRound], None]
    ) -> None:
        """`told` is called on the loop when a flush has ended."""
        super().__init__([], started_ns, now_ns)
        self._told = told
        self.left = 0  # flushes under way

    def begin(self, jobs: list[Job], pool: FlushPool) -> list[Job]:
        """Begin the flushes that the kernel takes; return the others."""
        others: list[Job] = []
        small: list[Job] = []
        wanted: list[tuple[File, SyncDone]] = []
        for job in jobs:
            flush = job[1]
            file = flush.only_file if flush.size_bytes <= KERNEL_BYTES_MAX else None
            if file is None or file.sync_descriptor < 0:
                others.append(job)
            else:
                small.append(job)
                wanted.append((file, partial(self._synced, job)))
        self.left = pool.begin_syncs(wanted) if wanted else 0
        return others + small[self.left :]

    def take_ended(self) -> list[EndedFlush]:
        """Return the flushes that have ended since the last call."""
        ended = [*self._ended]  # no thread adds to them
        self._ended.clear()
        return ended

    def _synced(self, job: Job, error: OSError | None) -> None:
        partition, flush = job
        if error is None:
            flush.elapsed_ns = self._now_ns() - partition.flush_started_ns
        self.left -= 1
        self._ended.append((partition, flush, error))
        self._ended_count += 1
        self._told(self)
