"""The cells of the comparison: what each load is, and which figures it gives.

A cell creates a topic of its own, runs one load of benchmarks.load against it, deletes the topic,
and returns metric -> value. Shapes: the batch loads use CONNECTIONS connections, each to a
partition of its own, with IN_FLIGHT requests in flight a connection; the one-record loads use ten
connections to one partition (one row: ten partitions) with five in flight each, as five is the
limit within which idempotent producers keep their order.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks import frames, load
from benchmarks.load import Window
from benchmarks.servers import Server

CONNECTIONS = 2
IN_FLIGHT = 5
SMALL_CONNECTIONS = 10
KIB, MIB = 1 << 10, 1 << 20
BATCH_16K = 16 * KIB
BATCH_1M = 1_000_000  # below max.message.bytes, 1,048,588
FETCH_FILL_BYTES = 256 * MIB
SECONDS = 3.0
WARM_SECONDS = 0.5
LATENCY_COUNT = 3000
WAITING_COUNT = 1500
PARK_SECONDS = 0.0005
HIGHER_IS_BETTER = frozenset(("MB/s", "k requests/s"))
LOAD_SHARE = "load client CPU share"  # near 1 the client would be what is measured
INFORMATIVE = frozenset((LOAD_SHARE,))

Figures = dict[str, float]


@dataclass
class Bench:
    """What all cells share: the scale of durations, and prebuilt batches."""

    scale: float = 1.0
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.batch_16k, self.records_16k = frames.filled_batch(100, BATCH_16K, now_ms)
        self.batch_1m, self.records_1m = frames.filled_batch(100, BATCH_1M, now_ms)
        self.one_record = frames.record_batch([bytes(100)], now_ms)

    def topic(self) -> str:
        """A name that was not used before."""
        return f"bench-{next(self._numbers)}"


@dataclass(frozen=True)
class Cell:
    """One load; `fsynced` compares Kafka's flush per message with our durable default."""

    name: str
    title: str
    load: Callable[[Server, Bench, str], Figures] | None = None
    partitions: int = 1
    fsynced: bool = False

    def run(self, server: Server, bench: Bench, configs: Mapping[str, str]) -> Figures:
        """Run it once on a fresh topic."""
        assert self.load is not None, f"{self.name} is measured by itself"
        topic = bench.topic()
        server.create_topic(topic, self.partitions, configs)
        figures = self.load(server, bench, topic)
        server.delete_topic(topic)
        return figures


def _percentile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def _bulk(window: Window) -> Figures:
    return {
        "MB/s": window.size / window.seconds / 1e6,
        "CPU-s/GB": window.server_cpu_seconds / (window.size / 1e9),
        LOAD_SHARE: window.client_cpu_seconds / window.seconds,
    }


def _requests(window: Window) -> Figures:
    return {
        "k requests/s": window.count / window.seconds / 1e3,
        "CPU us/request": window.server_cpu_seconds / window.count * 1e6,
        LOAD_SHARE: window.client_cpu_seconds / window.seconds,
    }


def _latency(window: Window) -> Figures:
    ordered = sorted(window.latencies)
    return {
        "p50 ms": statistics.median(ordered) * 1e3,
        "p99 ms": _percentile(ordered, 0.99) * 1e3,
    }


def _produce(
    server: Server,
    bench: Bench,
    topic: str,
    batch: bytes,
    acks: int,
    connections: int = CONNECTIONS,
    partitions: int = CONNECTIONS,
) -> Window:
    return load.produce_load(
        server.port,
        topic,
        batch,
        acks=acks,
        connections=connections,
        partitions=partitions,
        in_flight=IN_FLIGHT,
        warm_seconds=WARM_SECONDS * bench.scale,
        seconds=SECONDS * bench.scale,
        server_cpu=server.cpu_seconds,
    )


def produce_16k(server: Server, bench: Bench, topic: str) -> Figures:
    """16 KiB batches, acks 1."""
    return _bulk(_produce(server, bench, topic, bench.batch_16k, 1))


def produce_1m(server: Server, bench: Bench, topic: str) -> Figures:
    """1 MB batches, acks 1."""
    return _bulk(_produce(server, bench, topic, bench.batch_1m, 1))


def produce_1m_all(server: Server, bench: Bench, topic: str) -> Figures:
    """1 MB batches, acks all."""
    return _bulk(_produce(server, bench, topic, bench.batch_1m, frames.ACKS_ALL))


def _small(server: Server, bench: Bench, topic: str, acks: int, partitions: int) -> Figures:
    batch, connections = bench.one_record, SMALL_CONNECTIONS
    return _requests(_produce(server, bench, topic, batch, acks, connections, partitions))


