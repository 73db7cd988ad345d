"""Loads by third-party programs: Kafka's own performance tools, and librdkafka.

Each load is one run of such a program as a process, against one broker, on a topic that the cell
created. The figure is what the program prints. The broker's CPU over the whole run comes from
/proc, minus its idle use over the same time, as a run is short and the start of a JVM a large part
of it. The number of records is what Kafka took in the wanted seconds during its uncounted runs,
the same for both sides. MB and GB are powers of ten and count payload, without any
header.

The JVM of the tools gets the flags of Kafka's scripts for them; of a produce run a quarter is the
tool's own warm-up, which its rate leaves out.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks import frames, load
from benchmarks.bench import Bench, Figures
from benchmarks.metrics import CPU_GB, CPU_REQUEST, LOAD_SHARE, MB_S, P50, P99, P999, RECORDS_S
from benchmarks.servers import CHECKOUT, Server
from tests.interop.oracle.kafka import java

# bin/kafka-producer-perf-test.sh and its like: 512 MiB, and the flags of kafka-run-class.sh.
TOOL_FLAGS = (
    "-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip
WARM_SHARE = 0.25
FIRST_BYTES, FIRST_REQUESTS = 4_000_000, 1_000  # of the first run, which measures the rate
LEAST_SECONDS_BYTES = 20_000_000  # at least a second of a run, as a JVM starts slowly
CONSUMED_BYTES_MAX = 1_000_000_000  # the first run is short, and its rate unreliable
TOOL_SECONDS_MAX = 300.0
STEADY = re.compile(r"(\d+) steady state records sent, ([\d.]+) records/sec")
AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")


class ToolError(Exception):
    """A program failed, or printed no figures; the text carries its output."""


@dataclass(frozen=True)
class Ran:
    """One run of a program: its output, its duration, and both ends' CPU."""

    output: str
    seconds: float
    server_cpu_seconds: float
    client_cpu_seconds: float

    @property
    def client_share(self) -> float:
        """The program's share of all cores."""
        return self.client_cpu_seconds / self.seconds / (os.cpu_count() or 1)


def run(command: list[str], server: Server) -> Ran:
    """Run a program to its end; raises ToolError if it fails or hangs."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, begun = server.cpu_seconds(), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOOL_SECONDS_MAX,
        check=False,
    )
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise ToolError(f"{command[-12:]}: {(done.stdout + done.stderr)[-1500:]}")
    used = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    served = server.cpu_seconds() - cpu - server.idle_cpu_share * seconds
    return Ran(done.stdout, seconds, max(0.0, served), used)


def tool(name: str, server: Server, *arguments: str) -> Ran:
    """Run one of Kafka's tools against the broker."""
    address = ("--bootstrap-server", f"127.0.0.1:{server.port}")
    command = java(f"org.apache.kafka.tools.{name}", *address, *arguments, flags=TOOL_FLAGS)
    return run(command, server)


