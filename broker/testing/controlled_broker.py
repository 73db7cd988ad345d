"""The broker of a child: the real one, which tells its parent where it listens and obeys it.

Nothing of the broker is replaced. What tests change comes in through its environment, as for any
other machine, and through the table of handlers (`broker.dispatch`), before the first connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from broker.lifecycle import process, stop_signals
from broker.lifecycle.environment import Environment, system_environment
from broker.lifecycle.shutdown import EXIT_FAILED
from broker.runtime import log_lines, owners
from broker.runtime.clock import SECOND_NS
from broker.runtime.owners import Owner
from broker.server import Broker
from broker.testing.asked_requests import AskedRequests
from broker.testing.command_refused import CommandRefused, check_names
from broker.testing.control_link import ControlLink
from broker.testing.controlled_files import ControlledFiles
from broker.testing.elastic_loop import Ahead, AheadClock, ElasticLoop
from broker.testing.fault_desk import FaultDesk, FaultedHandler
from broker.testing.message_line import Message
from broker.testing.rule_book import RuleBook
from broker.testing.unsynced import Unsynced
from config.load import Loaded
from storage.errors import StorageError

logger = logging.getLogger("barnabas.server")

ADVANCE_SECONDS_MAX: Final = 100 * 365 * 24 * 3600
SETTLED_SECONDS: Final = 10
POLL_SECONDS: Final = 0.005


def run_controlled(loaded: Loaded, state: Message, stash: str, sock: socket.socket) -> int:
    """Run a broker that obeys the commands of `sock`; return the exit code.

    `state` is what its last life has left: rules, and requests. `stash` is a directory of its own
    for files that lose their names.
    """
    log_lines.configure(loaded.config.barnabas_log_format, loaded.config.barnabas_log_level)
    for warning in loaded.warnings:
        logger.warning("%(warning)s", {"warning": warning})
    process.raise_descriptor_limit()
    ahead = Ahead(state.get("ahead_ns", 0))
    try:
        with asyncio.Runner(loop_factory=partial(ElasticLoop, ahead)) as runner:
            return runner.run(_run(loaded, state, ahead, stash, sock))
    except (StorageError, OSError) as error:
        logger.error("cannot start or continue: %(error)s", {"error": error})
        return EXIT_FAILED


async def _run(
    loaded: Loaded, state: Message, ahead: Ahead, stash: str, sock: socket.socket
) -> int:
    book = RuleBook.of(state)
    files = ControlledFiles(loaded.config.data_directory, book, Unsynced(stash))
    clock = AheadClock(ahead)
    environment = dataclasses.replace(system_environment(), filesystem=files, clock=clock)
    desk = FaultDesk(book, AskedRequests(state))
    code = await ControlledBroker(loaded, environment, desk, ahead, sock).run()
    stop_signals.ignore()
    return code


class ControlledBroker(Broker):
    """A broker that tells `sock` when it listens, and obeys what comes from there."""

    def __init__(
        self,
        loaded: Loaded,
        environment: Environment,
        desk: FaultDesk,
        ahead: Ahead,
        sock: socket.socket,
    ) -> None:
        super().__init__(loaded, environment)
        assert isinstance(environment.filesystem, ControlledFiles)
        self._desk = desk
        self._ahead = ahead
        self._files = environment.filesystem
        self._checkpoints: set[asyncio.Task[None]] = set()  # one of each advance
        self._link = ControlLink(
            sock,
            {
                "add_rule": self._add_rule,
                "remove_rule": self._remove_rule,
                "state": self._state,
                "fill_disk": self._fill_disk,
                "advance": self._advance,
                "settle": self._settle,
                "cut_power": self._cut_power,
            },
        )

    async def startup(self) -> None:
        """Start, obey, and say where the broker listens."""
        await super().startup()
        self._serving.dispatcher.put_around(lambda row: FaultedHandler(row, self._desk))
        self._link.start()
        self._link.tell(self._where())

    async def shutdown(self) -> int:
        """Stop in order; commands are no longer obeyed."""
        self._link.stop()
        return await super().shutdown()

    async def _add_rule(self, message: Message) -> Message:
        check_names("add_rule", message, ("rule",))
        return self._desk.book.add(message.get("rule", {}))

    async def _remove_rule(self, message: Message) -> Message:
        check_names("remove_rule", message, ("number",))
        return self._desk.book.remove(message.get("number"))

    async def _state(self, message: Message) -> Message:
        check_names("state", message, ())
        return {
            **self._desk.book.state(),
            **self._desk.asked.state(),
            "ahead_ns": self._ahead.ns,
            "now_ms": self._clock.now_ms(),
        }

    async def _fill_disk(self, message: Message) -> Message:
        check_names("fill_disk", message, ("free_bytes",))
        free_bytes = message.get("free_bytes")
        if free_bytes is not None and (type(free_bytes) is not int or free_bytes < 0):
            raise CommandRefused(f"free_bytes is {free_bytes!r}, expected a number from 0 on")
        self._files.fill(free_bytes)
        return {}

    async def _advance(self, message: Message) -> Message:
        """Let time pass, and wait until the duties that it has brought have ended.

        No flush may run meanwhile, which would seem stuck. Recovery points are written first, since
        retention leaves what they have not passed. Connections do not become idle: their clients
        would have been busy.
        """
        check_names("advance", message, ("seconds",))
        seconds: Any = message.get("seconds")
        if type(seconds) not in (int, float) or not 0 <= seconds <= ADVANCE_SECONDS_MAX:
            raise CommandRefused(
                f"seconds is {seconds!r}, expected a number from 0 to {ADVANCE_SECONDS_MAX}:"
                " time does not go back"
            )
        commit, housekeeping = self._assembly.services.commit, self._serving.housekeeping
        await _until(lambda: not commit.is_flushing)
        written = owners.spawn(
            Owner.TEST_CONTROL, housekeeping.write_checkpoints(), among=self._checkpoints
        )
        await _until(lambda: written.done() and not commit.is_flushing)  # a rule may hold it
        for processor in self._serving.processors:
            for connection in processor.connections:
                connection.last_active_ns += int(seconds * SECOND_NS)
                if connection.reading.frame_begun_ns:
                    connection.reading.frame_begun_ns += int(seconds * SECOND_NS)
        cleaner = self._serving.cleaner
        rests, backoff = cleaner.rests, self._assembly.services.config.log_cleaner_backoff_ms / 1000
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ElasticLoop)
        loop.advance(seconds)
        await asyncio.sleep(0)
        await _until(lambda: housekeeping.is_resting and not commit.is_flushing)
        config = self._assembly.services.config
        if config.log_cleaner_enable and not config.barnabas_read_only and seconds >= backoff:
            await _until(lambda: cleaner.rests > rests)
        return {"now_ms": self._clock.now_ms()}

    async def _settle(self, message: Message) -> Message:
        """Wait until what is written is on the disk, and write the recovery points."""
        check_names("settle", message, ())
        commit, housekeeping = self._assembly.services.commit, self._serving.housekeeping
        await _until(lambda: not commit.is_flushing)
        await housekeeping.write_checkpoints()
        return {}

    async def _cut_power(self, message: Message) -> Message:
        """Take back what was not synced, and end the process: nothing runs after that."""
        check_names("cut_power", message, ())
        self._link.tell({"changes": self._files.cut_power()})
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    def _where(self) -> Message:
        http = self._http and self._http.getsockname()
        return {
            "listeners": {
                listener.name: {
                    "host": listener.host,
                    "port": port,
                    "protocol": listener.protocol,
                    "text": str(listener._replace(port=port)),
                }
                for listener, port in self._assembly.bound
            },
            "http": {"host": http[0], "port": http[1]} if http else None,
        }


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until something is so, for a while."""
    for _ in range(int(SETTLED_SECONDS / POLL_SECONDS)):
        if condition():
            return
        await asyncio.sleep(POLL_SECONDS)
