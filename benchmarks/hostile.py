"""A plain client while 1,000 hostile ones are at work: `python -m benchmarks.hostile`.

The plain client produces one record after the other and measures the time of each answer, first
alone, then beside each kind of `benchmarks.hostile_clients`, of which another process keeps 1,000
at a time. A client that ends is replaced at once, so the broker is as busy as that process can make
it; its share of a core is printed beside the times.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import frames, hostile_clients, interpreter, load, servers
from benchmarks.hostile_clients import Crowd
from tests.interop.oracle.kafka import free_ports
from tests.support.certificates import Authority

AT_A_TIME: Final = 1_000
GROUPS: Final = {"SSL": hostile_clients.TLS, "SASL_PLAINTEXT": hostile_clients.LOGINS}


def attack(port: int, group: str, kind: str, seconds: float) -> int:
    """Keep clients of one kind for some time; print how many there were."""
    crowd = Crowd(port, {kind: GROUPS[group][kind]})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        crowd.connect(min(AT_A_TIME, crowd.now + 50))
        crowd.step(0.001 if crowd.now < AT_A_TIME else 0.01)
    crowd.close()
    sys.stdout.write(f"{crowd.begun}\n")
    return 0


def served(sock: socket.socket, frame: bytes, seconds: float) -> list[float]:
    """Return the sorted times of answers, in ms."""
    found = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        load.exchange(sock, frame)
        found.append((time.perf_counter() - begun) * 1e3)
    return sorted(found)


def row(name: str, times: list[float], cpu: float, seconds: float, begun: int) -> str:
    """Return a line of the table."""
    p50, p99 = (times[int(len(times) * share)] for share in (0.5, 0.99))
    rate = f"{begun / seconds:,.0f}" if begun else ""
    return f"| {name} | {rate} | {p50:.2f} | {p99:.2f} | {times[-1]:.1f} | {cpu / seconds:.0%} |\n"


def measure(directory: Path, seconds: float, only: str) -> None:
    """Print a table."""
    own = Authority(directory / "certificates").issue("broker", rsa_bits=2048)
    ports = dict(zip(GROUPS, free_ports(len(GROUPS)), strict=True))
    plain = free_ports(1)[0]
    opened = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},{opened}",
        "ssl.certificate": own.chain_file,
        "ssl.key": own.key_file,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    server = servers.barnabas(directory / "broker", write_caching=True, more=more)
    server.port = plain
    server.start()
    try:
        server.create_topic("t", 1)
        frame = frames.produce("t", 0, frames.record_batch([bytes(100)], 1), 1)
        sys.stdout.write("| hostile clients | a second | p50, ms | p99 | max | broker's CPU |\n")
        sys.stdout.write("|---|--:|--:|--:|--:|--:|\n")
        with load.connect(plain) as sock:
            served(sock, frame, 1)
            cpu = server.cpu_seconds()
            times = served(sock, frame, seconds)
            sys.stdout.write(row("none", times, server.cpu_seconds() - cpu, seconds, 0))
            for group, kinds in GROUPS.items():
                for kind in kinds:
                    if only not in f"{group} {kind}":
                        continue
                    words = [str(ports[group]), group, kind, str(seconds + 1)]
                    with subprocess.Popen(
                        [sys.executable, "-m", "benchmarks.hostile", "--attack", *words],
                        stdout=subprocess.PIPE,
                        text=True,
                    ) as process:
                        time.sleep(0.7)
                        cpu = server.cpu_seconds()
                        times = served(sock, frame, seconds)
                        used = server.cpu_seconds() - cpu
                        begun = int(process.communicate()[0])
                    name = f"{group}: {kind}"
                    sys.stdout.write(row(name, times, used, seconds + 1, begun))
                    sys.stdout.flush()
                    time.sleep(0.3)
    finally:
        server.stop()


def main() -> int:
    """Measure; with --attack, be the hostile clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attack", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="kinds whose name has this text")
    given = parser.parse_args()
    if given.attack:
        port, group, kind, seconds = given.attack
        return attack(int(port), group, kind, float(seconds))
    interpreter.announce()
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), given.seconds, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