def librdkafka(server: Server, mode: str, **options: float | str) -> tuple[Ran, dict[str, float]]:
    """Run benchmarks.librdkafka in one of its modes; it prints its figures as JSON."""
    command = [sys.executable, "-m", "benchmarks.librdkafka", mode, "--port", str(server.port)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    ran = run(command, server)
    figures: dict[str, float] = json.loads(ran.output.splitlines()[-1])
    return ran, figures


def bulk(ran: Ran, bytes_a_second: float, size: float) -> Figures:
    """The figures of a stream of `size` bytes of payload."""
    return {
        MB_S: bytes_a_second / 1e6,
        CPU_GB: ran.server_cpu_seconds / (size / 1e9),
        LOAD_SHARE: ran.client_share,
    }


@dataclass(frozen=True)
class Produce:
    """kafka-producer-perf-test.sh without a throttle."""

    record_size: int = 1024
    batch_size: int = 16384
    acks: str = "all"
    codec: str = "none"
    fsynced: bool = False

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Produce for about bench.seconds; MB/s once steady, CPU over the whole run."""
        count = bench.count(self, FIRST_BYTES // self.record_size)
        if not self.fsynced and bench.rate(self) is not None:
            least = int(LEAST_SECONDS_BYTES * bench.seconds) // self.record_size
            count = max(count, least)
        ran = tool(
            "ProducerPerformance", server, "--topic", topic, "--num-records", str(count),
            "--warmup-records", str(int(count * WARM_SHARE)), "--throughput", "-1",
            "--record-size", str(self.record_size), "--command-property", f"acks={self.acks}",
            f"batch.size={self.batch_size}", f"compression.type={self.codec}",
        )  # fmt: skip
        found = STEADY.search(ran.output)
        if found is None:
            raise ToolError(ran.output[-1500:])
        rate = float(found[2])
        bench.learn(self, rate)
        return bulk(ran, rate * self.record_size, count * self.record_size)


@dataclass(frozen=True)
class Consume:
    """kafka-consumer-perf-test.sh, or librdkafka, over a topic filled before with 16 KiB batches.

    `cold` drops every page of the topic from the page cache first, and verifies it.
    """

    record_size: int = 1024
    cold: bool = False
    by_librdkafka: bool = False

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Read everything; the rate excludes joining the group."""
        count = bench.count(self, FIRST_BYTES // self.record_size)
        count = min(count, CONSUMED_BYTES_MAX // self.record_size)
        count = fill(server, topic, self.record_size, count)
        if self.cold:
            server.drop_cached(topic)
        size = count * self.record_size
        if self.by_librdkafka:
            ran, figures = librdkafka(server, "consume", topic=topic, count=count)
            rate = count / figures["seconds"]
        else:
            ran = tool(
                "ConsumerPerformance", server, "--topic", topic, "--num-records", str(count),
                "--hide-header", "--timeout", "60000",
            )  # fmt: skip
            columns = ran.output.strip().splitlines()[-1].split(", ")
            read, rate = int(columns[4]), float(columns[9])
            if read < count:
                raise ToolError(f"read {read} of {count} records: {ran.output[-500:]}")
        bench.learn(self, rate)
        return bulk(ran, rate * self.record_size, size)


def fill(server: Server, topic: str, record_size: int, count: int) -> int:
    """Fill partition 0 with 16 KiB batches of at least `count` records; returns how many."""
    batch, records = frames.filled_batch(record_size, 16384, time.time_ns() // 1_000_000)
    batches = -(-count // records)
    load.fill(server.port, topic, batch, records, count=batches)
    return batches * records


@dataclass(frozen=True)
class LibrdkafkaProduce:
    """librdkafka, through confluent-kafka, with its defaults except for the options."""

    record_size: int = 1024
    acks: str = "all"

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Produce as fast as one process can."""
        count = bench.count(self, FIRST_BYTES // self.record_size)
        ran, figures = librdkafka(
            server, "produce", topic=topic, count=count, size=self.record_size, acks=self.acks
        )
        rate = count / figures["seconds"]
        bench.learn(self, rate)
        return bulk(ran, rate * self.record_size, count * self.record_size)


@dataclass(frozen=True)
class OneRecord:
    """librdkafka with one record a request (batch.num.messages=1, linger.ms=0)."""

    acks: str = "1"
    connections: int = 1
    in_flight: int = 5

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Requests a second of all connections, and the broker's CPU for one."""
        count = bench.count(self, FIRST_REQUESTS)
        ran, figures = librdkafka(
            server, "produce", topic=topic, count=count, size=100, acks=self.acks,
            connections=self.connections, in_flight=self.in_flight, one_record=1,
        )  # fmt: skip
        rate = count / figures["seconds"]
        bench.learn(self, rate)
        return {
            RECORDS_S: rate / 1e3,
            CPU_REQUEST: ran.server_cpu_seconds / count * 1e6,
            LOAD_SHARE: ran.client_share,
        }


@dataclass(frozen=True)
class EndToEndTool:
    """kafka-e2e-latency.sh: one record at a time, from send() until poll() returns it.

    The tool's percentiles are whole milliseconds; its average is not.
    """

    acks: str = "1"

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """The average over the whole run, warming of the tool's JVM included."""
        count = bench.count(self, FIRST_REQUESTS)
        ran = tool(
            "EndToEndLatency", server, "--topic", topic, "--num-records", str(count),
            "--producer-acks", self.acks, "--record-size", "100",
        )  # fmt: skip
        found = AVERAGE.search(ran.output)
        if found is None:
            raise ToolError(ran.output[-1500:])
        bench.learn(self, 1000 / float(found[1]))
        return {"mean ms": float(found[1]), LOAD_SHARE: ran.client_share}


@dataclass(frozen=True)
class EndToEnd:
    """librdkafka: a producer at a fixed rate, a consumer in another process, each record timed.

    A rate of 0 stands for 80 % of what Kafka carried through the same pair of clients at full
    speed, in its uncounted run; both sides then get that rate.
    """

    rate: int = 1_000
    acks: str = "all"

    def __call__(self, server: Server, bench: Bench, topic: str) -> Figures:
        """Percentiles of the time from before produce() to after poll()."""
        rate = self.rate or self._rate_of_80_percent(server, bench, topic)
        ran, figures = librdkafka(
            server, "latency", topic=topic, rate=rate, seconds=bench.seconds, acks=self.acks
        )
        named = {P50: "p50", P99: "p99", P999: "p999"}
        shown = {metric: figures[name] * 1e3 for metric, name in named.items()}
        return {**shown, "records/s asked": rate, LOAD_SHARE: ran.client_share}

    def _rate_of_80_percent(self, server: Server, bench: Bench, topic: str) -> int:
        peak = bench.rate(self)
        if peak is None:
            _, figures = librdkafka(
                server, "latency", topic=topic, rate=0, seconds=bench.seconds, acks=self.acks
            )
            peak = figures["rate"]
            bench.learn(self, peak)
        return int(peak * 0.8)
