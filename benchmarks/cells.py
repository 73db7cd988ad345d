"""The cells of the comparison: the load of each, its durability, and its goals.

A cell creates a topic of its own, runs one load against it, deletes the topic, and returns
metric -> value. Cells run by `rank`, and within one in the order of CELLS, so an interrupted run
has the important ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch

from benchmarks import frames, raw
from benchmarks.bench import MIB, Bench, Figures
from benchmarks.crowds import FanOut, IdleConnections, Spread
from benchmarks.metrics import (
    CPU_GB,
    CPU_REQUEST,
    FIRST_ACK,
    IDLE,
    MB_S,
    RECORDS_S,
    UNBOUND,
)
from benchmarks.raw import RawFetch, RawLatency, RawProduce, RawRequests
from benchmarks.servers import Server
from benchmarks.tools import (
    Consume,
    EndToEnd,
    EndToEndTool,
    LibrdkafkaProduce,
    OneRecord,
    Produce,
)

ACKS_ALL = frames.ACKS_ALL
CPU_16K, CPU_1M, CPU_FETCH, CPU_SMALL = 3.5, 2.0, 0.35, 12.0  # for Barnabas: CPU-s/GB, µs a request
PRODUCE_CPU = 0.6  # as a share of Kafka's, below the best of the others
LIFE = {FIRST_ACK: 0.1, IDLE: 0.1}
FSYNCED_BATCHES = {MB_S: 2.0}
FSYNCED_REQUESTS = {RECORDS_S: 10.0}


@dataclass(frozen=True, eq=False)
class Cell:
    """One load.

    `fsynced` compares Kafka's flush per message with our durable default; otherwise both use the
    page cache. `durable_too` measures our durable default beside the page cache as well. `goals`
    are bounds of Barnabas / Kafka that are not 1, `bounds` those of our own figure; `limit` names
    the matching measurement of benchmarks.limits. `rank`: 1 runs first.
    """

    name: str
    title: str
    load: Callable[[Server, Bench, str], Figures] | None
    group: str
    partitions: int = 1
    fsynced: bool = False
    durable_too: bool = False
    rank: int = 2
    goals: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    limit: str = ""

    def goal(self, metric: str) -> float | None:
        """Return the goal for Barnabas / Kafka: a minimum for a rate, a maximum for anything else.

        None for metrics without a goal.
        """
        return None if metric in UNBOUND else self.goals.get(metric, 1.0)

    def configs(self) -> dict[str, str]:
        """The configs of Kafka's topic; they set log.flush.interval.messages for it alone."""
        return {"flush.messages": "1"} if self.fsynced else {}

    def run(self, server: Server, bench: Bench, *, kafka: bool) -> Figures:
        """Run it once on a fresh topic."""
        assert self.load is not None, f"{self.name} runs on processes of its own"
        topic = bench.topic()
        server.create_topic(topic, self.partitions, self.configs() if kafka else {})
        try:
            return self.load(server, bench, topic)
        finally:
            server.delete_topic(topic)


def _grid() -> list[Cell]:
    """kafka-producer-perf-test: record size x batch x acks x codec, and acks=all with fsync."""
    made = []
    for size, size_name in ((100, "100 B"), (1024, "1 KiB")):
        for batch, batch_name in ((16384, "16 KiB"), (MIB, "1 MiB")):
            for codec in ("none", "lz4"):
                for acks in ("1", "all", "0"):
                    core = codec == "none" and (size, acks) in ((100, "1"), (1024, "all"))
                    made.append(
                        Cell(
                            f"produce-{size}-{batch_name.replace(' ', '')}-{acks}-{codec}",
                            f"{size_name} records, {batch_name} batches, acks {acks}, {codec}",
                            Produce(size, batch, acks, codec),
                            "produce",
                            goals={CPU_GB: PRODUCE_CPU},
                            durable_too=core,
                            rank=1 if core else 4 if codec == "none" else 5,
                        )
                    )
            made.append(
                Cell(
                    f"produce-{size}-{batch_name.replace(' ', '')}-fsync",
                    f"{size_name} records, {batch_name} batches, acks all, none, fsync",
                    Produce(size, batch, "all", fsynced=True),
                    "produce",
                    fsynced=True,
                    goals={CPU_GB: PRODUCE_CPU, **FSYNCED_BATCHES},
                    rank=2 if size == 1024 else 4,
                )
            )
    made.append(
        Cell(
            "produce-librdkafka",
            "librdkafka with its defaults, 1 KiB records, acks all",
            LibrdkafkaProduce(),
            "produce",
            goals={CPU_GB: PRODUCE_CPU},
            durable_too=True,
        )
    )
    return made


