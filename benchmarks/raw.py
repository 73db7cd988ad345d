"""Loads of prebuilt frames: one process, one thread, so that they measure the broker only.

Batch loads use two connections, each to a partition of its own, with five requests in flight a
connection, as five is the limit within which idempotent producers keep their order. The first
sixth of a run is warm-up and not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import load
from benchmarks.bench import BATCH_16K, MIB, Bench, Figures
from benchmarks.load import Window
from benchmarks.metrics import CPU_GB, CPU_REQUEST, LOAD_SHARE, MB_S, P50, P99, RECORDS_S
from benchmarks.servers import Server

CONNECTIONS = 2
IN_FLIGHT = 5
FETCH_FILL_BYTES = 256 * MIB
WARM_SECONDS = 0.5
LATENCY_COUNT = 3000
WAITING_COUNT = 1500
PARK_SECONDS = 0.0005


def bulk(window: Window) -> Figures:
    """The figures of a stream of batches; bytes count whole batches."""
    return {
        MB_S: window.size / window.seconds / 1e6,
        CPU_GB: window.server_cpu_seconds / (window.size / 1e9),
        LOAD_SHARE: window.client_cpu_seconds / window.seconds,
    }


def requests(window: Window) -> Figures:
    """The figures of many small requests."""
    return {
        RECORDS_S: window.count / window.seconds / 1e3,
        CPU_REQUEST: window.server_cpu_seconds / window.count * 1e6,
        LOAD_SHARE: window.client_cpu_seconds / window.seconds,
    }


def latency(window: Window) -> Figures:
    """Percentiles of requests that are sent one after the other."""
    ordered = sorted(window.latencies)
    return {P50: ordered[len(ordered) // 2] * 1e3, P99: ordered[int(0.99 * len(ordered))] * 1e3}


@dataclass(frozen=True)
class RawProduce:
    """Batches of 100 B records."""

    large: bool = False
    acks: int = 1

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Produce for bench.seconds."""
        batch = bench.batch_1m if self.large else bench.batch_16k
        shape = RawRequests(self.acks, CONNECTIONS, CONNECTIONS)
        return bulk(shape.produce(server, bench, topic, batch))


@dataclass(frozen=True)
class RawRequests:
    """Requests of one record of 100 B."""

    acks: int = 1
    connections: int = 10
    partitions: int = 1
    in_flight: int = IN_FLIGHT

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Produce for bench.seconds."""
        return requests(self.produce(server, bench, topic, bench.one_record))

    def produce(self, server: Server, bench: Bench, topic: str, batch: bytes) -> Window:
        """Produce `batch` over and over for bench.seconds."""
        return load.produce_load(
            server.port,
            topic,
            batch,
            acks=self.acks,
            connections=self.connections,
            partitions=self.partitions,
            in_flight=self.in_flight,
            warm_seconds=WARM_SECONDS * bench.scale,
            seconds=bench.seconds,
            server_cpu=server.cpu_seconds,
        )


@dataclass(frozen=True)
class RawLatency:
    """One request of one record in flight."""

    acks: int = 1

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Send a fixed number of requests, one after the other."""
        window = load.one_in_flight(
            server.port,
            topic,
            bench.one_record,
            acks=self.acks,
            count=max(100, int(LATENCY_COUNT * bench.scale)),
            server_cpu=server.cpu_seconds,
        )
        return latency(window)


def waiting(server: Server, bench: Bench, topic: str) -> Figures:
    """Produce to a waiting fetch."""
    window = load.produce_to_waiting_fetch(
        server.port,
        topic,
        bench.one_record,
        pause_seconds=PARK_SECONDS,
        count=max(100, int(WAITING_COUNT * bench.scale)),
    )
    return latency(window)


@dataclass(frozen=True)
class RawFetch:
    """Fetch a topic filled with 16 KiB batches, from the page cache."""

    size_max: int = BATCH_16K

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Read it over and over for bench.seconds."""
        batch, records = bench.batch_16k, bench.records_16k
        count = max(8, int(FETCH_FILL_BYTES * min(1.0, bench.scale)) // len(batch))
        stored = load.fill(server.port, topic, batch, records, count=count)
        window = load.fetch_load(
            server.port,
            topic,
            stored,
            size_max=self.size_max,
            connections=CONNECTIONS,
            warm_seconds=WARM_SECONDS * bench.scale,
            seconds=bench.seconds,
            server_cpu=server.cpu_seconds,
        )
        return bulk(window)
