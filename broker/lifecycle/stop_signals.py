"""The meaning of each signal: SIGTERM or SIGINT stop, stop faster, exit now; SIGHUP reloads.

first     stop in order
second    stop waiting for requests in progress; wait only for the disk. The stop stays clean,
since supervisors and terminals often send two signals
third     exit without a clean shutdown
others    no effect

SIGHUP sets `reload`, also before the broker serves. If the terminal that started the broker is
gone, SIGHUP is a SIGTERM: otherwise a broker in the foreground would outlive its window.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal

logger = logging.getLogger("barnabas.server")

STOPPING = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The signals received so far: three events that are set one after the other, and `reload`."""

    __slots__ = ("_had_terminal", "force", "hurry", "reload", "stop")

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.force = asyncio.Event()
        self.reload = asyncio.Event()
        self._had_terminal = False

    def listen(self) -> None:
        """Handle the process's signals from now on."""
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self.received, number)
        # Under nohup, which ignores SIGHUP, a broker outlives its window.
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._had_terminal = has_terminal() and not is_ignored
        loop.add_signal_handler(signal.SIGHUP, self.hung_up)

    def hung_up(self) -> None:
        """Handle one SIGHUP."""
        if self._had_terminal and not has_terminal():
            self.received(signal.SIGHUP)
        else:
            self.reload.set()

    def received(self, number: int) -> None:
        """Handle one signal."""
        name = signal.Signals(number).name
        if not self.stop.is_set():
            logger.info("%(signal)s: stopping", {"signal": name})
            self.stop.set()
        elif not self.hurry.is_set():
            logger.warning(
                "%(signal)s again: not waiting for requests in progress any longer, only for the"
                " disk; a third signal exits at once",
                {"signal": name},
            )
            self.hurry.set()
        elif not self.force.is_set():
            logger.warning(
                "%(signal)s for the third time: exiting now; the next start recovers",
                {"signal": name},
            )
            self.force.set()


def has_terminal() -> bool:
    """Whether this process has a terminal that is still open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def ignore() -> None:
    """Ignore further signals, so that the exit code tells how the broker stopped."""
    loop = asyncio.get_running_loop()
    for number in (*STOPPING, signal.SIGHUP):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
