"""Prepares logs for a clean stop: flushes them, writes their indexes, moves their recovery points.

Then the recovery point of a log is its end, which is what a clean start checks.

A stop has a deadline, and each log needs several syncs, one after the other. So whatever waits for
the disk is a job for any thread: `stop_logs` yields the jobs of many logs at a time, which may run
side by side. It needs no lock, because it begins and finishes them itself. Waves bound what is
captured at a time: open files, and snapshots of producers.

A stop may come while a transaction is being ended: a marker keeps the recovery point below it until
its decision is durable. When all logs are flushed it is, if decisions are appended first, as the
coordinator does (`are_decided`). Then these logs go on to their ends. Markers that the last start
has found, and nobody has looked at, are left to the next start, which has to find them again: such
a stop is not a clean one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias

from storage.errors import StorageError
from storage.log import Log

LOGS_PER_WAVE = 64


class StopJob:
    """A call of a stop that waits for the disk. `error` says how it ended."""

    __slots__ = ("_call", "error")

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self.error: OSError | None = None

    def run(self) -> None:
        """Make the call; for any thread."""
        try:
            self._call()
        except OSError as caught:
            self.error = caught


Steps: TypeAlias = Generator[Sequence[StopJob], None, bool]


def stop_logs(logs: Sequence[Log], complain: Callable[[str], None], *, are_decided: bool) -> Steps:
    """Flush and checkpoint logs; return whether all are closed cleanly, or complain. Blocks.

    `are_decided`: the decisions of all markers that were appended are in these logs.

    Run all jobs of a list before asking for the next list.
    """
    left = yield from _stop(logs)
    if are_decided and left and all(stop.is_held for stop in left):
        for stop in left:
            stop.log.settle_appended()
        left = yield from _stop([stop.log for stop in left])
    for stop in left:
        complain(stop.complaint())
    return not left


def _stop(logs: Sequence[Log]) -> Generator[Sequence[StopJob], None, list[_Stop]]:
    """Stop logs; return those that have complaints."""
    left = []
    for first in range(0, len(logs), LOGS_PER_WAVE):
        stops = [_Stop(log) for log in logs[first : first + LOGS_PER_WAVE]]
        while jobs := [job for stop in stops if (job := stop.next_job()) is not None]:
            yield jobs
        left += [stop for stop in stops if stop.complaint()]
    return left


def run_in_turn(steps: Steps) -> bool:
    """Run jobs one after the other; return what `steps` returns."""
    while True:
        try:
            jobs = next(steps)
        except StopIteration as end:
            return bool(end.value)
        for job in jobs:
            job.run()


class _Stop:
    """The stop of one log."""

    __slots__ = ("_error", "_jobs", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self._jobs = _last_jobs(log)
        self._error: Exception | None = None

    def next_job(self) -> StopJob | None:
        """Finish the last job and begin the next; None if there is none."""
        try:
            return next(self._jobs, None)
        except (OSError, StorageError) as error:
            self._error = error
            return None

    @property
    def is_held(self) -> bool:
        """Whether everything is durable, and only markers keep the recovery point from the end."""
        log = self.log
        has_failed = self._error is not None or log.failed is not None
        is_durable = log.durable_offset == log.end_offset
        return not has_failed and is_durable and log.recovery_point == log.unsettled_from

    def complaint(self) -> str:
        """Return why the stop is not clean, or ""."""
        log = self.log
        if self._error is not None:
            return f"{log.directory} could not be closed cleanly: {self._error}"
        if self.is_held:
            return (
                f"{log.directory} has markers of transactions from offset {log.unsettled_from} on"
                " that the next start has to look at"
            )
        if log.failed is not None or log.recovery_point != log.end_offset:
            offsets = f"recovery point {log.recovery_point}, end offset {log.end_offset}"
            return f"{log.directory} was not closed cleanly: {log.failed or offsets}"
        return ""


def _last_jobs(log: Log) -> Iterator[StopJob]:
    flush = log.begin_flush()
    if flush is not None:
        job = StopJob(flush.run)
        yield job
        log.finish_flush(flush, job.error)
        if job.error is not None and log.failed is None:
            raise job.error  # there was no descriptor, and no later flush will sync the names
    log.segments.active.on_roll()  # its largest timestamp, as a roll notes it
    checkpoint = log.begin_checkpoint(with_snapshot=True)
    if checkpoint is not None:
        job = StopJob(checkpoint.run)
        yield job
        log.finish_checkpoint(checkpoint, job.error)
