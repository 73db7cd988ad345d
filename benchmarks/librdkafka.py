"""librdkafka as a load, one process a run: `python -m benchmarks.librdkafka MODE --port PORT …`.

    produce   COUNT records of SIZE bytes, until all are acknowledged; on CONNECTIONS producers
    consume   COUNT records from the beginning of partition 0, assigned, without a group
    latency   records at RATE a second for SECONDS, consumed by a second process, each one timed

Prints one line of JSON. The client is confluent-kafka with librdkafka's defaults, except where the
options differ; a refused or lost record is an error, not a figure.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import struct
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

BATCH = 10_000
TICK_SECONDS = 0.001
WAIT_SECONDS_MAX = 60.0
WARM_SHARE = 0.2


class Lost(Exception):
    """A record was not acknowledged or did not arrive; the text says how many did."""


class Counting:
    """Counts acknowledgements; raises at the first refusal."""

    def __init__(self) -> None:
        self.acked = 0
        self.refused: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: object) -> None:
        """librdkafka's report on one record."""
        if error is not None:
            self.refused = error
        self.acked += 1


def producer(options: argparse.Namespace) -> Producer:
    """Return a producer with these options."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{options.port}",
        "acks": options.acks,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 256 << 10,
    }
    if options.one_record:
        settings |= {
            "batch.num.messages": 1,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": options.in_flight,
        }
    return Producer(settings)


def consumer(port: int, topic: str, *, from_end: bool = False) -> Consumer:
    """Return a consumer of partition 0 from its beginning, or from its current end."""
    made = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "bench",
            "enable.auto.commit": False,
        }
    )
    offset = 0
    if from_end:
        _, offset = made.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS_MAX)
    made.assign([TopicPartition(topic, 0, offset)])
    return made


def drain(producers: Sequence[Producer], counting: Counting, count: int) -> None:
    """Wait until every record is acknowledged."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while counting.acked < count and time.monotonic() < deadline:
        for one in producers:
            one.poll(0.001)
    if counting.refused is not None or counting.acked < count:
        raise Lost(f"{counting.acked} of {count} acknowledged, {counting.refused}")


def send(one: Producer, topic: str, value: bytes, report: Callable[..., None]) -> None:
    """Pass one record to librdkafka, and wait while its queue is full."""
    while True:
        try:
            one.produce(topic, value, partition=0, on_delivery=report)
            return
        except BufferError:
            one.poll(0.01)


def produce(options: argparse.Namespace) -> dict[str, float]:
    """Produce on every connection in turn; all are connected before the clock starts."""
    value = bytes((7 * position) % 251 for position in range(options.size))
    producers = [producer(options) for _ in range(options.connections)]
    warm = Counting()
    for one in producers:
        send(one, options.topic, value, warm)
    drain(producers, warm, len(producers))
    counting = Counting()
    queued_max = options.in_flight * 20 if options.one_record else 1 << 30
    begun = time.perf_counter()
    for number in range(options.count):
        one = producers[number % len(producers)]
        send(one, options.topic, value, counting)
        if number % 100 == 0 or len(one) > queued_max:
            one.poll(0)
        while len(one) > queued_max:
            one.poll(0.001)
    drain(producers, counting, options.count)
    return {"seconds": time.perf_counter() - begun}


def consume(options: argparse.Namespace) -> dict[str, float]:
    """Read COUNT records; the clock starts at the first."""
    reading = consumer(options.port, options.topic)
    found, begun = 0, 0.0
    while found < options.count:
        records = reading.consume(min(BATCH, options.count - found), WAIT_SECONDS_MAX)
        if not records:
            raise Lost(f"{found} of {options.count} records")
        begun = begun or time.perf_counter()
        if any(record.error() is not None for record in records):
            raise Lost(next(str(r.error()) for r in records if r.error() is not None))
        found += len(records)
    seconds = time.perf_counter() - begun
    reading.close()
    return {"seconds": seconds}


def receive(port: int, topic: str, pipe: Connection) -> None:
    """Time every record until the one with timestamp 0; send back (arrival, latency) in seconds."""
    reading = consumer(port, topic, from_end=True)
    pipe.send("assigned")
    timed: list[tuple[float, float]] = []
    while True:
        record = reading.poll(WAIT_SECONDS_MAX)
        if record is None or record.error() is not None:
            pipe.send(None)
            return
        (sent,) = struct.unpack_from(">q", record.value())
        if sent == 0:
            break
        now = time.monotonic_ns()
        if sent > 0:
            timed.append((now / 1e9, (now - sent) / 1e9))
        elif not timed:
            pipe.send("ready")
    pipe.send(timed)
    reading.close()


def latency(options: argparse.Namespace) -> dict[str, float]:
    """Send at the rate (0: as fast as possible) and collect the other process's times."""
    ours, theirs = multiprocessing.Pipe()
    arguments = (options.port, options.topic, theirs)
    reader = multiprocessing.get_context("fork").Process(target=receive, args=arguments)
    reader.start()
    if not ours.poll(WAIT_SECONDS_MAX) or ours.recv() != "assigned":
        raise Lost("the consumer could not look up the end of the topic")
    one = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{options.port}",
            "acks": options.acks,
            "linger.ms": 0 if options.rate else 5,
        }
    )
    counting = Counting()
    padding = bytes(92)
    send(one, options.topic, struct.pack(">q", -1) + padding, counting)  # the reader is ready
    one.flush(WAIT_SECONDS_MAX)
    if not ours.poll(WAIT_SECONDS_MAX) or ours.recv() != "ready":
        raise Lost("the consumer got nothing")
    count, begun = 0, time.perf_counter()
    while (passed := time.perf_counter() - begun) < options.seconds:
        due = int(passed * options.rate) if options.rate else count + 100
        for _ in range(count, due):
            send(one, options.topic, struct.pack(">q", time.monotonic_ns()) + padding, counting)
        count = due
        one.poll(0 if not options.rate else TICK_SECONDS)
    send(one, options.topic, bytes(100), counting)
    one.flush(WAIT_SECONDS_MAX)
    timed = ours.recv()
    reader.join()
    if timed is None or len(timed) != count or counting.refused is not None:
        raise Lost(f"{len(timed or ())} of {count} arrived, {counting.refused}")
    measured = timed[int(count * WARM_SHARE) :]
    ordered = sorted(value for _, value in measured)
    took = timed[-1][0] - timed[0][0]
    return {
        "rate": count / took,
        "p50": statistics.median(ordered),
        "p99": ordered[int(0.99 * len(ordered))],
        "p999": ordered[int(0.999 * len(ordered))],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run one mode and print its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.librdkafka", description=__doc__)
    modes = {"produce": produce, "consume": consume, "latency": latency}
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=5)
    parser.add_argument("--one-record", type=int, default=0)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args(argv)
    sys.stdout.write(json.dumps(modes[options.mode](options)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
