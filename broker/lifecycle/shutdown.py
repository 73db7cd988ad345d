"""Stop a broker in order, however much it is hurried.

    drain    stop accepting, stop reading, finish the requests in progress, look at what a crash
             has left of transactions, flush
    close    end the connections; flush, write checkpoints, write the clean-shutdown marker last
    leave    exit without a clean shutdown: on a third signal, or if the disk has not answered
             within `barnabas.shutdown.deadline.ms`

The deadline bounds the draining. Closing always gets at least `CLOSE_SECONDS_MIN`. It flushes logs
side by side in the threads of group commit, which has ended by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn

from broker.assembly import Assembly
from broker.at_rest import left_over
from broker.lifecycle.serving import DRAIN_TICK_SECONDS, Serving
from broker.lifecycle.stop_signals import StopSignals
from broker.partitions.running_rounds import FLUSH_THREADS
from broker.runtime import owners
from broker.runtime.clock import SECOND_NS
from broker.runtime.owners import Owner
from storage.clean_stop import StopJob

logger = logging.getLogger("barnabas.server")

EXIT_CLEAN = 0
EXIT_FAILED = 1
EXIT_FORCED = 130  # as shells report a program ended by a signal
CLOSE_SECONDS_MIN = 5.0  # for flushes and checkpoints of a disk that answers, whatever the deadline


class Shutdown:
    """One stop; `tasks_before` are the tasks that do not belong to the broker.

    `leave` ends the process at once, with an exit code.
    """

    def __init__(
        self,
        assembly: Assembly,
        serving: Serving,
        signals: StopSignals,
        tasks_before: set[asyncio.Task[object]],
        leave: Callable[[int], NoReturn],
    ) -> None:
        self._assembly = assembly
        self._services = assembly.services
        self._clock = assembly.services.clock
        self._serving = serving
        self._signals = signals
        self._tasks_before = tasks_before
        self._leave_process = leave
        self._answered_calls = 0  # of the disk, in this part of the stop

    async def run(self, deadline_ms: int) -> int:
        """Stop in order; return the exit code."""
        self._serving.slow_steps.stop()
        deadline_seconds = deadline_ms / 1000
        ends_ns = self._clock.monotonic_ns() + int(deadline_seconds * SECOND_NS)
        ended_before = self._ended_calls()
        is_drained = await self._drain_within(deadline_seconds)
        await self._serving.end_connections(abort=self._signals.hurry.is_set())
        services = self._services
        while self._waits_for_disk() and not self._signals.force.is_set():
            if self._clock.monotonic_ns() >= ends_ns:
                self._answered_calls = self._ended_calls() - ended_before
                self._leave()
            await asyncio.sleep(DRAIN_TICK_SECONDS)
        if self._signals.force.is_set():
            services.logs.abandon()
            if self._waits_for_disk():
                self._leave()
            return EXIT_FORCED
        is_clean = await self._close_logs(max(deadline_seconds, CLOSE_SECONDS_MIN))
        services.pool.close()
        services.flush_pool.close()
        if is_drained and not self._signals.hurry.is_set():
            await self._say_what_is_left()
        return EXIT_CLEAN if is_clean else EXIT_FAILED

    async def _drain_within(self, seconds: float) -> bool:
        """Drain until done, too late or forced; then end all tasks. Return whether it was done."""
        drain = owners.spawn(Owner.STOP, self._drain())
        force = owners.spawn(Owner.STOP, self._signals.force.wait())
        await asyncio.wait([drain, force], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        is_drained = drain.done()
        drain.cancel()
        force.cancel()
        self._services.large_produces.stop()
        if self._services.has_transactions:
            self._services.transactions.leave()
        await self._serving.end_tasks()
        await asyncio.gather(drain, force, return_exceptions=True)
        return is_drained

    async def _drain(self) -> None:
        services = self._services
        self._serving.close_doors()
        services.purgatory.stop()
        services.record_work.stop()
        services.commit.stop()
        if services.has_groups:
            services.groups.stop()
        if services.has_transactions:
            services.transactions.stop()
        await self._serving.cleaner.stop()
        answered = owners.spawn(Owner.STOP, self._answered())
        hurry = owners.spawn(Owner.STOP, self._signals.hurry.wait())
        try:
            await asyncio.wait([answered, hurry], return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
            hurry.cancel()
            services.large_produces.stop()
        if services.has_transactions:
            await services.transactions.finish()
        await services.topics.finish()
        await self._serving.housekeeping.stop()
        await services.commit.drained()

    async def _answered(self) -> None:
        """Wait for requests in progress, and for the load of transactions after a crash."""
        await self._serving.answered()
        if self._services.has_transactions:
            await self._services.transactions.looked_at()

    def _waits_for_disk(self) -> bool:
        """Whether a thread is still in a call: closing must not interfere with it."""
        services = self._services
        is_busy = services.flush_pool.is_busy or services.pool.is_busy
        return is_busy or services.topics.is_changing

    def _ended_calls(self) -> int:
        """How many calls of the disk have ended while the broker served or drained."""
        services = self._services
        return services.pool.ended_count + services.commit.ended_count

    async def _close_logs(self, deadline_seconds: float) -> bool:
        """Flush, checkpoint and mark the directory, in a thread: the disk may not answer.

        Returns whether everything is on the disk.
        """
        services = self._services
        closing = owners.spawn(Owner.STOP, self._closed_logs())
        force = owners.spawn(Owner.STOP, self._signals.force.wait())
        await asyncio.wait(
            [closing, force], timeout=deadline_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not closing.done():
            self._leave()
        force.cancel()
        is_clean = closing.result()
        if is_clean and services.logs.home.is_read_only:
            logger.info("stopped; nothing was changed")
        elif is_clean:
            logger.info("stopped; everything is on disk")
        else:
            logger.error("stopped, but not cleanly, as warned above: the next start recovers")
        return is_clean

    async def _closed_logs(self) -> bool:
        """Close the logs, with as many threads waiting for the disk as group commit has."""
        services = self._services
        epoch = services.controller.broker_epoch  # the coordinator appends decisions first
        steps = services.logs.closing(clean=True, are_decided=True, broker_epoch=epoch)
        is_clean = False

        def next_jobs() -> Sequence[StopJob]:
            nonlocal is_clean
            try:
                return next(steps)
            except StopIteration as end:  # a future cannot hold it
                is_clean = end.value
                return ()

        while jobs := await services.pool.run(next_jobs):
            stripes = [jobs[first::FLUSH_THREADS] for first in range(min(len(jobs), FLUSH_THREADS))]
            await asyncio.gather(
                *(services.flush_pool.run(partial(self._run_all, stripe)) for stripe in stripes)
            )
        return is_clean

    def _run_all(self, jobs: Sequence[StopJob]) -> None:
        for job in jobs:
            job.run()
            self._answered_calls += 1  # of two threads at a time, one may not count

    def _why_it_leaves(self) -> str:
        if self._signals.force.is_set():
            return "is being written to"
        if self._answered_calls:
            return f"is slow, {self._answered_calls} calls have ended but not all"
        return "does not answer"

    def _leave(self) -> NoReturn:
        """Exit without a clean shutdown, and say why."""
        logger.error(
            "the disk of %(directory)s %(reason)s: exiting without it. Acknowledged records are on"
            " it; the next start recovers the rest.",
            {"directory": self._services.logs.directory.path, "reason": self._why_it_leaves()},
        )
        self._leave_process(EXIT_FORCED)

    async def _say_what_is_left(self) -> None:
        """Warn of resources that the broker still holds after an orderly stop: they leaked."""
        await asyncio.sleep(0)  # let tasks end that were just cancelled
        left = left_over(self._assembly, self._serving.dispatcher, self._serving.processors)
        tasks = asyncio.all_tasks() - self._tasks_before - {asyncio.current_task()}
        left += sorted(f"task {task.get_name()}: {task.get_coro()}" for task in tasks)
        if left:
            logger.warning(
                "not at rest at the stop, please report this: %(left)s", {"left": "; ".join(left)}
            )
        else:
            logger.debug("at rest: nothing is held")
