"""A plain client while 1,000 hostile ones are at work: `python -m benchmarks.hostile`.

The plain client produces one record after the other and measures the time of each answer, first
alone, then beside each kind of `benchmarks.hostile_clients`, of which another process keeps 1,000
at a time. A client that ends is replaced at once, so the broker is as busy as that process can make
it; its share of a core is printed beside the times.

Three processes share two cores, so a part of what is measured is the wait for a core. To tell it
apart, each kind also attacks a second broker, which the plain client does not use ("elsewhere"),
and the kernel tells how long the broker and the plain client were ready to run and did not, in
percent of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

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


def shown(times: list[float]) -> str:
    """Return three cells of the table: median, p99 and the longest."""
    p50, p99 = (times[int(len(times) * share)] for share in (0.5, 0.99))
    return f"{p50:.2f} | {p99:.2f} | {times[-1]:.1f}"


class House:
    """A broker with a plain listener, one with TLS, and one with logins."""

    def __init__(self, directory: Path) -> None:
        own = Authority(directory / "certificates").issue("broker", rsa_bits=2048)
        self.ports = dict(zip(GROUPS, free_ports(len(GROUPS)), strict=True))
        plain = free_ports(1)[0]
        opened = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        more = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},{opened}",
            "ssl.certificate": own.chain_file,
            "ssl.key": own.key_file,
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        }
        self.server = servers.barnabas(directory / "broker", write_caching=True, more=more)
        self.server.port = plain


class Beside(NamedTuple):
    """What is measured beside a crowd; shares are of the time."""

    times: list[float]
    begun: int  # clients of the crowd
    cpu: float  # of the broker
    waited: float  # of the broker's loop, for a core
    client_waited: float


def waited_s(pid: int | str) -> float:
    """Return how long the main thread of a process has been ready to run and did not."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def beside(
    house: House, group: str, kind: str, sock: socket.socket, frame: bytes, seconds: float
) -> Beside:
    """Measure a plain client beside a crowd at a broker."""
    words = [str(house.ports[group]), group, kind, str(seconds + 1)]
    pid = house.server.pid
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.hostile", "--attack", *words],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        time.sleep(0.7)
        cpu, waited, own = house.server.cpu_seconds(), waited_s(pid), waited_s("self")
        times = served(sock, frame, seconds)
        found = house.server.cpu_seconds() - cpu, waited_s(pid) - waited, waited_s("self") - own
        begun = int(process.communicate()[0])
    time.sleep(0.3)
    return Beside(times, begun, *(one / seconds for one in found))


def measure(directory: Path, seconds: float, only: str) -> None:
    """Print a table."""
    house, elsewhere = (House(directory / name) for name in ("one", "other"))
    with contextlib.ExitStack() as stack:
        for one in (house, elsewhere):
            stack.callback(one.server.stop)
            one.server.start()
        house.server.create_topic("t", 1)
        frame = frames.produce("t", 0, frames.record_batch([bytes(100)], 1), 1)
        sys.stdout.write(
            "| hostile clients | a second | p50, ms | p99 | max | broker's CPU | its waits"
            " | client's waits | elsewhere: p50 | p99 | max |\n|---|" + "--:|" * 10 + "\n"
        )
        with load.connect(house.server.port) as sock:
            served(sock, frame, 1)
            sys.stdout.write(f"| none | | {shown(served(sock, frame, seconds))}{' |' * 7}\n")
            for group, kinds in GROUPS.items():
                for kind in kinds:
                    if only not in f"{group} {kind}":
                        continue
                    there = beside(elsewhere, group, kind, sock, frame, seconds)
                    here = beside(house, group, kind, sock, frame, seconds)
                    shares = (here.cpu, here.waited, here.client_waited)
                    sys.stdout.write(
                        f"| {group}: {kind} | {here.begun / (seconds + 1):,.0f}"
                        f" | {shown(here.times)} | {' | '.join(f'{one:.0%}' for one in shares)}"
                        f" | {shown(there.times)} |\n"
                    )
                    sys.stdout.flush()


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
