"""TLS beside Apache Kafka's: `python -m benchmarks.tls`.

CPU of the broker for each byte of Produce and Fetch over TLS 1.3, in batches of 16 KiB and 1 MB;
for each handshake, with P-256 and RSA-2048; and the memory of many idle connections. One client
process with one connection and one request in flight, which checks each answer; Barnabas writes to
the page cache, as Kafka does. Brokers run one after the other, and each cell warms up first, Kafka
for longer: its compiler costs more than its requests in the first seconds.
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
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import frames, interpreter, load, servers
from benchmarks.bench import Bench
from benchmarks.servers import Server
from tests.interop.oracle.kafka import KafkaNode, OracleMissingError, free_ports
from tests.support.certificates import Authority

NAMES: Final = {"SSL": "P-256", "RSA": "RSA-2048"}
MAP: Final = "PLAINTEXT:PLAINTEXT,SSL:SSL,RSA:SSL,CONTROLLER:PLAINTEXT"
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
    end = time.perf_counter() + broker.warm_seconds
    while time.perf_counter() < end:
        step()
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


def bytes_cells(broker: Tls, bench: Bench, seconds: float) -> dict[str, str]:
    """CPU for each byte."""
    found = {}
    for name, batch, records in (
        ("16 KiB", bench.batch_16k, bench.records_16k),
        ("1 MB", bench.batch_1m, bench.records_1m),
    ):
        topic = f"t{len(batch)}"
        broker.server.create_topic(topic, 1)
        with broker.connect("SSL") as sock:
            one = timed(broker, produces(sock, topic, batch), seconds)
        found[f"produce {name}"] = shown(one)
        filled = f"f{len(batch)}"
        broker.server.create_topic(filled, 1)
        count = FILLED_BYTES // len(batch)
        load.fill(broker.server.port, filled, batch, records, count=count)
        size_max = len(batch) if name == "16 KiB" else 1 << 20
        with broker.connect("SSL") as sock:
            step = fetches(sock, filled, size_max, records, len(batch), count * records)
            found[f"fetch {name}"] = shown(timed(broker, step, seconds))
    return found


def shown(run: tuple[float, float, float]) -> str:
    """Return CPU seconds a gigabyte, and the rate."""
    size, seconds, cpu = run
    return f"{cpu / size * 1e9:.2f} s/GB ({size / seconds / 1e6:.0f} MB/s)"


def handshakes(broker: Tls, seconds: float) -> dict[str, str]:
    """CPU for each handshake, with a connection that begins and ends."""
    found = {}
    for name, key in NAMES.items():

        def step(name: str = name) -> int:
            broker.connect(name).close()
            return 1

        count, took, cpu = timed(broker, step, seconds)
        found[f"handshake {key}"] = f"{cpu / count * 1e3:.2f} ms ({count / took:.0f}/s)"
    return found


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


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="0: only idle ones")
    parser.add_argument("--idle", type=int, default=10_000, help="0: none")
    parser.add_argument("--only", default="", help="barnabas or kafka")
    given = parser.parse_args()
    interpreter.announce()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bench = Bench()
    table: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        authority = Authority(home / "certificates")
        context = ssl.create_default_context(cafile=authority.file)
        context.check_hostname = False
        for which in ("barnabas", "kafka"):
            if given.only not in ("", which):
                continue
            try:
                broker = made(which, home / which, authority, context)
            except OracleMissingError as missing:
                sys.stderr.write(f"no Apache Kafka to compare with: {missing}\n")
                continue
            broker.server.start()
            try:
                rows = {}
                if given.seconds:
                    rows |= bytes_cells(broker, bench, given.seconds)
                    rows |= handshakes(broker, given.seconds)
                if given.idle:
                    rows |= idle(broker, given.idle)
            finally:
                broker.server.stop()
            for row, figure in rows.items():
                table.setdefault(row, {})[broker.server.name] = figure
            sys.stderr.write(f"{broker.server.name}: {rows}\n")
    sides = list(dict.fromkeys(side for row in table.values() for side in row))
    sys.stdout.write(f"| CPU of the broker | {' | '.join(sides)} |\n|---|{'---|' * len(sides)}\n")
    for row, figures in table.items():
        sys.stdout.write(f"| {row} | {' | '.join(figures.get(one, '') for one in sides)} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
