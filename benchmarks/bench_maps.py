"""What it costs to release mapped pages that were sent: `python -m benchmarks.bench_maps`.

Sends a mapped file of 64 MiB again and again over a Unix socket, 1 MiB a call, to a process that
reads it, and releases the pages after so many sent bytes. Prints the least and the median CPU-s/GB
of the sender and the median rate, for each bound; the bounds take turns.
"""

from __future__ import annotations

import mmap
import os
import socket
import statistics
import sys
import tempfile
import time

from benchmarks import interpreter
from benchmarks.bench import MIB

FILE_BYTES = 64 * MIB
SENT_BYTES = 1024 * MIB
BOUNDS = (512 * MIB, 128 * MIB, 32 * MIB)
ROUNDS = 9


def send(file: int, bound: int) -> tuple[float, float]:
    """Send SENT_BYTES; return CPU-s/GB and GB/s."""
    ours, theirs = socket.socketpair()
    reader = os.fork()
    if not reader:
        ours.close()
        room = bytearray(MIB)
        while theirs.recv_into(room):
            pass
        os._exit(0)
    theirs.close()
    mapped = mmap.mmap(file, FILE_BYTES, prot=mmap.PROT_READ)
    view = memoryview(mapped)
    cpu, started = time.process_time(), time.perf_counter()
    viewed = 0
    for at in range(0, SENT_BYTES, MIB):
        place = at % FILE_BYTES
        ours.sendall(view[place : place + MIB])
        viewed += MIB
        if viewed >= bound:
            mapped.madvise(mmap.MADV_DONTNEED)
            viewed = 0
    ours.close()
    os.waitpid(reader, 0)
    gigabytes = SENT_BYTES / 1e9
    taken = time.perf_counter() - started
    return (time.process_time() - cpu) / gigabytes, gigabytes / taken


def main() -> int:
    """Print one row for each bound."""
    interpreter.announce()
    found: dict[int, list[tuple[float, float]]] = {bound: [] for bound in BOUNDS}
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(MIB) * (FILE_BYTES // MIB))
        file.flush()
        for _ in range(ROUNDS):
            for bound in BOUNDS:
                found[bound].append(send(file.fileno(), bound))
    print("released after   CPU-s/GB least  median   GB/s median")
    for bound, runs in found.items():
        cpu, rate = zip(*runs, strict=True)
        print(
            f"{bound // MIB:10} MiB {min(cpu):15.3f} {statistics.median(cpu):8.3f}"
            f" {statistics.median(rate):12.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
