"""What SIGTERM and SIGINT ask for: a stop, then a quicker one, then to leave at once.

first     stop in order
second    wait no longer for requests in progress, only for the disk: supervisors and terminals
often send two signals, and the stop stays a clean one
third     leave as a crash would, without the clean-shutdown marker
others    nothing more
"""

from __future__ import annotations

import asyncio
import logging
import signal

logger = logging.getLogger("barnabas.server")

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """How far the stop has been asked for: three events, set one after the other."""

    __slots__ = ("force", "hurry", "stop")

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.force = asyncio.Event()

    def listen(self) -> None:
        """Take the process's signals from now on."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self.received, number)

    def received(self, number: int) -> None:
        """Take one signal."""
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


def ignore() -> None:
    """Let no signal end the process any more: its exit code is to say how it stopped."""
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
