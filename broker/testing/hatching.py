"""The fork: from a warm process to a child that is about to be a broker.

The child has nothing of its parent's but memory: its other descriptors are closed, its signals are
the system's, and it dies with its parent (PR_SET_PDEATHSIG; the parent has one thread only, which
lives as long as it does). The event loop and all threads are made after the fork.

The child never returns. The objects of the closed descriptors stay referenced from the frames
below, so that none of them is collected and closes a descriptor of the broker's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Final, NoReturn

from broker.testing.hatched import Hatched

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
FAILED: Final = 70  # the child's code if the broker ends by an exception
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def hatch(run: Callable[[socket.socket], int], log_path: str | None) -> Hatched:
    """Fork a child that calls `run` with its end of a socket pair, and ends with its code.

    What it writes goes to `log_path`; without one, to where the parent's goes.
    """
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        _live(run, theirs, log_path, parent)
    theirs.close()
    return Hatched(pid, ours, log_path or "")


def _live(
    run: Callable[[socket.socket], int], sock: socket.socket, log_path: str | None, parent: int
) -> NoReturn:
    code = FAILED
    try:
        os.setsid()  # Ctrl-C is for the parent, which stops the broker in order
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(FAILED)
        _forget_signals()
        _redirect(log_path)
        _close_all_but(sock.fileno())
        code = run(sock)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


def _redirect(log_path: str | None) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    if log_path is None:
        return
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _close_all_but(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != kept:
            try:
                os.close(number)
            except OSError:  # that of the listing itself
                continue
