"""The cost of a compaction pass: speed by record size and codec, memory, delays of the loop.

    python -m benchmarks.bench_compaction [DIRECTORY]

Runs on the real file system, in a temporary directory (of DIRECTORY, if given). The log is 64 MiB
in batches of 16 KiB; a third of its keys repeat. The pass runs in a thread, as in the broker,
while the main thread sleeps a millisecond at a time and notes by how much it oversleeps.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks import interpreter
from benchmarks.bench_log import NOW, TOPIC_ID, manager
from broker.maintenance.cleaner_pace import CleanerPace
from broker.runtime.clock import SystemClock
from config.topic import TopicConfig
from protocol.records import Record, build
from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import PassLimits, Steps, compact
from storage.log import Log
from storage.log_manager import LogManager

MIB = 1024 * 1024
LOG_BYTES = 64 * MIB
BATCH_BYTES = 16 * 1024
SEGMENT_BYTES = 16 * MIB
CASES = ((100, 0), (100, 3), (1000, 0), (1000, 3), (1000, 4), (10_000, 0))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def filled(logs: LogManager, name: str, record_bytes: int, codec: int) -> tuple[Log, int]:
    """Return a log of LOG_BYTES before compression, entirely durable, and its number of records."""
    config = TopicConfig(
        cleanup_policy=("compact",), segment_bytes=SEGMENT_BYTES, write_caching=True
    )
    log = logs.open_log(name, 0, TOPIC_ID, config, 0, create=True)
    chance = random.Random(1)
    per_batch = max(1, BATCH_BYTES // record_bytes)
    count = LOG_BYTES // record_bytes
    half = chance.randbytes(record_bytes // 2).hex().encode()[: record_bytes - 20]
    for first in range(0, count, per_batch):
        records = [
            Record(0, NOW + n, b"key-%09d" % chance.randrange(count * 2 // 3), half)
            for n in range(first, min(count, first + per_batch))
        ]
        log.append(memoryview(build(records, codec=codec)), NOW)
    log.roll(NOW)
    for begin, finish in (
        (log.begin_flush, log.finish_flush),
        (log.begin_checkpoint, log.finish_checkpoint),
    ):
        job = begin()
        assert job is not None
        job.run()
        finish(job, None)  # type: ignore[arg-type]
    return log, count


async def drive(steps: Steps) -> None:
    """Run the steps as the broker does."""
    while True:
        try:
            job = next(steps)
        except StopIteration:
            return
        assert job is not None
        await asyncio.to_thread(job)


async def lateness(until: asyncio.Task[None]) -> list[float]:
    """Sleep a millisecond again and again; return by how much each sleep was longer."""
    late = []
    while not until.done():
        started = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - started) * 1000 - 1)
    return late


async def bench(log: Log, proceed: Callable[[int], None]) -> tuple[float, list[float]]:
    """Return the seconds of one pass, and how late the loop was meanwhile, sorted."""
    limits = PassLimits(
        map_bytes_max=128 * MIB,
        map_load_factor=0.9,
        decompressed_bytes_max=128 * MIB,
        salt=os.urandom(16),
        proceed=proceed,
    )
    started = time.perf_counter()
    task = asyncio.create_task(drive(compact(log, find_cleanable(log, NOW), limits, NOW)))
    late = await lateness(task)
    await task
    return time.perf_counter() - started, sorted(late)


def main() -> None:
    interpreter.announce()
    directory = tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None)
    out = sys.stdout.write
    try:
        logs = manager(os.path.join(directory, "data"))
        for record_bytes, codec in CASES:
            log, count = filled(logs, f"t{record_bytes}-{codec}", record_bytes, codec)
            before = log.size_bytes
            pace = CleanerPace(SystemClock(), lambda: 1e308)
            rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            seconds, late = asyncio.run(bench(log, pace.breath()))
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - rss) // 1024
            out(
                f"{record_bytes:6} bytes {CODECS[codec]:6} {before / MIB / seconds:6.1f} MiB/s on "
                f"disk, {LOG_BYTES / MIB / seconds:6.1f} unpacked, {seconds / count * 1e6:5.2f} us "
                f"a record, {before / MIB:5.1f} -> {log.size_bytes / MIB:5.1f} MiB; "
                f"loop late by p50 {late[len(late) // 2]:.2f}, p99 "
                f"{late[len(late) * 99 // 100]:.2f}, max {late[-1]:.2f} ms; memory + {grown} MiB\n"
            )
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
