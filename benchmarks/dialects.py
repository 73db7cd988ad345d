"""One-record produce through both dialects: `python -m benchmarks.dialects`.

One broker process with a listener of each; the same record goes to the same topic with acks 1, as

    kafka     Produce 13, the record in a batch, as a Kafka client sends it
    bin       the msgpack dialect, the same batch as one bin
    maps      the msgpack dialect, the record as a map, which the broker turns into a batch

with many requests in flight, and with one. Rounds alternate between the three; the table shows the
median of the rounds with the smallest and the largest, and the median of each round's ratio to
`kafka`. CPU is the broker process's, from /proc. Needs nothing but this repository.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgpack

from benchmarks import frames, interpreter, load
from benchmarks.results import spread
from benchmarks.servers import Server, barnabas
from tests.interop.oracle.kafka import free_ports

TOPIC = "dialects"
FORMS = ("kafka", "bin", "maps")
LOADS = {
    "10 connections, 5 in flight each": (10, 5),
    "1 connection, 1 in flight": (1, 1),
}
VALUE = bytes(range(100))
CORRELATION_ID = 100_000  # as after some time: five bytes in msgpack, four in Kafka's protocol
SUCCESS = msgpack.packb("error_code") + b"\0"


class MsgpackLine(load.ProduceLine):
    """A connection whose answers differ in size: an offset has no fixed width in msgpack."""

    def receive(self) -> None:
        """Read the available answers; raises LoadError for any that is not a success."""
        data = self.sock.recv(load.RECEIVE_SIZE)
        if not data:
            raise frames.LoadError("the broker closed the connection")
        self._received += data
        position = 0
        while len(self._received) - position >= 4:
            end = position + 4 + struct.unpack_from(">I", self._received, position)[0]
            if end > len(self._received):
                break
            if self._received.find(SUCCESS, position, end) < 0:
                raise frames.LoadError(f"Produce failed: {bytes(self._received[position:end])!r}")
            self.acked += 1
            position = end
        del self._received[:position]


def msgpack_frame(api: str, body: dict[str, object]) -> bytes:
    """Return one request with its size."""
    packed: bytes = msgpack.packb([api, CORRELATION_ID, "bench", body])
    return struct.pack(">I", len(packed)) + packed


def topic_id(port: int) -> bytes:
    """Look up the id of the topic."""
    asked = msgpack_frame("metadata", {"topics": [{"name": TOPIC}]})
    with load.connect(port) as sock:
        answer = msgpack.unpackb(load.exchange(sock, asked)[4:])[1]
    found: bytes = answer["topics"][0]["topic_id"]
    return found


def lines(
    form: str, ports: dict[str, int], connections: int, in_flight: int
) -> list[load.ProduceLine]:
    """Connect; each connection has the request that it will send over and over."""
    batch = frames.record_batch([VALUE], time.time_ns() // 1_000_000)
    topic = topic_id(ports["msgpack"])
    if form == "kafka":
        frame, line, port = (
            frames.produce(topic, 0, batch, acks=1),
            load.ProduceLine,
            ports["kafka"],
        )
    else:
        partition = {"index": 0, "records": batch if form == "bin" else [{"value": VALUE}]}
        topics = [{"topic_id": topic, "partition_data": [partition]}]
        body = {"acks": 1, "timeout_ms": 30_000, "topic_data": topics}
        frame, line, port = msgpack_frame("produce", body), MsgpackLine, ports["msgpack"]
    return [line(port, frame, topic, in_flight) for _ in range(connections)]


def measure(server: Server, made: list[load.ProduceLine], seconds: float) -> tuple[float, float]:
    """Run one load; return the broker's CPU in microseconds per request, and requests/s."""
    window = load.run_produce(
        made, warm_seconds=0.3, seconds=seconds, server_cpu=server.cpu_seconds
    )
    return window.server_cpu_seconds / window.count * 1e6, window.count / window.seconds


def rows(name: str, found: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Format the rows of one load."""
    made = []
    for form in FORMS:
        cpu = [value for value, _ in found[form]]
        rate = [value / 1e3 for _, value in found[form]]
        ratio = [one / kafka for one, (kafka, _) in zip(cpu, found["kafka"], strict=True)]
        made.append(
            f"| {name} | {form} | {spread(cpu, '.1f')} | {spread(ratio, '.2f')} "
            f"| {spread(rate, '.1f')} |"
        )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Start a broker, alternate the loads, print a table."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args(argv)
    print("| load | form | broker CPU us/request | times kafka's | k requests/s |")
    print("|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as directory:
        (msgpack_port,) = free_ports(1)
        server = barnabas(Path(directory) / "broker", msgpack_port=msgpack_port)
        ports = {"kafka": server.port, "msgpack": msgpack_port}
        server.launch()
        try:
            server.create_topic(TOPIC, 1)
            for name, (connections, in_flight) in LOADS.items():
                found: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
                for number in range(options.rounds + 1):
                    for form in FORMS:
                        made = lines(form, ports, connections, in_flight)
                        figures = measure(server, made, options.seconds)
                        if number:  # the first round warms the broker
                            found[form].append(figures)
                print("\n".join(rows(name, found)), flush=True)
        finally:
            server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
