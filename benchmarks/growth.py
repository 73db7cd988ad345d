"""What grows with the log or with the partitions, and what must not grow.

    fetch    one batch by a random offset, and an offset by a random timestamp, on logs of 10 MB to
             50 GB; Barnabas alone, as it must be flat. The logs are sparse files: every batch is
             whole (one record of zeros, its true header, length, timestamp and CRC), the zeros are
             holes, so that 50 GB fit where there is less room; the broker has made their indexes
             before they are asked
    append   one-record requests over 1 to 5,000 partitions, acks 1, page cache
    start    restart after SIGTERM until the last record of the last partition was fetched

A point that is already in the results is not measured again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import crc32c

from benchmarks import frames, load, servers
from benchmarks.bench import Bench, Figures
from benchmarks.crowds import Spread
from benchmarks.frames import BATCH_BODY, BATCH_HEAD, LoadError
from benchmarks.metrics import RECORDS_S
from benchmarks.results import CACHED, KAFKA, Results
from benchmarks.servers import Server

Say = Callable[[str], None]

SIZES = {"10 MB": 10**7, "100 MB": 10**8, "1 GB": 10**9, "10 GB": 10**10, "50 GB": 5 * 10**10}
PARTITIONS = (1, 10, 100, 1000, 5000)
BATCH_SIZE = 256 << 10
BLOCK = 4096
SEGMENT_BYTES = 1 << 30
LOOK_UPS = 1000
ROUNDS = 3
TOPIC = "grown"
MENDED = {"barnabas.recovery.point.interval.ms": "100"}  # indexes, one segment at a time
MENDING_SECONDS_MAX = 300.0
FREE_MAX = 0.5  # the largest share of the free disk that a log's blocks may take


def sparse_batch(offset: int, timestamp_ms: int) -> bytes:
    """The first bytes of a batch of BATCH_SIZE whose one record is zeros; those are left out."""
    size = BATCH_SIZE - frames.BATCH_HEADER_SIZE
    # attributes, timestamp delta, offset delta, no key; lengths are varints of three bytes here
    head = b"\x00\x00\x00\x01" + frames.varint(size - 3 - 4 - 3 - 1)
    record = frames.varint(size - 3) + head
    body = BATCH_BODY.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + record
    zeros = bytes(BATCH_SIZE - BATCH_HEAD.size - len(body))
    checksum = crc32c.crc32c(zeros, crc32c.crc32c(body))
    return BATCH_HEAD.pack(offset, BATCH_SIZE - 12, 0, 2, checksum) + body


def grow(directory: Path, size: int, begin_ms: int) -> int:
    """Replace a partition's log by one of `size`, with the broker stopped; return its end.

    A batch is one offset and one second.
    """
    for path in directory.glob("0*"):
        path.unlink()
    a_segment = SEGMENT_BYTES // BATCH_SIZE
    end = max(1, size // BATCH_SIZE)
    for base in range(0, end, a_segment):
        file = os.open(directory / f"{base:020}.log", os.O_CREAT | os.O_WRONLY)
        for offset in range(base, min(end, base + a_segment)):
            head = sparse_batch(offset, begin_ms + 1000 * offset)
            os.pwrite(file, head, (offset - base) * BATCH_SIZE)
        os.ftruncate(file, (min(end, base + a_segment) - base) * BATCH_SIZE)
        os.fsync(file)
        os.close(file)
    checkpoint = directory.parent / "recovery-point-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()
    lines = [f"{TOPIC} 0 {end}" if line.startswith(f"{TOPIC} 0 ") else line for line in lines]
    checkpoint.write_text("\n".join(lines) + "\n")
    return end


def wait_for_indexes(directory: Path) -> None:
    """Wait until the broker has written the offset index of every segment but the active one."""
    deadline = time.monotonic() + MENDING_SECONDS_MAX
    for log in sorted(directory.glob("0*.log"))[:-1]:
        index = log.with_suffix(".index")
        while not (index.exists() and index.stat().st_size):
            if time.monotonic() > deadline:
                raise LoadError(f"{index} was not made in {MENDING_SECONDS_MAX:g} s")
            time.sleep(0.1)


def look_up(server: Server, end: int, begin_ms: int) -> Figures:
    """p50 and p99 of both look-ups, in ms, of batches that were all looked up once before."""
    fetch, offset_at = frames.fetch(TOPIC, 0, 0, 1, 0)
    chance = random.Random(9)  # the same offsets in every run
    found: dict[str, list[float]] = {"offset": [], "timestamp": []}
    places = [chance.randrange(end) for _ in range(LOOK_UPS)]
    with load.connect(server.port) as sock:
        for number, offset in enumerate(places * 2):
            struct.pack_into(">q", fetch, offset_at, offset)
            begun = time.perf_counter()
            answer = load.exchange(sock, fetch)
            fetched = time.perf_counter()
            position, _ = frames.fetched(memoryview(answer), TOPIC)
            base = struct.unpack_from(">q", answer, position)[0]
            ask = frames.list_offsets(TOPIC, 0, begin_ms + 1000 * offset)
            asked = time.perf_counter()
            told = frames.listed_offset(load.exchange(sock, ask), TOPIC)
            if (base, told) != (offset, offset):
                raise LoadError(f"asked for offset {offset}, got {base}, by timestamp {told}")
            if number >= LOOK_UPS:
                found["offset"].append(fetched - begun)
                found["timestamp"].append(time.perf_counter() - asked)
    figures = {}
    for name, seconds in found.items():
        ordered = sorted(seconds)
        figures[f"{name} p50 ms"] = ordered[len(ordered) // 2] * 1e3
        figures[f"{name} p99 ms"] = ordered[int(0.99 * len(ordered))] * 1e3
    return figures


def fetch_point(place: Path, size: int) -> Figures:
    """Both look-ups on a log of `size`; raises LoadError if the disk is too small."""
    blocks = size // BATCH_SIZE * BLOCK
    place.mkdir(parents=True, exist_ok=True)
    if blocks > FREE_MAX * shutil.disk_usage(place).free:
        raise LoadError(f"{blocks >> 20} MiB of blocks are more than half of the free disk")
    server = servers.barnabas(place, more=MENDED)
    begin_ms = time.time_ns() // 1_000_000 - 1000 * (size // BATCH_SIZE + 3600)
    try:
        server.launch()
        server.create_topic(TOPIC, 1, {"retention.ms": "-1"})
        load.fill(server.port, TOPIC, frames.record_batch([b"x"], begin_ms), 1, count=1)
        server.stop()
        end = grow(place / "data" / f"{TOPIC}-0", size, begin_ms)
        server.launch()
        wait_for_indexes(place / "data" / f"{TOPIC}-0")
        return look_up(server, end, begin_ms)
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)


def append_point(running: dict[str, Server], bench: Bench, partitions: int) -> dict[str, Figures]:
    """Median figures of both sides in turn, after one uncounted round."""
    topic = bench.topic()
    for server in running.values():
        server.create_topic(topic, partitions)
    found: dict[str, list[Figures]] = {side: [] for side in running}
    for number in range(ROUNDS + 1):
        for side, server in running.items():
            figures = Spread(partitions)(server, bench, topic)
            if number:
                found[side].append(figures)
    for server in running.values():
        server.delete_topic(topic)
    return {
        side: {metric: statistics.median(row[metric] for row in rows) for metric in rows[0]}
        for side, rows in found.items()
    }


def start_point(server: Server, partitions: int) -> Figures:
    """Seconds from the start of the process; every partition has a record. Medians."""
    server.launch()
    server.create_topic(TOPIC, partitions)
    batch = frames.record_batch([bytes(100)], time.time_ns() // 1_000_000)
    with load.connect(server.port) as sock:
        for partition in range(partitions):
            load.exchange(sock, frames.produce(TOPIC, partition, batch, 1))
    ask, _ = frames.fetch(TOPIC, partitions - 1, 0, 1 << 20, 0)
    rows = []
    for _ in range(ROUNDS):
        server.stop()
        begun = server.launch()
        while True:
            try:
                with load.connect(server.port) as sock:
                    if frames.fetched(memoryview(load.exchange(sock, ask)), TOPIC)[1]:
                        break
            except LoadError:
                time.sleep(0.002)
        rows.append((server.first_answer_seconds, time.perf_counter() - begun))
    answer, record = (statistics.median(column) for column in zip(*rows, strict=True))
    return {"first answer s": answer, "last record s": record}


class Growth:
    """The curves of one call: measures and saves the missing points, one by one."""

    def __init__(
        self, results: Results, place: Path, options: argparse.Namespace, deadline: float, say: Say
    ) -> None:
        self._results = results
        self._place = place
        self._options = options
        self._deadline = deadline
        self._say = say

    def point(self, curve: str, name: str, work: Callable[[], dict[str, Figures]]) -> None:
        """Measure one point unless it exists or time is up."""
        kept = self._results.part("growth") or {}
        if name in kept.get(curve, {}) or time.monotonic() > self._deadline:
            return
        self._say(f"growth, {curve}: {name}")
        try:
            kept.setdefault(curve, {})[name] = work()
        except Exception as error:
            self._say(f"  given up: {error}")
            return
        self._results.put("growth", kept)

    def fetch(self) -> None:
        """Logs of all sizes."""
        for name, size in SIZES.items():
            self.point("fetch", name, partial(self._look_ups, size))

    def append(self) -> None:
        """Both brokers in turn, for every number of partitions."""
        kept = (self._results.part("growth") or {}).get("append", {})
        if all(str(partitions) in kept for partitions in PARTITIONS):
            return
        running = {
            KAFKA: servers.kafka(self._place / "append-kafka"),
            CACHED: servers.barnabas(self._place / "append-cached", write_caching=True),
        }
        bench = Bench(self._options.seconds)
        try:
            for server in running.values():
                server.start()
            for count in PARTITIONS:
                self.point("append", str(count), partial(append_point, running, bench, count))
        finally:
            for server in running.values():
                server.stop()

    def start(self) -> None:
        """Each broker separately."""
        for count in PARTITIONS:
            self.point("start", str(count), partial(self._starts, count))

    def _look_ups(self, size: int) -> dict[str, Figures]:
        return {"durable": fetch_point(self._place / "fetch", size)}

    def _starts(self, partitions: int) -> dict[str, Figures]:
        found = {}
        for side, make in ((KAFKA, servers.kafka), ("durable", servers.barnabas)):
            place = self._place / f"start-{side}-{partitions}"
            server = make(place)
            try:
                found[side] = start_point(server, partitions)
            finally:
                server.kill()
                shutil.rmtree(place, ignore_errors=True)
        return found


def take(
    results: Results, place: Path, options: argparse.Namespace, deadline: float, say: Say
) -> None:
    """Measure the requested curves."""
    growth = Growth(results, place, options, deadline, say)
    curves = {"fetch": growth.fetch, "append": growth.append, "start": growth.start}
    asked = list(curves) if options.growth == "all" else options.growth.split(",")
    for name in asked:
        if name != "none":
            curves[name]()


def tables(results: Results) -> str:
    """Format the curves as Markdown."""
    kept = results.part("growth") or {}
    parts = []
    for curve, title in (
        ("fetch", "a log of"),
        ("append", "partitions, one-record requests"),
        ("start", "partitions, restart"),
    ):
        points = kept.get(curve, {})
        columns = [
            (side, metric)
            for side, figures in next(iter(points.values()), {}).items()
            for metric in figures
            if curve != "append" or metric in (RECORDS_S, "CPU us/request")
        ]
        if not columns:
            continue
        names = {"kafka": "Kafka", "cached": "Barnabas, page cache", "durable": "Barnabas"}
        lines = [f"| {title} | " + " | ".join(f"{names[s]}: {m}" for s, m in columns) + " |"]
        lines.append("|---|" + "---:|" * len(columns))
        for name, point in points.items():
            shown = [f"{point[side][metric]:.3g}" for side, metric in columns]
            lines.append(f"| {name} | " + " | ".join(shown) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
