"""The cost of a log in isolation: appends, reads, flushes, opening many, memory of an idle one.

    python -m benchmarks.bench_log [DIRECTORY]

Runs on the real file system, in a temporary directory (of DIRECTORY, if given). Appends are
compared with the system call and the checksum they cannot avoid; the rest is ours.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

from crc32c import crc32c

from benchmarks import interpreter
from config.topic import TopicConfig
from protocol.records import Record, build
from storage.files.os_filesystem import OsFileSystem
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def manager(directory: str) -> LogManager:
    opened = LogManager(
        OsFileSystem(), directory, ManagerSettings(random_bytes=os.urandom), lambda: NOW
    )
    opened.open()
    return opened


def batches(count: int, size: int, producer_id: int = -1) -> list[memoryview]:
    epoch, step = (0, 1) if producer_id >= 0 else (-1, 0)
    return [
        memoryview(
            build(
                [Record(0, NOW, None, b"x" * size)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=n if step else -1,
            )
        )
        for n in range(count)
    ]


def each_us(action: Callable[[memoryview], object], items: Iterable[memoryview]) -> float:
    taken = list(items)
    started = time.perf_counter()
    for item in taken:
        action(item)
    return (time.perf_counter() - started) / len(taken) * 1e6


def flush(log: Log) -> None:
    job = log.begin_flush()
    if job is not None:
        job.run()
        log.finish_flush(job, None)


def bench_append(log: Log, directory: str) -> None:
    fd = os.open(os.path.join(directory, "plain"), os.O_RDWR | os.O_CREAT)
    for size, producer_id in ((100, -1), (100, 7), (16_000, -1), (1_000_000, -1)):
        sent = batches(min(20_000, 200_000_000 // (size + 10_000)), size, producer_id)
        position = 0

        def plain(batch: memoryview) -> None:
            nonlocal position
            position += os.pwrite(fd, batch, position)

        write_us = each_us(plain, sent)
        crc_us = each_us(lambda batch: crc32c(batch[21:]), sent)
        append_us = each_us(lambda batch: log.append(batch, NOW), sent)
        kind = "idempotent" if producer_id >= 0 else "plain"
        print(
            f"append {size:>9,} bytes, {kind:<10}  {append_us:8.2f} us: pwrite {write_us:.2f}, "
            f"crc {crc_us:.2f}, ours {append_us - write_us - crc_us:.2f}"
        )
        flush(log)
    os.close(fd)


def bench_read(log: Log) -> None:
    offset, total = log.end_offset, 0.0
    sent = batches(10_000, 100)
    for batch in sent:
        log.append(batch, NOW)
        started = time.perf_counter()
        log.read(offset, 1 << 20)
        total += time.perf_counter() - started
        offset = log.end_offset
    print(f"read at the tail           {total / len(sent) * 1e6:8.2f} us")
    started = time.perf_counter()
    for _ in range(10_000):
        log.read(offset, 1 << 20)
    print(f"read at the end: nothing   {(time.perf_counter() - started) * 100:8.2f} us")
    started = time.perf_counter()
    for n in range(2_000):
        log.read(n * 7_919 % offset, 1 << 16)
    print(f"read anywhere, 64 KiB      {(time.perf_counter() - started) * 500:8.2f} us")


def bench_many(directory: str, count: int) -> None:
    logs = manager(directory)
    started = time.perf_counter()
    for n in range(count):
        logs.open_log("many", n, TOPIC_ID, TopicConfig(), 0, create=True)
    print(f"create {count} logs          {time.perf_counter() - started:8.2f} s")
    for log in logs.all():
        log.append(batches(1, 100, 7)[0], NOW)
        flush(log)
    started = time.perf_counter()
    logs.close(clean=True)
    print(f"close them                 {time.perf_counter() - started:8.2f} s")
    for clean in (True, False):
        before = _resident_bytes()
        logs = manager(directory)
        started = time.perf_counter()
        for n in range(count):
            logs.open_log("many", n, TOPIC_ID, TopicConfig(), 0)
        seconds = time.perf_counter() - started
        grown = (_resident_bytes() - before) / count / 1024
        print(
            f"open them, {'clean  ' if clean else 'unclean'}         {seconds:8.2f} s, "
            f"{grown:.1f} KiB each, {logs.home.files.descriptor_count} descriptors"
        )
        logs.abandon()


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    interpreter.announce()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    directory = tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        logs = manager(os.path.join(directory, "one"))
        log = logs.open_log("one", 0, TOPIC_ID, TopicConfig(write_caching=True), 0, create=True)
        bench_append(log, directory)
        bench_read(log)
        logs.abandon()
        bench_many(os.path.join(directory, "many"), 1_000)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
