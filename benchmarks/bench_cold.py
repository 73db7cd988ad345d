"""The cost of reading a log from the disk, once and again: `python -m benchmarks.bench_cold`.

Fetches of 1 MiB, one in flight, over new files of 512 MiB each: filled, dropped from the page
cache and read, then dropped and read again, the brokers in turn. The extra cost of the first
reading is not the disk's: on a virtual machine the first use of idle memory is expensive for any
process. Prints CPU-s/GB and MB/s. `--other DIR` adds another checkout, before this one, and
`--kafka` Apache Kafka 4.3.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import interpreter, load, servers
from benchmarks.bench import MIB, Bench
from benchmarks.servers import DEFAULT_DIRECTORY, Server

FILES = 5
BATCHES = 512 * MIB // (16 << 10)


def read(server: Server, topic: str, stored: load.Stored) -> tuple[float, float]:
    """Read the topic once, cold; return CPU-s/GB and MB/s."""
    server.drop_cached(topic)
    line = load.FetchLine(server.port, topic, 0, size_max=MIB, stored=stored)
    run = load.Run([line])
    size = BATCHES * stored.batch_size
    before, begun = server.cpu_seconds(), time.perf_counter()
    try:
        run.until(lambda: line.size >= size)
    finally:
        run.close()
    taken = time.perf_counter() - begun
    return (server.cpu_seconds() - before) / (size / 1e9), size / 1e6 / taken


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row for each broker and reading."""
    interpreter.announce()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_cold", description=__doc__)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--other", type=Path, help="the checkout of before")
    parser.add_argument("--files", type=int, default=FILES)
    options = parser.parse_args(argv)
    place = DEFAULT_DIRECTORY / "cold"
    shutil.rmtree(place, ignore_errors=True)
    brokers = {"this": servers.barnabas(place / "barnabas", write_caching=True)}
    if options.other is not None:
        checkout = options.other.resolve()
        before = servers.barnabas(place / "before", write_caching=True, checkout=checkout)
        brokers = {"before": before, **brokers}
    if options.kafka:
        brokers["kafka"] = servers.kafka(place / "kafka")
    bench = Bench()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    try:
        for server in brokers.values():
            server.start()
        for _ in range(options.files):
            for name, server in brokers.items():
                topic = bench.topic()
                server.create_topic(topic, 1)
                stored = load.fill(
                    server.port, topic, bench.batch_16k, bench.records_16k, count=BATCHES
                )
                for reading in ("once", "again"):
                    figure = read(server, topic, stored)
                    found.setdefault((name, reading), []).append(figure)
                server.delete_topic(topic)
    finally:
        for server in brokers.values():
            server.kill()
        shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write("| broker | reading | CPU-s/GB | from | to | MB/s |\n")
    sys.stdout.write("|---|---|---:|---:|---:|---:|\n")
    for (name, reading), figures in found.items():
        cpu, rate = zip(*figures, strict=True)
        shown = " | ".join(f"{one:.2f}" for one in (statistics.median(cpu), min(cpu), max(cpu)))
        sys.stdout.write(f"| {name} | {reading} | {shown} | {statistics.median(rate):,.0f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