def _partitions() -> list[Cell]:
    return [
        Cell(
            f"partitions-{count}",
            f"kafka-producer-perf-test over {count:,} partitions, 1 KiB, 16 KiB, acks all",
            Produce(),
            "partitions",
            partitions=count,
            rank=3 if count < 1000 else 5,
        )
        for count in (1, 100, 1000)
    ]


def _requests() -> list[Cell]:
    """One record a request: librdkafka, and prebuilt frames where clients would limit the rate."""
    made = []
    shapes = ((1, 1), (1, 5), (100, 5))
    for acks in ("1", "all"):
        fsynced = acks == "all"
        for connections, in_flight in shapes:
            name = f"{connections}x{in_flight}{'-fsync' if fsynced else ''}"
            title = f"{connections} connection{'s' * (connections > 1)}, {in_flight} in flight"
            title += f" each, acks {acks}{', fsync' if fsynced else ''}"
            goals = FSYNCED_REQUESTS if fsynced else {}
            one = OneRecord(acks, connections, in_flight)
            frames_one = RawRequests(ACKS_ALL if fsynced else 1, connections, 1, in_flight)
            rank = 1 if connections == 1 else 2
            limit = "answer, two cores" if (connections, in_flight, acks) == (1, 1, "1") else ""
            made += [
                Cell(
                    f"one-{name}", f"librdkafka: {title}", one, "requests",
                    fsynced=fsynced, rank=rank, goals=goals, limit=limit,
                ),
                Cell(
                    f"raw-one-{name}", f"frames: {title}", frames_one, "requests",
                    fsynced=fsynced, rank=rank, goals=goals, limit=limit,
                ),
            ]  # fmt: skip
    made.append(
        Cell(
            "raw-one-10x5-spread-fsync", "frames: 10 connections, a partition each, all, fsync",
            RawRequests(ACKS_ALL, 10, 10), "requests", partitions=10, fsynced=True,
            goals=FSYNCED_REQUESTS,
        )
    )  # fmt: skip
    return made


def _consume() -> list[Cell]:
    return [
        Cell("consume-hot", "kafka-consumer-perf-test, 1 KiB records, hot", Consume(), "consume",
             rank=1, limit="send"),
        Cell("consume-100-hot", "kafka-consumer-perf-test, 100 B records, hot", Consume(100),
             "consume", limit="send"),
        Cell("consume-cold", "kafka-consumer-perf-test, 1 KiB records, cold",
             Consume(cold=True), "consume", rank=1, limit="read cold"),
        Cell("consume-librdkafka", "librdkafka, 1 KiB records, hot",
             Consume(by_librdkafka=True), "consume", limit="send"),
        Cell("consume-librdkafka-cold", "librdkafka, 1 KiB records, cold",
             Consume(cold=True, by_librdkafka=True), "consume", rank=3, limit="read cold"),
        Cell("fan-out", "frames: 50 consumers of one topic while it is written", FanOut(),
             "consume", rank=3),
    ]  # fmt: skip


def _latency() -> list[Cell]:
    return [
        Cell("e2e-tool", "kafka-e2e-latency, acks 1", EndToEndTool(), "latency", rank=2),
        Cell("e2e-tool-fsync", "kafka-e2e-latency, acks all, fsync", EndToEndTool("all"),
             "latency", fsynced=True, rank=3),
        Cell("e2e-1000", "librdkafka, 1,000 records/s, acks all", EndToEnd(1000), "latency",
             rank=1),
        Cell("e2e-1000-fsync", "librdkafka, 1,000 records/s, acks all, fsync", EndToEnd(1000),
             "latency", fsynced=True, rank=2),
        Cell("e2e-80", "librdkafka, 80 % of Kafka's peak, acks all", EndToEnd(0), "latency",
             rank=2),
        Cell("raw-one", "frames: one request in flight, acks 1", RawLatency(), "latency"),
        Cell("raw-one-fsync", "frames: one request in flight, acks all, fsync",
             RawLatency(ACKS_ALL), "latency", fsynced=True),
        Cell("raw-waiting", "frames: produce to a fetch that waits", raw.waiting, "latency"),
        Cell("idle-connections", "frames: one request in flight beside 1,000 idle connections",
             IdleConnections(), "latency", rank=3),
    ]  # fmt: skip


