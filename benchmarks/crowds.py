"""Loads with many clients: consumers of one topic, idle connections, partitions, as frames.

Client libraries would need more threads than a machine has cores for these, and they would limit
the rate; the frames of benchmarks.load, in one thread, replace them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import frames, load
from benchmarks.bench import MIB, Bench, Figures
from benchmarks.load import FetchLine, ProduceLine, Run, Stored
from benchmarks.metrics import CPU_GB, CPU_REQUEST, LOAD_SHARE, MB_S, P50, P99, RECORDS_S
from benchmarks.servers import Server

AHEAD = 16  # batches between the producer and the slowest consumer, at most
NEVER = 1 << 62
WAIT_MS = 30_000


@dataclass(frozen=True)
class FanOut:
    """One producer of 16 KiB batches, and consumers that each read all of it."""

    consumers: int = 50

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """MB/s and CPU of outgoing data; the producer waits for the slowest consumer."""
        batch, records = bench.batch_16k, bench.records_16k
        endless = Stored(len(batch), records, NEVER)
        tails = [
            FetchLine(server.port, topic, 0, size_max=MIB, stored=endless, wait_ms=WAIT_MS)
            for _ in range(self.consumers)
        ]
        producer = ProduceLine(server.port, frames.produce(topic, 0, batch, 1), topic, AHEAD)
        producer.limit = AHEAD
        lines: list[ProduceLine | FetchLine] = [producer, *tails]
        run = Run(lines)

        def let_on() -> None:
            slowest = min(tail.size for tail in tails) // len(batch)
            if slowest + AHEAD > producer.limit:
                producer.limit = slowest + AHEAD
                run.nudge(producer)

        run.each_turn = let_on
        try:
            window = load.measure(
                run,
                lambda: sum(tail.size for tail in tails),
                warm_seconds=0.5 * bench.scale,
                seconds=bench.seconds,
                server_cpu=server.cpu_seconds,
            )
        finally:
            run.close()
        return {
            MB_S: window.size / window.seconds / 1e6,
            CPU_GB: window.server_cpu_seconds / (window.size / 1e9),
            LOAD_SHARE: window.client_cpu_seconds / window.seconds,
        }


@dataclass(frozen=True)
class IdleConnections:
    """Many idle connections that have sent one request, and one active connection."""

    connections: int = 1000

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Measure their memory, and the latency of one request in flight beside them."""
        before, _ = server.memory_bytes()
        with ExitStack() as stack:
            for _ in range(self.connections):
                sock = stack.enter_context(load.connect(server.port))
                load.exchange(sock, frames.api_versions())
            after, _ = server.memory_bytes()
            window = load.one_in_flight(
                server.port,
                topic,
                bench.one_record,
                acks=1,
                count=max(200, int(3000 * bench.scale)),
                server_cpu=server.cpu_seconds,
            )
        ordered = sorted(window.latencies)
        return {
            "KiB a connection": max(0.0, (after - before) / 1024 / self.connections),
            P50: ordered[len(ordered) // 2] * 1e3,
            P99: ordered[int(0.99 * len(ordered))] * 1e3,
        }


class CycleLine(ProduceLine):
    """One connection whose requests cycle through a list of frames of one size."""

    def __init__(self, port: int, made: Sequence[bytes], topic: str, in_flight: int) -> None:
        super().__init__(port, made[0], topic, in_flight)
        self._cycle = itertools.cycle(made)

    def next_burst(self, count: int) -> bytes:
        """The next frames of the list."""
        return b"".join(itertools.islice(self._cycle, count))


@dataclass(frozen=True)
class Spread:
    """One-record requests over many partitions, ten connections with five in flight each."""

    partitions: int = 1000
    acks: int = 1
    connections: int = 10

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Return requests a second, and the broker's CPU for one request."""
        lines: list[ProduceLine] = []
        for number in range(self.connections):
            mine = range(number, max(self.partitions, self.connections), self.connections)
            made = [
                frames.produce(topic, index % self.partitions, bench.one_record, self.acks)
                for index in mine
            ]
            lines.append(CycleLine(server.port, made, topic, 5))
        window = load.run_produce(
            lines,
            warm_seconds=0.5 * bench.scale,
            seconds=bench.seconds,
            server_cpu=server.cpu_seconds,
        )
        return {
            RECORDS_S: window.count / window.seconds / 1e3,
            CPU_REQUEST: window.server_cpu_seconds / window.count * 1e6,
            LOAD_SHARE: window.client_cpu_seconds / window.seconds,
        }
