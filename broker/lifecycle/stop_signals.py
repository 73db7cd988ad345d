"""The meaning of each SIGTERM or SIGINT: stop, stop faster, exit now.

first     stop in order
second    stop waiting for requests in progress; wait only for the disk. The stop stays clean,
since supervisors and terminals often send two signals
third     exit without a clean shutdown
others    no effect

If a listener has TLS, SIGHUP reloads the certificates. Otherwise it ends the process, as usual.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

logger = logging.getLogger("barnabas.server")

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The signals received so far, as three events that are set one after the other."""

    __slots__ = ("force", "hurry", "stop")

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.force = asyncio.Event()

    def listen(self) -> None:
        """Handle the process's signals from now on."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self.received, number)

    def received(self, number: int) -> None:
        """Handle one signal."""
        name = signal.Signals(number).name
        if not self.stop.is_set():
            logger.info("%s: stopping", name)
            self.stop.set()
        elif not self.hurry.is_set():
            logger.warning(
                "%s again: not waiting for requests in progress any longer, only for the disk; "
                "a third signal exits at once",
                name,
            )
            self.hurry.set()
        elif not self.force.is_set():
            logger.warning("%s for the third time: exiting now; the next start recovers", name)
            self.force.set()


def on_hangup(call: Callable[[], None]) -> None:
    """Call on each SIGHUP from now on."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, call)


def ignore() -> None:
    """Ignore further signals, so that the exit code tells how the broker stopped."""
    loop = asyncio.get_running_loop()
    for number in (*STOPPING, signal.SIGHUP):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
