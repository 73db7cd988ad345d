"""What a broker needs of the machine and of its process: files, time, chance, threads, sockets.

Everything that a broker does outside its own memory goes through an `Environment`, but for two
things that come with the event loop: timers and signals, and the connections that the loop accepts
from the sockets of `bind`. `system_environment` is the machine's own. A broker in another
environment, such as a directory in memory, is the same broker.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from broker.lifecycle import process
from broker.network import acceptor
from broker.runtime.blocking_pool import Executors, thread_executor
from broker.runtime.clock import Clock, SystemClock
from config.listeners import Listener
from storage.files.filesystem import FileSystem
from storage.files.kernel_syncs import SideSyncs, kernel_syncs
from storage.files.os_filesystem import OsFileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The surroundings of one broker.

    `bind(listener, receive, send, backlog)` returns a listening socket; the sizes of its buffers
    are in bytes, -1 for the kernel's choice. `executor(threads, name)` returns an executor of that
    many threads. `make_syncs()` returns what runs fdatasyncs without threads, or None.
    `leave(code)` ends the process at once. `keep_from_collector()` is called when the broker has
    started: what exists then lives to the end. `has_bound()` is called when all sockets are bound.
    """

    filesystem: FileSystem
    clock: Clock
    random_bytes: Callable[[int], bytes]
    executor: Executors
    make_syncs: Callable[[], SideSyncs | None]
    bind: Callable[[Listener, int, int, int], socket.socket]
    leave: Callable[[int], NoReturn]
    keep_from_collector: Callable[[], None]
    has_bound: Callable[[], None] = lambda: None


def system_environment() -> Environment:
    """Return this machine and this process."""
    return Environment(
        filesystem=OsFileSystem(),
        clock=SystemClock(),
        random_bytes=os.urandom,
        executor=thread_executor,
        make_syncs=kernel_syncs,
        bind=acceptor.bind,
        leave=process.leave,
        keep_from_collector=process.keep_from_collector,
    )
