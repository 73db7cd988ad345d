"""What a minimal program reaches on this machine; the table shows each figure as a share of it.

    write              1 MiB pieces to a new file, into the page cache
    write to disk      the same, with an fdatasync every 16 MiB
    receive and write  a socket on loopback into one buffer, its CRC, and from there into a file
    read cold          a file that was just written and dropped from the page cache, into one buffer
    send               a socket on loopback from one buffer, to a process that throws it away
    answer, two cores  200 B on loopback by 60 B, one after the other, by uvloop and nothing else
    answer, one core   the same with both processes on one core

Each gives a rate and the CPU of the one process that corresponds to the broker. On a virtual
machine two steps may cost more than the work itself: the first use of memory that was idle for a
while, and waking a process on another core.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import crc32c
import uvloop

from benchmarks.bench import MIB, Figures
from benchmarks.metrics import CPU_GB, CPU_REQUEST, MB_S, RECORDS_S
from benchmarks.servers import drop_pages

SIZE = 1 << 30
SYNC_EVERY = 16
READ_BYTES = 256 * 1024
ANSWERS = 20_000
ASKED, ANSWERED = bytes(200), bytes(60)  # a Produce of one record of 100 B, and its answer
ROUNDS = 3


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of `work`."""
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - cpu


def _figures(work: Callable[[], None]) -> Figures:
    seconds, cpu = _timed(work)
    return {MB_S: SIZE / seconds / 1e6, CPU_GB: cpu / (SIZE / 1e9)}


def _fill(file: int, piece: bytes, *, sync: bool) -> None:
    for number in range(SIZE // MIB):
        os.write(file, piece)
        if sync and number % SYNC_EVERY == SYNC_EVERY - 1:
            os.fdatasync(file)


def _write(path: Path, *, sync: bool) -> Figures:
    piece = os.urandom(MIB)

    def work() -> None:
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        _fill(file, piece, sync=sync)
        os.close(file)

    try:
        return _figures(work)
    finally:
        path.unlink()


def _beside(child: Callable[[socket.socket], None], own: Callable[[socket.socket], None]) -> None:
    """Run `child` in a forked process at the other end of a connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = os.fork()
        if process == 0:
            with socket.create_connection(("127.0.0.1", port)) as sock:
                child(sock)
            os._exit(0)
        sock, _ = listening.accept()
        with sock:
            own(sock)
        os.waitpid(process, 0)


def _pour(sock: socket.socket) -> None:
    piece = bytes(MIB)
    for _ in range(SIZE // MIB):
        sock.sendall(piece)


def _throw_away(sock: socket.socket) -> None:
    buffer = bytearray(MIB)
    while sock.recv_into(buffer):
        pass


def _receive_and_write(path: Path) -> Figures:
    buffer = bytearray(MIB)
    view = memoryview(buffer)

    def own(sock: socket.socket) -> None:
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        filled = 0
        while True:
            count = sock.recv_into(view[filled:])
            filled += count
            if filled == MIB or (filled and not count):
                crc32c.crc32c(view[:filled])
                os.write(file, view[:filled])
                filled = 0
            if not count:
                break
        os.close(file)

    try:
        return _figures(lambda: _beside(_pour, own))
    finally:
        path.unlink()


def _read_cold(path: Path) -> Figures:
    buffers = (bytearray(READ_BYTES),)
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC)

    def work() -> None:
        for position in range(0, SIZE, READ_BYTES):
            os.preadv(file, buffers, position)

    try:
        _fill(file, os.urandom(MIB), sync=True)
        drop_pages(path)
        return _figures(work)
    finally:
        os.close(file)
        path.unlink()


class _Answering(asyncio.Protocol):
    """Answers every request until the other end closes."""

    def __init__(self) -> None:
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - asyncio's signature
        self.transport.write(ANSWERED)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.closed.set_result(None)


async def _answer_until_closed(sock: socket.socket) -> None:
    _, protocol = await asyncio.get_running_loop().connect_accepted_socket(_Answering, sock)
    await protocol.closed


def _ask(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(ANSWERS):
        sock.sendall(ASKED)
        sock.recv(len(ANSWERED))


def _answer(own_core: int, other_core: int, cores: set[int]) -> Figures:
    def ask(sock: socket.socket) -> None:
        os.sched_setaffinity(0, {other_core})
        _ask(sock)

    os.sched_setaffinity(0, {own_core})
    try:
        seconds, cpu = _timed(
            lambda: _beside(ask, lambda sock: uvloop.run(_answer_until_closed(sock)))
        )
    finally:
        os.sched_setaffinity(0, cores)
    return {RECORDS_S: ANSWERS / seconds / 1e3, CPU_REQUEST: cpu / ANSWERS * 1e6}


def measure(directory: Path) -> dict[str, Figures]:
    """Medians of a few rounds of each, on the disk of `directory`."""
    path = directory / "limits"
    cores = os.sched_getaffinity(0)
    first, last = min(cores), max(cores)
    programs: dict[str, Callable[[], Figures]] = {
        "write": lambda: _write(path, sync=False),
        "write to disk": lambda: _write(path, sync=True),
        "receive and write": lambda: _receive_and_write(path),
        "read cold": lambda: _read_cold(path),
        "send": lambda: _figures(lambda: _beside(_throw_away, _pour)),
        "answer, two cores": lambda: _answer(first, last, cores),
        "answer, one core": lambda: _answer(first, first, cores),
    }
    found: dict[str, list[Figures]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            found[name].append(program())
            os.sync()
    return {
        name: {metric: statistics.median(row[metric] for row in rows) for metric in rows[0]}
        for name, rows in found.items()
    }
