"""One broker, from start to stop.

    startup   lock and open the directory, load the metadata, recover and open every log,
              then bind: the broker listens only after recovery
    serve     acceptors, processors, IO workers and tickers run until a signal arrives or one
              of them ends, which is an error (`broker.lifecycle.serving`)
    shutdown  stop accepting, stop reading, finish the requests in progress (with a deadline),
              flush, write checkpoints, write the clean-shutdown marker last
              (`broker.lifecycle.shutdown`)

The first SIGTERM or SIGINT starts the shutdown; further ones hurry it
(`broker.lifecycle.stop_signals`).

Exit codes: 0 all data is on the disk; 1 the broker could not start or continue, or could not write
everything at the stop (one log line gives the reason); 130 it exited without a clean shutdown.

The clock, the file system, randomness, threads and sockets enter the broker here, with its
environment (`broker.lifecycle.environment`). Every module below receives them as arguments.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import uvloop

from broker.assembly import Assembly, assemble
from broker.data_directory import open_directory
from broker.lifecycle import process, stop_signals
from broker.lifecycle.environment import Environment, system_environment
from broker.lifecycle.listening import say_that_it_listens
from broker.lifecycle.reloading import Reloading
from broker.lifecycle.service_manager import InheritedSockets, ServiceManager
from broker.lifecycle.serving import Serving
from broker.lifecycle.shutdown import EXIT_FAILED, EXIT_FORCED, Shutdown
from broker.lifecycle.stop_signals import StopSignals
from broker.runtime import log_lines, owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.log_tail import LogTail
from broker.runtime.owners import Owner
from broker.security.oauth.key_set import KeySetError
from broker.security.tls.tls_errors import TlsError
from config.broker import BrokerConfig
from config.listeners import Listener, address_text
from config.load import Loaded
from config.sources import Source
from storage.errors import StorageError

if TYPE_CHECKING:
    from broker.runtime.line_file import LineFile

logger = logging.getLogger("barnabas.server")

HTTP_BACKLOG = 64


def run(loaded: Loaded, read: Callable[[], Loaded] | None = None) -> int:
    """Run a broker until it is told to stop; return the exit code.

    `read` reads the configuration again, for a SIGHUP.
    """
    config = loaded.config
    try:
        lines = _lines(config)
    except OSError as error:
        sys.stderr.write(f"barnabas cannot start: {error.strerror}\n")
        return EXIT_FAILED
    log_lines.configure(config.barnabas_log_format, config.barnabas_log_level, lines)
    for warning in loaded.warnings:
        logger.warning("%(warning)s", {"warning": warning})
    if loaded.without_effect:
        logger.info("set without effect here: %(keys)s", {"keys": ", ".join(loaded.without_effect)})
    process.raise_descriptor_limit()
    process.return_large_blocks(
        process.TLS_BLOCK_BYTES if config.tls else process.LARGE_BLOCK_BYTES
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(loaded, Reloading(read or (lambda: loaded), lines)))
    except (StorageError, OSError, TlsError, KeySetError) as error:
        logger.error("cannot start or continue: %(error)s", {"error": error})
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_FORCED


def _lines(config: BrokerConfig) -> LineFile | None:
    """Open the log file, if the configuration names one. Raises OSError."""
    if not config.barnabas_log_file:
        return None
    from broker.runtime.line_file import LineFile

    return LineFile(config.barnabas_log_file, config.data_directory)


async def _run(loaded: Loaded, reloading: Reloading) -> int:
    given = system_environment()
    sockets = InheritedSockets(os.environ, os.getpid())
    manager = ServiceManager(os.environ, os.getpid())
    bound = replace(given, bind=sockets.bind, has_bound=sockets.close_others)
    code = await Broker(loaded, bound, reloading, manager).run()
    stop_signals.ignore()
    return code


class Broker:
    """The parts of a running broker, in the order in which they start and stop."""

    def __init__(
        self,
        loaded: Loaded,
        environment: Environment,
        reloading: Reloading | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        """Without `reloading`, SIGHUP has no effect."""
        self._loaded = loaded
        self._config = loaded.config
        self._environment = environment
        self._clock = environment.clock
        self._reloading = reloading
        self._manager = manager or ServiceManager({}, 0)
        self._signals = StopSignals()
        self._sockets: list[socket.socket] = []
        self._http: socket.socket | None = None
        self._log_tail = LogTail()
        self._assembly: Assembly
        self._serving: Serving
        self._shutdown: Shutdown

    async def run(self) -> int:
        """Start, serve and stop."""
        if self._config.http is not None:
            self._log_tail.attach()
        try:
            await self.startup()
            try:
                failed = await self.serve()
            finally:
                code = await self.shutdown()
        finally:
            self._log_tail.detach()
        return EXIT_FAILED if failed else code

    async def startup(self) -> None:
        """Recover, then listen. Raises StorageError, OSError."""
        started_ns = self._clock.monotonic_ns()
        tasks_before = asyncio.all_tasks()
        # Signals first: one that arrives during recovery stops the broker as a crash would,
        # at the next step that waits.
        self._signals.listen()
        self._assembly = await self._assemble()
        self._serving = Serving(self._assembly, self._sockets, self._http, self._log_tail)
        self._serving.start()
        self._shutdown = Shutdown(
            self._assembly, self._serving, self._signals, tasks_before, self._environment.leave
        )
        if self._config.barnabas_create_topics and not self._config.barnabas_read_only:
            await self._create_topics()
        self._environment.keep_from_collector()
        self._say_that_it_listens()
        # Testcontainers waits for these lines of Kafka's.
        services = self._assembly.services
        logger.info(
            "[BrokerLifecycleManager id=%(node_id)d] Transitioning from RECOVERY to RUNNING",
            {"node_id": services.node_id},
        )
        logger.info(
            "[KafkaServer id=%(node_id)d] started: Kafka Server started, %(partitions)d partitions,"
            " %(ms)d ms after start",
            {
                "node_id": services.node_id,
                "partitions": len(services.partitions),
                "ms": (self._clock.monotonic_ns() - started_ns) // 1_000_000,
            },
        )
        self._manager.ready()

    async def _create_topics(self) -> None:
        from broker.topics_at_start import create_at_start

        await create_at_start(self._config.barnabas_create_topics, self._assembly.services.topics)

    async def _assemble(self) -> Assembly:
        loop = asyncio.get_running_loop()
        given = self._environment
        opened = open_directory(self._config, given.filesystem, given.clock, given.random_bytes)
        try:
            return assemble(
                self._loaded,
                opened,
                self._bind,
                given.clock,
                given.random_bytes,
                given.executor,
                loop,
                given.make_syncs,
            )
        except BaseException:
            # The port is taken, for example. Close cleanly: the next start need not recover again.
            for sock in self._sockets:
                sock.close()
            pool = BlockingPool(given.executor(1, "closing"), loop)
            await pool.run(partial(opened.logs.close, clean=True))
            pool.close()
            raise

    def _bind(self) -> list[tuple[Listener, int]]:
        config = self._config
        bound = []
        for listener in config.served_listeners:
            sock = self._bind_one(
                listener,
                config.socket_receive_buffer_bytes,
                config.socket_send_buffer_bytes,
                config.socket_listen_backlog_size,
            )
            self._sockets.append(sock)
            bound.append((listener, sock.getsockname()[1]))
        self._bind_http()
        self._environment.has_bound()
        return bound

    def _bind_http(self) -> None:
        """Open the HTTP listener; warn if its usual port is taken and nobody has named it."""
        listener = self._config.http
        if listener is None:
            return
        try:
            self._http = self._bind_one(listener, -1, -1, HTTP_BACKLOG)
        except OSError as error:
            if self._loaded.origin("barnabas.http.listener").source is not Source.DEFAULT:
                raise
            logger.warning(
                "no console, /metrics, /healthz and /readyz: %(error)s Set barnabas.http.listener"
                " to another address, or to nothing",
                {"error": error.strerror},
            )

    def _bind_one(self, listener: Listener, *sizes: int) -> socket.socket:
        try:
            return self._environment.bind(listener, *sizes)
        except OSError as error:
            raise OSError(
                error.errno,
                f"cannot listen on {listener}: {error.strerror}; "
                "is another broker running, or another program on that port?",
            ) from None

    def _say_that_it_listens(self) -> None:
        say_that_it_listens(self._config, self._assembly.bound)
        if self._http is not None and self._config.http is not None:
            logger.info(
                "listening on http://%(address)s for the console, /metrics, /healthz and /readyz",
                {"address": address_text(self._config.http.host, self._http.getsockname()[1])},
            )

    async def serve(self) -> bool:
        """Wait for a signal; return True if a task that must not end has ended instead."""
        reload = None
        if self._reloading is not None:
            run = partial(self._reloading.run, self._assembly.services, self._signals.reload)
            reload = owners.spawn(Owner.RELOAD, owners.keep_running(Owner.RELOAD, run))
        try:
            return await self._serving.until(self._signals.stop)
        finally:
            if reload is not None:
                reload.cancel()
                await asyncio.wait([reload])

    async def shutdown(self) -> int:
        """Stop in order; return the exit code."""
        self._manager.stopping()
        try:
            return await self._shutdown.run(self._config.barnabas_shutdown_deadline_ms)
        finally:
            self._manager.end()
