"""One broker, from start to stop.

    startup   lock and open the directory, replay the metadata, recover and open every log,
              then bind: nothing listens before recovery has ended
    serve     acceptors, processors, IO workers and tickers run until a signal, or until one of
              them ends, which none may
    shutdown  stop accepting, stop reading, let what was begun be answered (with a deadline),
              flush, write checkpoints, write the clean-shutdown marker last

A first SIGTERM or SIGINT stops in that order. A second one waits no longer for requests that were
begun, but for the disk: supervisors and terminals often send two, and the stop stays a clean one.
A third one leaves as a crash would, without the marker; so does the stop itself when the disk has
not answered within `barnabas.shutdown.deadline.ms`.

Exit codes: 0 everything is on the disk; 1 the broker could not start or go on, or could not write
everything at the stop (one line says why); 130 it left as a crash would.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import socket
from collections.abc import Sequence
from functools import partial

import uvloop

from broker.assembly import Assembly, assemble, open_directory
from broker.at_rest import left_over
from broker.dispatch import Dispatcher
from broker.handlers import HANDLERS
from broker.io_worker import IoWorker
from broker.maintenance.housekeeping import Housekeeping
from broker.maintenance.log_cleaner import LogCleaner
from broker.network.acceptor import Acceptor, bind
from broker.network.connection_limits import ConnectionLimits
from broker.network.processor import ConnectionSettings, Network, Processor
from broker.runtime import log_lines, owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import SECOND_NS, Clock, SystemClock, let_others_run
from broker.runtime.owners import Owner
from broker.runtime.slow_steps import SlowSteps
from config.listeners import Listener
from config.load import Loaded
from protocol.dialect import Dialect
from protocol.kafka.dialect import KafkaDialect
from protocol.msgpack.dialect import MsgpackDialect
from storage.errors import StorageError

logger = logging.getLogger("barnabas.server")

EXIT_CLEAN = 0
EXIT_FAILED = 1
EXIT_FORCED = 130  # as a shell says of a program that a signal ended
LAST_ANSWERS_SECONDS = 0.5  # for clients to take what was answered last
DRAIN_TICK_SECONDS = 0.01
CLOSE_SECONDS_MIN = 5.0  # for flushes and checkpoints of a disk that answers, whatever the deadline
M_MMAP_THRESHOLD = -3  # mallopt's name for it, in malloc.h
LARGE_BLOCK_BYTES = 2 * 1024 * 1024  # above the usual batches, whose blocks should be used again


def run(loaded: Loaded) -> int:
    """Run a broker until it is told to stop; return the exit code."""
    config = loaded.config
    log_lines.configure(config.barnabas_log_format, config.barnabas_log_level)
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    if loaded.without_effect:
        logger.info("set, but without effect here: %s", ", ".join(loaded.without_effect))
    _raise_descriptor_limit()
    _return_large_blocks()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(loaded))
    except (StorageError, OSError) as error:
        logger.error("cannot go on: %s", error)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FORCED


async def _run(loaded: Loaded) -> int:
    code = await Broker(loaded).run()
    _ignore_signals()
    return code


class Broker:
    """The parts of a running broker, in the order in which they start and stop."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._config = loaded.config
        self._clock = SystemClock()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()  # by a second signal
        self._force = asyncio.Event()  # by a third
        self._tasks_before: set[asyncio.Task[object]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._assembly: Assembly
        self._processors: list[Processor] = []
        self._dispatcher: Dispatcher
        self._housekeeping: Housekeeping
        self._cleaner: LogCleaner
        self._slow_steps: SlowSteps

    async def run(self) -> int:
        """Start, serve and stop."""
        await self.startup()
        try:
            failed = await self.serve()
        finally:
            code = await self.shutdown()
        return EXIT_FAILED if failed else code

    # -- startup -------------------------------------------------------------------------------

    async def startup(self) -> None:
        """Recover, then listen."""
        started_ns = self._clock.monotonic_ns()
        self._tasks_before = asyncio.all_tasks()
        # Signals first: one that comes during recovery stops the broker where a crash would
        # have, at the next step that waits.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        opened = open_directory(self._config, self._clock)
        try:
            self._assembly = assemble(self._loaded, opened, self._bind, self._clock, loop)
        except BaseException:
            # A taken port, say: what was recovered need not be recovered again.
            pool = BlockingPool(1, loop)
            await pool.run(partial(opened.logs.close, clean=True))
            pool.close()
            raise
        bound = self._assembly.bound
        self._start_tasks(bound)
        # What startup has made lives as long as the broker: keep the collector off it.
        gc.freeze()
        gc.enable()
        node_id = self._assembly.services.node_id
        for listener, port in bound:
            logger.info("listening on %s", listener._replace(port=port))
            if not listener.is_loopback:
                logger.warning(
                    "listener %s is open to the network without encryption or authentication",
                    listener.name,
                )
        # The words that test containers wait for: Kafka's own lines at the same moment.
        logger.info(
            "[BrokerLifecycleManager id=%d] Transitioning from RECOVERY to RUNNING", node_id
        )
        logger.info(
            "[KafkaServer id=%d] started: Kafka Server started, %d partitions, %d ms after start",
            node_id,
            len(self._assembly.services.partitions),
            (self._clock.monotonic_ns() - started_ns) // 1_000_000,
        )

    def _bind(self) -> list[tuple[Listener, int]]:
        config = self._config
        bound = []
        for listener in config.served_listeners:
            try:
                sock = bind(
                    listener,
                    config.socket_receive_buffer_bytes,
                    config.socket_send_buffer_bytes,
                    config.socket_listen_backlog_size,
                )
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"cannot listen on {listener}: {error.strerror}; "
                    "is another broker running, or is the port taken?",
                ) from None
            self._sockets.append(sock)
            bound.append((listener, sock.getsockname()[1]))
        return bound

    def _start_tasks(self, bound: Sequence[tuple[Listener, int]]) -> None:
        config = self._config
        assembly = self._assembly
        services = assembly.services
        limits = ConnectionLimits(
            config.max_connections, config.max_connections_per_ip, config.connection_limits
        )
        services.configs.settings.listen(
            lambda changed: limits.change(
                changed.max_connections, changed.max_connections_per_ip, changed.connection_limits
            )
        )
        settings = ConnectionSettings(
            frame_bytes_max=config.socket_request_max_bytes,
            in_flight_max=config.barnabas_requests_per_connection_max,
            idle_ms_max=config.connections_max_idle_ms,
            frame_ms_max=config.barnabas_frame_deadline_ms,
            fetch_bytes_max=config.fetch_max_bytes,
        )
        network = Network(
            settings=settings,
            limits=limits,
            queue=assembly.queue,
            budget=assembly.budget,
            answers=services.answers,
            writes=assembly.writes,
            record_work=services.record_work,
            metrics=services.metrics,
            clock=self._clock,
        )
        self._processors = [
            Processor(index, network) for index in range(config.num_network_threads)
        ]
        self._dispatcher = Dispatcher(services)
        workers = [
            IoWorker(index, assembly.queue, self._dispatcher, assembly.writes, self._clock)
            for index in range(config.num_io_threads)
        ]
        dialects = _dialects(self._clock)
        acceptors = [
            Acceptor(
                listener,
                sock,
                dialects[listener.protocol],
                self._processors,
                limits,
                services.metrics,
                self._clock,
            )
            for (listener, _), sock in zip(bound, self._sockets, strict=True)
        ]
        self._housekeeping = Housekeeping(services, self._processors)
        self._housekeeping.start()
        self._cleaner = LogCleaner(services)
        self._cleaner.start()
        self._slow_steps = SlowSteps(config.barnabas_slow_step_ms, self._clock)
        self._slow_steps.start()
        runnables: list[tuple[Owner, Processor | IoWorker | Acceptor]] = [
            *((Owner.PROCESSOR, processor) for processor in self._processors),
            *((Owner.WORKER, worker) for worker in workers),
            *((Owner.ACCEPTOR, acceptor) for acceptor in acceptors),
        ]
        for owner, runnable in runnables:
            run = owners.keep_running(owner, runnable.run)
            self._tasks.append(owners.spawn(owner, run, runnable.name))

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._stop.is_set():
            logger.info("%s: stopping", name)
            self._stop.set()
        elif not self._hurry.is_set():
            logger.warning(
                "%s again: requests in progress are not waited for any more, only the disk is; "
                "a third signal leaves at once",
                name,
            )
            self._hurry.set()
        elif not self._force.is_set():
            logger.warning("%s for the third time: leaving at once; the next start recovers", name)
            self._force.set()

    # -- serve ---------------------------------------------------------------------------------

    async def serve(self) -> bool:
        """Wait for a signal; return whether a task that never ends has ended instead."""
        stop = owners.spawn(Owner.STOP, self._stop.wait())
        done, _ = await asyncio.wait([stop, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if stop in done:
            return False
        stop.cancel()
        for task in done:
            why = None if task.cancelled() else task.exception()
            logger.error("%s has ended, and must not", task.get_name(), exc_info=why)
        return True

    # -- shutdown ------------------------------------------------------------------------------

    async def shutdown(self) -> int:
        """Stop in order; return the exit code that says how it went."""
        self._slow_steps.stop()
        deadline_seconds = self._config.barnabas_shutdown_deadline_ms / 1000
        ends_ns = self._clock.monotonic_ns() + int(deadline_seconds * SECOND_NS)
        drain = owners.spawn(Owner.STOP, self._drain())
        force = owners.spawn(Owner.STOP, self._force.wait())
        await asyncio.wait(
            [drain, force], timeout=deadline_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        drained = drain.done()
        for task in (*self._tasks, drain, force):
            task.cancel()
        await asyncio.gather(*self._tasks, drain, force, return_exceptions=True)
        await self._end_connections()
        services = self._assembly.services
        while self._waits_for_disk() and not self._force.is_set():
            if self._clock.monotonic_ns() >= ends_ns:
                self._leave()
            await asyncio.sleep(DRAIN_TICK_SECONDS)
        if self._force.is_set():
            services.logs.abandon()
            if self._waits_for_disk():
                self._leave()
            return EXIT_FORCED
        is_clean = await self._close_logs(max(deadline_seconds, CLOSE_SECONDS_MIN))
        services.pool.close()
        services.flush_pool.close()
        if drained and not self._hurry.is_set():
            await self._say_what_is_left()
        return EXIT_CLEAN if is_clean else EXIT_FAILED

    async def _end_connections(self) -> None:
        """End every connection; one that does not take its last answers, at once."""
        abort = self._hurry.is_set()
        for seconds in (0.0 if abort else LAST_ANSWERS_SECONDS, LAST_ANSWERS_SECONDS):
            for processor in self._processors:
                processor.close_all(abort=abort)
            ends_ns = self._clock.monotonic_ns() + int(seconds * SECOND_NS)
            await asyncio.sleep(0)
            while any(processor.connections for processor in self._processors):
                if self._clock.monotonic_ns() >= ends_ns:
                    break
                await asyncio.sleep(DRAIN_TICK_SECONDS)
            abort = True

    async def _say_what_is_left(self) -> None:
        """Warn of what the broker still holds after a stop in order: it has leaked."""
        await asyncio.sleep(0)  # for tasks that were cancelled just now
        left = left_over(self._assembly, self._dispatcher, self._processors)
        tasks = asyncio.all_tasks() - self._tasks_before - {asyncio.current_task()}
        left += [f"task {task.get_name()}: {task.get_coro()}" for task in tasks]
        if left:
            logger.warning("not at rest at the stop, please report this: %s", "; ".join(left))
        else:
            logger.debug("at rest: nothing is held")

    def _waits_for_disk(self) -> bool:
        """Whether a thread is in a call that has not ended: closing must not come between."""
        services = self._assembly.services
        is_busy = services.flush_pool.is_busy or services.pool.is_busy
        return is_busy or services.topics.is_changing

    async def _close_logs(self, deadline_seconds: float) -> bool:
        """Flush, checkpoint and mark the directory, in a thread: the disk may not answer.

        Returns whether everything is on the disk.
        """
        services = self._assembly.services
        close = partial(
            services.logs.close, clean=True, broker_epoch=services.controller.broker_epoch
        )
        closing = owners.spawn(Owner.STOP, services.pool.run(close))
        force = owners.spawn(Owner.STOP, self._force.wait())
        await asyncio.wait(
            [closing, force], timeout=deadline_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if not closing.done():
            self._leave()
        force.cancel()
        is_clean = closing.result()
        if is_clean:
            logger.info("stopped; everything is on disk")
        else:
            logger.error("stopped, but not everything could be written: the next start recovers")
        return is_clean

    def _leave(self) -> None:
        """Leave as a crash would: threads that wait for the disk would hold up any other way."""
        logger.error(
            "the disk of %s %s: leaving without it. What was acknowledged is on it; "
            "the next start recovers the rest.",
            self._assembly.services.logs.directory.path,
            "is being written to" if self._force.is_set() else "does not answer",
        )
        logging.shutdown()
        os._exit(EXIT_FORCED)

    async def _drain(self) -> None:
        services = self._assembly.services
        for sock in self._sockets:
            sock.close()
        for task in self._tasks:
            if task.get_name().startswith("acceptor"):
                task.cancel()
        for processor in self._processors:
            processor.pause_all()
        services.purgatory.stop()
        services.record_work.stop()
        if services.has_groups:
            services.groups.stop()
        await self._cleaner.stop()
        answered = owners.spawn(Owner.STOP, self._answered())
        hurry = owners.spawn(Owner.STOP, self._hurry.wait())
        try:
            await asyncio.wait([answered, hurry], return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
            hurry.cancel()
        await services.topics.finish()
        await self._housekeeping.stop()
        await services.commit.drained()

    async def _answered(self) -> None:
        """Wait until every request that was begun is answered, also those of clients that left."""
        queue, metrics = self._assembly.queue, self._assembly.services.metrics
        while (  # noqa: ASYNC110 - the last seconds of a broker
            len(queue) or metrics.appends_queued_now or self._requests_in_flight()
        ):
            await asyncio.sleep(DRAIN_TICK_SECONDS)
        await self._dispatcher.finish()

    def _requests_in_flight(self) -> int:
        return sum(
            len(connection.slots)
            for processor in self._processors
            for connection in processor.connections
        )


def _dialects(clock: Clock) -> dict[str, Dialect]:
    """Return the dialect of each listener protocol."""
    served = {int(row.api_key): row for row in HANDLERS}
    return {
        "PLAINTEXT": KafkaDialect(served),
        "MSGPACK": MsgpackDialect(served, clock.now_ms, let_others_run),
    }


def _ignore_signals() -> None:
    """Let no signal end the process by itself any more: its exit code is to say how it stopped."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _return_large_blocks() -> None:
    """Have the C library give blocks of large frames back to the system when they are freed.

    Glibc raises the size from which it maps a block by itself with each such block that is freed,
    up to 32 MiB; blocks below it stay with the process. Setting the size fixes it.
    """
    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    except (OSError, AttributeError):  # another C library, with habits of its own
        return


def _raise_descriptor_limit() -> None:
    """Allow this process as many files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