def small(server: Server, bench: Bench, topic: str) -> Figures:
    """One-record requests to one partition, acks 1."""
    return _small(server, bench, topic, 1, 1)


def small_all(server: Server, bench: Bench, topic: str) -> Figures:
    """One-record requests to one partition, acks all."""
    return _small(server, bench, topic, frames.ACKS_ALL, 1)


def small_all_spread(server: Server, bench: Bench, topic: str) -> Figures:
    """One-record requests, each connection to a partition of its own, acks all."""
    return _small(server, bench, topic, frames.ACKS_ALL, SMALL_CONNECTIONS)


def _one_in_flight(server: Server, bench: Bench, topic: str, acks: int) -> Figures:
    window = load.one_in_flight(
        server.port,
        topic,
        bench.one_record,
        acks=acks,
        count=max(100, int(LATENCY_COUNT * bench.scale)),
        server_cpu=server.cpu_seconds,
    )
    return _latency(window)


def one(server: Server, bench: Bench, topic: str) -> Figures:
    """One request in flight, acks 1."""
    return _one_in_flight(server, bench, topic, 1)


def one_all(server: Server, bench: Bench, topic: str) -> Figures:
    """One request in flight, acks all."""
    return _one_in_flight(server, bench, topic, frames.ACKS_ALL)


def waiting(server: Server, bench: Bench, topic: str) -> Figures:
    """Produce to a fetch that waits."""
    window = load.produce_to_waiting_fetch(
        server.port,
        topic,
        bench.one_record,
        pause_seconds=PARK_SECONDS,
        count=max(100, int(WAITING_COUNT * bench.scale)),
    )
    return _latency(window)


def _fetch(
    server: Server, bench: Bench, topic: str, *, batch: bytes, records: int, size_max: int
) -> Figures:
    count = max(8, int(FETCH_FILL_BYTES * min(1.0, bench.scale)) // len(batch))
    stored = load.fill(server.port, topic, batch, records, count=count)
    window = load.fetch_load(
        server.port,
        topic,
        stored,
        size_max=size_max,
        connections=CONNECTIONS,
        warm_seconds=WARM_SECONDS * bench.scale,
        seconds=SECONDS * bench.scale,
        server_cpu=server.cpu_seconds,
    )
    return _bulk(window)


def fetch_1m(server: Server, bench: Bench, topic: str) -> Figures:
    """1 MiB a request of 16 KiB batches."""
    batch, records = bench.batch_16k, bench.records_16k
    return _fetch(server, bench, topic, batch=batch, records=records, size_max=MIB)


def fetch_16k(server: Server, bench: Bench, topic: str) -> Figures:
    """One 16 KiB batch a request."""
    batch, records = bench.batch_16k, bench.records_16k
    return _fetch(server, bench, topic, batch=batch, records=records, size_max=BATCH_16K)


def warm(server: Server, bench: Bench, seconds: float) -> None:
    """Every path for `seconds` in all, so that a JVM has compiled what is measured later."""
    begun = time.perf_counter()
    brief = Bench(scale=bench.scale * 0.2)
    brief._numbers = bench._numbers  # noqa: SLF001
    while time.perf_counter() - begun < seconds:
        for cell in CELLS:
            cell.run(server, brief, {})


START = Cell(
    "start", "start on a fresh directory, to first answer and to first acknowledged record"
)
IDLE = Cell("idle", "memory idle")
LOADED = Cell("loaded", "memory after all loads")
CELLS = (
    Cell(
        "produce-16k",
        "produce 100 B records, 16 KiB batches, acks 1",
        produce_16k,
        partitions=CONNECTIONS,
    ),
    Cell(
        "produce-1m",
        "produce 100 B records, 1 MB batches, acks 1",
        produce_1m,
        partitions=CONNECTIONS,
    ),
    Cell(
        "produce-1m-all",
        "produce 100 B records, 1 MB batches, acks all",
        produce_1m_all,
        partitions=CONNECTIONS,
    ),
    Cell("small", "one-record requests, 10 connections, 5 in flight each, acks 1", small),
    Cell(
        "small-all",
        "one-record requests, acks all, fsynced (Kafka: flush.messages=1)",
        small_all,
        fsynced=True,
    ),
    Cell(
        "small-all-spread",
        "one-record requests, acks all, fsynced, spread over 10 partitions",
        small_all_spread,
        partitions=SMALL_CONNECTIONS,
        fsynced=True,
    ),
    Cell("one", "one request in flight, acks 1", one),
    Cell("one-all", "one request in flight, acks all, fsynced", one_all, fsynced=True),
    Cell("waiting-fetch", "produce to a waiting fetch", waiting),
    Cell("fetch-1m", "fetch, 1 MiB a request", fetch_1m),
    Cell("fetch-16k", "fetch, one 16 KiB batch a request", fetch_16k),
)
