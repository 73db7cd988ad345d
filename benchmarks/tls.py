"""TLS beside Apache Kafka's: `python -m benchmarks.tls`.

CPU of the broker for each byte of Produce and Fetch over TLS 1.3, in batches of 16 KiB and 1 MB;
for each handshake, with P-256 and RSA-2048; and the memory of many idle connections. One client
process with one connection and one request in flight, which checks each answer; Barnabas writes to
the page cache, as Kafka does. Both brokers run, one works at a time, and their rounds alternate, in
a machine's noise that both share: told are the median rounds, and the median ratio of the pairs
with the smallest and the largest. Each cell warms up first, Kafka for longer: its compiler costs
more than its requests in the first seconds.
"""

from __future__ import annotations

import argparse
import resource
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import frames, interpreter, load, servers
from benchmarks.bench import Bench
from benchmarks.results import spread
from benchmarks.servers import Server
from tests.interop.oracle.kafka import KafkaNode, OracleMissingError, free_ports
from tests.support.certificates import Authority

NAMES: Final = {"SSL": "P-256", "RSA": "RSA-2048"}
MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,RSA:SSL,CONTROLLER:PLAINTEXT"
SMALL: Final = "16 KiB"
FILLED_BYTES: Final = 64 << 20
IDLE_SECONDS: Final = 5.0
WARM_SECONDS: Final = {"barnabas": 2.0, "kafka": 15.0}


class Tls:
    """A broker with a plain listener and two with TLS."""

    def __init__(
        self, which: str, server: Server, ports: dict[str, int], context: ssl.SSLContext
    ) -> None:
        self.server = server
        self.warm_seconds = WARM_SECONDS[which]
        self._ports = ports
        self._context = context

    def connect(self, name: str) -> ssl.SSLSocket:
        """Connect to a listener with TLS."""
        return self._context.wrap_socket(
            load.connect(self._ports[name]), server_hostname="localhost"
        )


def keys_of(authority: Authority) -> dict[str, str]:
    """Return the settings of the listeners with TLS, as both brokers know them."""
    found = {"listener.security.protocol.map": MAP}
    for name, rsa_bits in (("SSL", 0), ("RSA", 2048)):
        issued = authority.issue(f"broker-{name}", rsa_bits=rsa_bits)
        prefix = f"listener.name.{name.lower()}.ssl.keystore"
        found |= {f"{prefix}.type": "PEM", f"{prefix}.location": issued.store_file}
    return found


def made(which: str, directory: Path, authority: Authority, context: ssl.SSLContext) -> Tls:
    """Make a broker, not yet started."""
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    opened = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    settings = keys_of(authority)
    if which == "kafka":
        node = KafkaNode(directory, settings=settings)
        node.add_listeners(opened)
        server = Server("Apache Kafka 4.3", node.prepare(), node.port, node.data)
        return Tls(which, server, ports, context)
    port = free_ports(1)[0]
    settings["listeners"] = f"PLAINTEXT://127.0.0.1:{port},{opened}"
    server = servers.barnabas(directory, write_caching=True, more=settings)
    server.port = port
    return Tls(which, server, ports, context)


def timed(broker: Tls, step: Callable[[], int], seconds: float) -> tuple[float, float, float]:
    """Repeat a step; return its sum, the seconds, and the CPU seconds of the broker."""
    cpu, begun, total = broker.server.cpu_seconds(), time.perf_counter(), 0
    while (now := time.perf_counter()) < begun + seconds:
        total += step()
    return total, now - begun, broker.server.cpu_seconds() - cpu


def produces(sock: socket.socket, topic: str, batch: bytes) -> Callable[[], int]:
    """One Produce request."""
    frame = frames.produce(topic, 0, batch, 1)
    _, error_at = frames.produced_layout(topic)

    def step() -> int:
        answer = load.exchange(sock, frame)
        assert answer[error_at : error_at + 2] == b"\0\0", answer[:96].hex()
        return len(batch)

    return step


def fetches(
    sock: socket.socket, topic: str, size_max: int, records: int, batch_bytes: int, end: int
) -> Callable[[], int]:
    """One Fetch request after the other, over and over."""
    frame, offset_at = frames.fetch(topic, 0, 0, size_max, 500)
    offset = 0
    buffer = bytearray(size_max + batch_bytes + 4096)
    view = memoryview(buffer)

    def step() -> int:
        nonlocal offset
        struct.pack_into(">q", frame, offset_at, offset)
        sock.sendall(frame)
        filled, wanted = 0, 4
        while filled < wanted:
            filled += sock.recv_into(view[filled:])
            if wanted == 4 <= filled:
                wanted = 4 + struct.unpack_from(">i", buffer)[0]
        position, size = frames.fetched(view[:filled], topic)
        assert struct.unpack_from(">q", buffer, position)[0] == offset
        offset += size // batch_bytes * records
        if offset >= end:
            offset = 0
        return size

    return step


class Cell(NamedTuple):
    """What is measured of both brokers: how a step is made, and how a run of them is told."""

    title: str
    step: Callable[[Tls, Bench], Callable[[], int]]
    told: Callable[[float, float, float], str]


def produce_cell(size: str) -> Cell:
    """Produce requests of one batch."""

    def step(broker: Tls, bench: Bench) -> Callable[[], int]:
        batch, _ = batch_of(bench, size)
        topic = f"t{len(batch)}"
        broker.server.create_topic(topic, 1)
        return produces(broker.connect("SSL"), topic, batch)

    return Cell(f"produce {size}", step, per_byte)


