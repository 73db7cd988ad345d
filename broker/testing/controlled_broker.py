"""The broker of a child: the real one, which tells its parent where it listens and obeys it.

Nothing of the broker is replaced. What tests change comes in through its environment, as for any
other machine, and through the table of handlers (`broker.dispatch`), before the first connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket

import uvloop

from broker.lifecycle import process, stop_signals
from broker.lifecycle.environment import Environment, system_environment
from broker.lifecycle.shutdown import EXIT_FAILED
from broker.runtime import log_lines
from broker.server import Broker
from broker.testing.control_link import Command, ControlLink
from broker.testing.message_line import Message
from config.load import Loaded
from storage.errors import StorageError

logger = logging.getLogger("barnabas.server")


def run_controlled(loaded: Loaded, sock: socket.socket) -> int:
    """Run a broker that obeys the commands of `sock`; return the exit code."""
    log_lines.configure(loaded.config.barnabas_log_format, loaded.config.barnabas_log_level)
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    process.raise_descriptor_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(loaded, sock))
    except (StorageError, OSError) as error:
        logger.error("cannot start or continue: %s", error)
        return EXIT_FAILED


async def _run(loaded: Loaded, sock: socket.socket) -> int:
    code = await ControlledBroker(loaded, system_environment(), sock).run()
    stop_signals.ignore()
    return code


class ControlledBroker(Broker):
    """A broker that tells `sock` when it listens, and obeys what comes from there."""

    def __init__(self, loaded: Loaded, environment: Environment, sock: socket.socket) -> None:
        super().__init__(loaded, environment)
        commands: dict[str, Command] = {}
        self._link = ControlLink(sock, commands)

    async def startup(self) -> None:
        """Start, obey, and say where the broker listens."""
        await super().startup()
        self._link.start()
        self._link.tell(self._where())

    async def shutdown(self) -> int:
        """Stop in order; commands are no longer obeyed."""
        self._link.stop()
        return await super().shutdown()

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
