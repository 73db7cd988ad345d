"""What the machine gives a minimal program: the distance of each figure to it stands in the table.

    write              1 MiB pieces to a new file, into the page cache
    write to disk      the same, with an fdatasync every 16 MiB
    receive and write  a socket on loopback into one buffer, its CRC, and from there into a file
    send               a socket on loopback from one buffer, to a process that throws it away

Each gives MB/s and the CPU of the one process that would be the broker.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import crc32c

from benchmarks.bench import MIB, Figures
from benchmarks.metrics import CPU_GB, MB_S

SIZE = 1 << 30
SYNC_EVERY = 16
ROUNDS = 3


def _figures(work: Callable[[], None]) -> Figures:
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    seconds = time.perf_counter() - begun
    return {MB_S: SIZE / seconds / 1e6, CPU_GB: (time.process_time() - cpu) / (SIZE / 1e9)}


def _write(path: Path, *, sync: bool) -> Figures:
    piece = os.urandom(MIB)

    def work() -> None:
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for number in range(SIZE // MIB):
            os.write(file, piece)
            if sync and number % SYNC_EVERY == SYNC_EVERY - 1:
                os.fdatasync(file)
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


def measure(directory: Path) -> dict[str, Figures]:
    """Medians of a few rounds of each, on the disk of `directory`."""
    path = directory / "limits"
    programs: dict[str, Callable[[], Figures]] = {
        "write": lambda: _write(path, sync=False),
        "write to disk": lambda: _write(path, sync=True),
        "receive and write": lambda: _receive_and_write(path),
        "send": lambda: _figures(lambda: _beside(_throw_away, _pour)),
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
