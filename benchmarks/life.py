"""The life of a broker process: start to the first acknowledged record, and its memory.

Every run is a fresh process on a fresh directory: started, queried, left idle, given 1 GB, stopped.

Unlike the lives of the tests it measures, and checks nothing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import load
from benchmarks.bench import MIB, Bench, Figures
from benchmarks.metrics import FIRST_ACK, IDLE, LOADED
from benchmarks.servers import Server

GB = 10**9
IDLE_SECONDS = 3.0


def life(make: Callable[[Path], Server], place: Path, bench: Bench) -> Figures:
    """Start, idle, carry 1 GB in and out, stop; resident memory in MiB, times in seconds."""
    server = make(place)
    try:
        server.start()
        time.sleep(IDLE_SECONDS * min(1.0, bench.scale))
        idle, idle_anonymous = server.memory_bytes()
        server.create_topic("memory", 1)
        batch, records = bench.batch_16k, bench.records_16k
        stored = load.fill(server.port, "memory", batch, records, count=GB // len(batch))
        line = load.FetchLine(server.port, "memory", 0, size_max=MIB, stored=stored)
        run = load.Run([line])
        run.until(lambda: line.size >= stored.batch_size * stored.end_offset // stored.records)
        run.close()
        loaded, loaded_anonymous = server.memory_bytes()
        time.sleep(IDLE_SECONDS)
        rested, _ = server.memory_bytes()
        return {
            "first answer s": server.first_answer_seconds,
            FIRST_ACK: server.first_ack_seconds,
            IDLE: idle / MIB,
            "idle anonymous MiB": idle_anonymous / MIB,
            LOADED: loaded / MIB,
            "RSS MiB 3 s later": rested / MIB,
            "anonymous MiB after 1 GB": loaded_anonymous / MIB,
        }
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)