def fetch_cell(size: str) -> Cell:
    """Fetch requests of one batch, or of 1 MiB."""

    def step(broker: Tls, bench: Bench) -> Callable[[], int]:
        batch, records = batch_of(bench, size)
        topic = f"f{len(batch)}"
        broker.server.create_topic(topic, 1)
        count = FILLED_BYTES // len(batch)
        load.fill(broker.server.port, topic, batch, records, count=count)
        size_max = len(batch) if size == SMALL else 1 << 20
        sock = broker.connect("SSL")
        return fetches(sock, topic, size_max, records, len(batch), count * records)

    return Cell(f"fetch {size}", step, per_byte)


def handshake_cell(name: str) -> Cell:
    """Connections that begin and end."""

    def step(broker: Tls, _: Bench) -> Callable[[], int]:
        def one() -> int:
            broker.connect(name).close()
            return 1

        return one

    return Cell(f"handshake {NAMES[name]}", step, per_handshake)


def batch_of(bench: Bench, size: str) -> tuple[bytes, int]:
    """Return a batch, and how many records it has."""
    if size == SMALL:
        return bench.batch_16k, bench.records_16k
    return bench.batch_1m, bench.records_1m


def per_byte(size: float, seconds: float, cpu: float) -> str:
    """Return CPU seconds a gigabyte, and the rate."""
    return f"{cpu / size * 1e9:.2f} s/GB ({size / seconds / 1e6:.0f} MB/s)"


def per_handshake(count: float, seconds: float, cpu: float) -> str:
    """Return CPU a handshake, and the rate."""
    return f"{cpu / count * 1e3:.2f} ms ({count / seconds:.0f}/s)"


CELLS: Final = (
    *(make(size) for size in (SMALL, "1 MB") for make in (produce_cell, fetch_cell)),
    *map(handshake_cell, NAMES),
)


def measured(
    cell: Cell, brokers: list[Tls], bench: Bench, rounds: int, seconds: float
) -> list[str]:
    """Return a cell of each broker, and ours by Kafka's, after their warm-up."""
    steps = [cell.step(broker, bench) for broker in brokers]
    for broker, step in zip(brokers, steps, strict=True):
        timed(broker, step, broker.warm_seconds)
    found: list[list[tuple[float, float, float]]] = [[] for _ in brokers]
    for number in range(rounds):
        order = range(len(brokers)) if number % 2 else reversed(range(len(brokers)))
        for at in order:
            found[at].append(timed(brokers[at], steps[at], seconds))
    row = [
        cell.told(*sorted(runs, key=lambda run: run[2] / run[0])[len(runs) // 2]) for runs in found
    ]
    if len(found) > 1:
        ratios = [
            (ours[2] / ours[0]) / (theirs[2] / theirs[0])
            for ours, theirs in zip(*found, strict=True)
        ]
        row.append(spread(ratios))
    return row


def idle(broker: Tls, count: int) -> dict[str, str]:
    """Memory and CPU of connections that say nothing."""
    _, before = broker.server.memory_bytes()
    held = [broker.connect("SSL") for _ in range(count)]
    time.sleep(1)
    _, after = broker.server.memory_bytes()
    cpu = broker.server.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    share = (broker.server.cpu_seconds() - cpu) / IDLE_SECONDS
    for sock in held:
        sock.close()
    return {
        f"{count:,} idle, memory": f"{(after - before) / count / 1024:.1f} KiB each",
        f"{count:,} idle, CPU": f"{share:.1%} of a core",
    }


def start(
    only: str, home: Path, authority: Authority, context: ssl.SSLContext, started: list[Tls]
) -> None:
    """Start each broker that there is; those that have started are in `started` at once."""
    for which in ("barnabas", "kafka"):
        if only not in ("", which):
            continue
        try:
            broker = made(which, home / which, authority, context)
        except OracleMissingError as missing:
            sys.stderr.write(f"no Apache Kafka to compare with: {missing}\n")
            continue
        broker.server.start()
        started.append(broker)


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=5, help="of each cell; 0: only idle ones")
    parser.add_argument("--cells", default="", help="only those with this in their name")
    parser.add_argument("--idle", type=int, default=10_000, help="0: none")
    parser.add_argument("--only", default="", help="barnabas or kafka")
    given = parser.parse_args()
    interpreter.announce()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bench = Bench()
    brokers: list[Tls] = []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        authority = Authority(home / "certificates")
        context = ssl.create_default_context(cafile=authority.file)
        context.check_hostname = False
        try:
            start(given.only, home, authority, context, brokers)
            sides = [broker.server.name for broker in brokers]
            columns = [*sides, "ratio"] if len(sides) > 1 else sides
            tell("CPU of the broker", columns)
            tell("---", ["---"] * len(columns))
            for cell in CELLS:
                if given.rounds and given.cells in cell.title:
                    tell(cell.title, measured(cell, brokers, bench, given.rounds, given.seconds))
            if given.idle:
                found = [idle(broker, given.idle) for broker in brokers]
                for row in found[0]:
                    tell(row, [one[row] for one in found])
        finally:
            for broker in brokers:
                broker.server.stop()
    return 0


def tell(row: str, figures: Sequence[str]) -> None:
    """Print a row."""
    sys.stdout.write(f"| {row} | {' | '.join(figures)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