def _raw() -> list[Cell]:
    """Prebuilt frames, which measure the broker only."""
    return [
        Cell("raw-16k", "16 KiB batches of 100 B, acks 1", RawProduce(), "raw", partitions=2,
             durable_too=True, rank=1, goals={CPU_GB: PRODUCE_CPU}, limit="receive and write",
             bounds={CPU_GB: CPU_16K}),
        Cell("raw-1m", "1 MB batches of 100 B, acks 1", RawProduce(large=True), "raw",
             partitions=2, durable_too=True, rank=1, goals={CPU_GB: PRODUCE_CPU},
             limit="receive and write",
             bounds={CPU_GB: CPU_1M}),
        Cell("raw-1m-all", "1 MB batches of 100 B, acks all",
             RawProduce(large=True, acks=ACKS_ALL), "raw", partitions=2, durable_too=True,
             goals={CPU_GB: PRODUCE_CPU}, limit="receive and write",
             bounds={CPU_GB: CPU_1M}),
        Cell("raw-1m-fsync", "1 MB batches of 100 B, acks all, fsync",
             RawProduce(large=True, acks=ACKS_ALL), "raw", partitions=2, fsynced=True,
             goals={CPU_GB: PRODUCE_CPU, **FSYNCED_BATCHES}, limit="write to disk",
             bounds={CPU_GB: CPU_1M}),
        Cell("raw-16k-fsync", "16 KiB batches of 100 B, acks all, fsync",
             RawProduce(acks=ACKS_ALL), "raw", partitions=2, fsynced=True,
             goals={CPU_GB: PRODUCE_CPU, **FSYNCED_BATCHES}, limit="write to disk",
             bounds={CPU_GB: CPU_16K}),
        Cell("raw-small", "one record a request, 10 connections, 5 in flight, acks 1",
             RawRequests(), "raw", rank=1,
             bounds={CPU_REQUEST: CPU_SMALL}),
        Cell("raw-fetch-1m", "fetch, 1 MiB a request", RawFetch(MIB), "raw", rank=1, limit="send",
             bounds={CPU_GB: CPU_FETCH}),
        Cell("raw-fetch-16k", "fetch, one 16 KiB batch a request", RawFetch(), "raw", rank=1,
             limit="send"),
        Cell("raw-spread-1000", "one record a request over 1,000 partitions, acks 1",
             Spread(1000), "partitions", partitions=1000, rank=4),
    ]  # fmt: skip


GROUPS = {
    "life": "Start and memory",
    "produce": "Produce, by Kafka's own tool",
    "requests": "One record a request",
    "consume": "Consume",
    "latency": "Latency",
    "partitions": "Many partitions",
    "raw": "Prebuilt frames: the broker alone",
}
LIFE_CELL = Cell("life", "a fresh process on a fresh directory", None, "life", rank=0, goals=LIFE)
CELLS = (
    LIFE_CELL, *_grid(), *_raw(), *_requests(), *_consume(), *_latency(), *_partitions(),
)  # fmt: skip


def chosen(patterns: str) -> list[Cell]:
    """Return the cells for comma-separated names or patterns, in that order, or all by rank.

    Raises SystemExit for a pattern without a match.
    """
    wanted = [pattern for pattern in patterns.split(",") if pattern]
    for pattern in wanted:
        if not any(fnmatch(cell.name, pattern) for cell in CELLS):
            names = ", ".join(cell.name for cell in CELLS)
            raise SystemExit(f"no such cell: {pattern}; there are {names}")
    if not wanted:
        return sorted(CELLS, key=lambda cell: cell.rank)
    found = {cell: None for pattern in wanted for cell in CELLS if fnmatch(cell.name, pattern)}
    return list(found)
