"""The running parts of a broker: acceptors, processors, IO workers and tickers.

`Serving` makes them from an `Assembly` after recovery. `broker.lifecycle.shutdown` ends them in
steps: stop accepting and reading, finish the requests in progress, end the connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from broker.assembly import Assembly
from broker.dispatch import Dispatcher
from broker.handlers import HANDLERS
from broker.io_worker import IoWorker
from broker.maintenance.housekeeping import Housekeeping
from broker.maintenance.log_cleaner import LogCleaner
from broker.network.acceptor import Acceptor
from broker.network.processor import Processor
from broker.runtime import owners
from broker.runtime.clock import SECOND_NS, Clock, let_others_run
from broker.runtime.log_tail import LogTail
from broker.runtime.owners import Owner
from broker.runtime.slow_steps import SlowSteps
from protocol.dialect import Dialect
from protocol.kafka.copying import CopyingKafkaDialect
from protocol.kafka.dialect import KafkaDialect
from protocol.msgpack.dialect import MsgpackDialect

if TYPE_CHECKING:
    from broker.http.http_listener import HttpListener
    from broker.network.handshakes import Handshakes

logger = logging.getLogger("barnabas.server")

DRAIN_TICK_SECONDS = 0.01
LAST_ANSWERS_SECONDS = 0.5  # for clients to receive the last answers


class Serving:
    """The running parts of one broker; `sockets` are those of `assembly.bound`, in its order.

    `http` is the socket of the HTTP listener, if there is one; its pages show `log_tail`.
    """

    def __init__(
        self,
        assembly: Assembly,
        sockets: Sequence[socket.socket],
        http: socket.socket | None = None,
        log_tail: LogTail | None = None,
    ) -> None:
        services, network = assembly.services, assembly.network
        config = services.config
        self._clock = services.clock
        self._metrics = services.metrics
        self._queue = network.queue
        self._sockets = sockets
        self.processors = [Processor(index, network) for index in range(config.num_network_threads)]
        self.dispatcher = Dispatcher(services)
        self._workers = [
            IoWorker(index, network.queue, self.dispatcher, network.writes, self._clock)
            for index in range(config.num_io_threads)
        ]
        dialects = dialects_of(self._clock)
        self._handshakes = _handshakes(assembly)
        self._acceptors = [
            Acceptor(
                listener,
                sock,
                dialects[listener.protocol],
                self.processors,
                network.limits,
                self._metrics,
                self._clock,
                self._handshakes if listener.is_encrypted else None,
            )
            for (listener, _), sock in zip(assembly.bound, sockets, strict=True)
        ]
        self.housekeeping = Housekeeping(services, self.processors)
        self.cleaner = LogCleaner(services)
        self.slow_steps = SlowSteps(config.barnabas_slow_step_ms, self._clock)
        services.users.listen(self._end_removed)
        if services.sasl is not None:  # which listens to the same settings, and earlier
            services.configs.settings.listen(lambda _: self._end_removed())
        self._http = _http(assembly, http, self.processors, log_tail or LogTail())
        self._accepting: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all tasks."""
        self.housekeeping.start()
        self.cleaner.start()
        self.slow_steps.start()
        for processor in self.processors:
            self._working.append(_running(Owner.PROCESSOR, processor.run, processor.name))
        for worker in self._workers:
            self._working.append(_running(Owner.WORKER, worker.run, worker.name))
        for acceptor in self._acceptors:
            self._accepting.append(_running(Owner.ACCEPTOR, acceptor.run, acceptor.name))
        if self._http is not None:
            self._http.start()

    def _end_removed(self) -> None:
        """End the connections of removed users: some 0.3 µs for each with a login."""
        for processor in self.processors:
            for connection in tuple(processor.connections):
                if connection.gate is not None:
                    connection.gate.end_if_removed()

    async def until(self, stop: asyncio.Event) -> bool:
        """Wait for `stop`; return True if a task that must not end has ended instead."""
        stopped = owners.spawn(Owner.STOP, stop.wait())
        tasks = [*self._working, *self._accepting]
        done, _ = await asyncio.wait([stopped, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if stopped in done:
            return False
        stopped.cancel()
        for task in (task for task in tasks if task in done):
            why = None if task.cancelled() else task.exception()
            logger.error(
                "%(task)s ended unexpectedly; stopping the broker",
                {"task": task.get_name()},
                exc_info=why,
            )
        return True

    def close_doors(self) -> None:
        """Stop accepting connections and reading from them; HTTP says so, until `end_tasks`."""
        if self._http is not None:
            self._http.begin_stop()
        for sock in self._sockets:
            sock.close()
        for task in self._accepting:
            task.cancel()
        if self._handshakes is not None:
            self._handshakes.stop()
        for processor in self.processors:
            processor.pause_all()

    async def answered(self) -> None:
        """Wait until every started request is answered, even if its client has disconnected."""
        while (  # noqa: ASYNC110 - the last seconds of a broker
            len(self._queue) or self._metrics.appends_queued_now or self._requests_in_flight()
        ):
            await asyncio.sleep(DRAIN_TICK_SECONDS)
        await self.dispatcher.finish()

    def _requests_in_flight(self) -> int:
        return sum(
            len(connection.slots)
            for processor in self.processors
            for connection in processor.connections
        )

    async def end_tasks(self) -> None:
        """Cancel the tasks of acceptors, processors and workers, and end HTTP."""
        if self._http is not None:
            await self._http.stop()
        tasks = [*self._working, *self._accepting]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._handshakes is not None:
            self._handshakes.stop()  # of a connection that was accepted at the end
            await self._handshakes.ended()

    async def end_connections(self, *, abort: bool) -> None:
        """End every connection; abort those that do not take their last answers in time."""
        for seconds in (0.0 if abort else LAST_ANSWERS_SECONDS, LAST_ANSWERS_SECONDS):
            for processor in self.processors:
                processor.close_all(abort=abort)
            ends_ns = self._clock.monotonic_ns() + int(seconds * SECOND_NS)
            await asyncio.sleep(0)
            while any(processor.connections for processor in self.processors):
                if self._clock.monotonic_ns() >= ends_ns:
                    break
                await asyncio.sleep(DRAIN_TICK_SECONDS)
            abort = True


def _running(owner: Owner, run: Callable[[], Awaitable[None]], name: str) -> asyncio.Task[None]:
    return owners.spawn(owner, owners.keep_running(owner, run), name)


def _handshakes(assembly: Assembly) -> Handshakes | None:
    """Import and make what a listener with TLS needs, if there is one."""
    services = assembly.services
    if services.tls is None:
        return None
    from broker.network.handshakes import Handshakes

    return Handshakes(services.tls, assembly.network.limits, services.metrics, services.clock)


def _http(
    assembly: Assembly,
    sock: socket.socket | None,
    processors: Sequence[Processor],
    log_tail: LogTail,
) -> HttpListener | None:
    """Import and make the HTTP listener, if there is one."""
    config = assembly.services.config
    if sock is None or config.http is None:
        return None
    from broker.exposition.history import History
    from broker.exposition.pulse import Pulse
    from broker.http.http_listener import HttpListener
    from broker.http.routes import PageRules
    from broker.http.surroundings import Surroundings

    rules = PageRules.of(
        config.http,
        config.barnabas_http_hosts,
        config.barnabas_http_password,
        is_open=not config.authorizer_class_name,
    )
    services = assembly.services
    pulse, history = Pulse(services), History(services)
    surroundings = Surroundings(assembly, processors, pulse, history, log_tail)
    return HttpListener(sock, surroundings, rules)


def dialects_of(clock: Clock) -> dict[str, Dialect]:
    """Return the dialect of each listener protocol."""
    served = {int(row.api_key): row for row in HANDLERS}
    plain, copying = KafkaDialect(served), CopyingKafkaDialect(served)
    msgpack = MsgpackDialect(served, clock.now_ms, let_others_run)
    return {
        "PLAINTEXT": plain,
        "SASL_PLAINTEXT": plain,
        "SSL": copying,
        "SASL_SSL": copying,
        "MSGPACK": msgpack,
        "MSGPACK_SSL": msgpack,
        "MSGPACK_SASL": msgpack,
        "MSGPACK_SASL_SSL": msgpack,
    }
