"""The time of a restart with many partitions: `python -m benchmarks.restart`.

Creates PARTITIONS partitions with a few records each, then stops and starts the broker in turn,
cleanly (SIGTERM) and by SIGKILL. For each it prints the seconds of the stop, and the seconds from
the start of the process to its first ApiVersions answer and to the last record of the last
partition fetched. `--kafka` does the same with Apache Kafka 4.3. `--gib` first enlarges the logs
to this total, below their recovery points: sparse files, whose batches have real headers.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import frames, interpreter, load, servers
from benchmarks.frames import LoadError
from benchmarks.servers import DEFAULT_DIRECTORY, Server

PARTITIONS_A_TOPIC = 50
RECORDS = 10
SPARSE_BYTES = 1024 * 1024  # of one batch
HEADER_SIZE = 61


def fill(server: Server, partitions: int) -> list[str]:
    """Create the topics, with one batch in every partition (acks 1)."""
    topics = [f"topic-{number}" for number in range(partitions // PARTITIONS_A_TOPIC)]
    batch = frames.record_batch([b"x" * 100] * RECORDS, time.time_ns() // 1_000_000)
    for topic in topics:
        server.create_topic(topic, PARTITIONS_A_TOPIC)
        _, error_at = frames.produced_layout(topic)
        with load.connect(server.port) as sock:
            for partition in range(PARTITIONS_A_TOPIC):
                answer = load.exchange(sock, frames.produce(topic, partition, batch, 1))
                if struct.unpack_from(">h", answer, error_at)[0]:
                    raise LoadError(f"a Produce request failed: {answer[:96].hex()}")
    return topics


def enlarge(data: Path, size_bytes: int) -> int:
    """Append batches that are holes except for their headers to every log; return the end offset.

    For a directory that was stopped cleanly; it stays a cleanly stopped one.
    """
    logs = sorted(data.glob("topic-*/00000000000000000000.log"))
    count = max(1, size_bytes // len(logs) // SPARSE_BYTES)
    for path in logs:
        with path.open("r+b") as file:
            header = bytearray(file.read(HEADER_SIZE))
            position = path.stat().st_size
            for number in range(count):
                struct.pack_into(">qi", header, 0, RECORDS * (number + 1), SPARSE_BYTES - 12)
                file.seek(position + number * SPARSE_BYTES)
                file.write(header)
            file.truncate(position + count * SPARSE_BYTES)
    end = RECORDS * (count + 1)
    checkpoint = data / "recovery-point-offset-checkpoint"
    head, *rows = checkpoint.read_text().splitlines()
    rows = [f"{row.rsplit(' ', 1)[0]} {end}" if row.startswith("topic-") else row for row in rows]
    checkpoint.write_text("\n".join([head, *rows]) + "\n")
    return end


def fetch_last(server: Server, topic: str) -> None:
    """Fetch the last record of the last partition, waiting until it has a leader."""
    ask, _ = frames.fetch(topic, PARTITIONS_A_TOPIC - 1, RECORDS - 1, 1 << 20, 0)
    deadline = time.perf_counter() + 60
    with load.connect(server.port) as sock:
        while True:
            try:
                if frames.fetched(memoryview(load.exchange(sock, ask)), topic)[1]:
                    return
            except LoadError:
                if time.perf_counter() > deadline:
                    raise
            time.sleep(0.002)


def measure(server: Server, end: Callable[[], None], topic: str, rounds: int) -> list[float]:
    """Return medians of the seconds to stop, to the first answer, to the last record fetched."""
    rows = []
    for _ in range(rounds):
        begun = time.perf_counter()
        end()
        ended = time.perf_counter() - begun
        begun = server.launch()
        fetch_last(server, topic)
        rows.append((ended, server.first_answer_seconds, time.perf_counter() - begun))
        time.sleep(1.5)  # checkpoints are written once a second
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print one row for each way of stopping."""
    interpreter.announce()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart", description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gib", type=int, default=0, help="size of all logs, not with --kafka")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY)
    options = parser.parse_args(argv)
    place = options.directory / "restart"
    shutil.rmtree(place, ignore_errors=True)
    if options.kafka:
        server = servers.kafka(place)
    else:
        server = servers.barnabas(place, write_caching=False)
    out = sys.stdout
    try:
        begun = server.launch()
        topics = fill(server, options.partitions)
        made = time.perf_counter() - begun
        out.write(f"{server.name}, {options.partitions} partitions made in {made:.1f} s\n\n")
        if options.gib:
            server.stop()
            enlarge(place / "data", options.gib << 30)
            server.launch()
        out.write("| end | to end, s | start to first answer, s | to last record, s |\n")
        out.write("|---|---:|---:|---:|\n")
        for name, end in (("SIGTERM", server.stop), ("SIGKILL", server.kill)):
            ended, answer, record = measure(server, end, topics[-1], options.rounds)
            out.write(f"| {name} | {ended:.2f} | {answer:.2f} | {record:.2f} |\n")
    finally:
        server.kill()
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
