"""Whether the time of a refused login tells a client anything (`-m benchmarks.login_sockets`).

As `benchmarks.login_times`, but from outside: real sockets, a broker without the delay of failed
logins (`connection.failed.authentication.delay.ms=0`), and both logins of a pair by turns in a
random order. The answer to the last token is timed, and for SCRAM also that to the first.
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import interpreter, servers
from benchmarks.login_times import NEARLY, SECRET, TOLD_APART, USER, WRONG, z_of
from protocol.scram import HASHES, prove, read_server_first, salted_password, unproven_final
from tests.interop.oracle.kafka import free_ports

NOBODY: Final = "alicf"
WARM_UP: Final = 100
SEEN_NS: Final = 1_000
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Timed(NamedTuple):
    """The times of the answers to both tokens, in ns; 0 for a token that is not sent."""

    first: int
    last: int


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request without a client id."""
    data = struct.pack(">hhih", api_key, version, 7, -1) + body
    return struct.pack(">i", len(data)) + data


def asked(sock: socket.socket, request: bytes) -> tuple[bytes, int]:
    """Return an answer behind its correlation id, and its time."""
    begun = time.perf_counter_ns()
    sock.sendall(request)
    size = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))[0]
    took = time.perf_counter_ns() - begun
    return sock.recv(size, socket.MSG_WAITALL)[4:], took


def token(data: bytes) -> bytes:
    """Return a SaslAuthenticate request."""
    return frame(36, 1, struct.pack(">i", len(data)) + data)


def handshake(port: int, mechanism: str) -> socket.socket:
    """Return a connection that has chosen its mechanism."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    name = mechanism.encode()
    asked(sock, frame(17, 1, struct.pack(">h", len(name)) + name))
    return sock


def plain(port: int, user: str, password: str) -> Timed:
    """Fail to log in by PLAIN."""
    with handshake(port, "PLAIN") as sock:
        answer, took = asked(sock, token(f"\0{user}\0{password}".encode()))
    assert answer[:2] == b"\0\x3a", answer
    return Timed(0, took)


def scram(port: int, mechanism: str, salted: bytes, user: str, flipped: int) -> Timed:
    """Fail to log in by SCRAM, with one wrong byte in a proof that is right if the user exists."""
    bare = f"n={user},r=abc"
    with handshake(port, mechanism) as sock:
        answer, first = asked(sock, token(f"n,,{bare}".encode()))
        said = answer[8 : 8 + struct.unpack(">i", answer[4:8])[0]]
        right = prove(mechanism, salted, bare, said, unproven_final(read_server_first(said).nonce))
        proof = bytearray(right.proof)
        proof[flipped] ^= 1
        answer, last = asked(sock, token(right._replace(proof=bytes(proof)).message))
    assert answer[:2] == b"\0\x3a", answer
    return Timed(first, last)


def salted_of(port: int, mechanism: str) -> bytes:
    """Return the key of the user's password with the user's salt."""
    with handshake(port, mechanism) as sock:
        answer, _ = asked(sock, token(f"n,,n={USER},r=abc".encode()))
    said = read_server_first(answer[8 : 8 + struct.unpack(">i", answer[4:8])[0]])
    return salted_password(mechanism, SECRET, said.salt, said.iterations)


def measure(one: Callable[[], Timed], other: Callable[[], Timed], tries: int) -> list[list[Timed]]:
    """Return the times of both."""
    source = random.Random(1)
    order = [0, 1] * (tries + WARM_UP)
    source.shuffle(order)
    found: list[list[Timed]] = [[], []]
    for number, which in enumerate(order):
        timed = (one, other)[which]()
        if number >= 2 * WARM_UP:
            found[which].append(timed)
    return found


def row(name: str, one: list[int], other: list[int]) -> bool:
    """Print a row; return whether both are told apart."""
    medians = [statistics.median(each) / 1000 for each in (one, other)]
    z, difference_ns = z_of(one, other), (medians[1] - medians[0]) * 1000
    cells = f"{medians[0]:.2f} | {medians[1]:.2f} | {difference_ns:+.0f} | {z:+.2f}"
    sys.stdout.write(f"| {name} | {cells} |\n")
    sys.stdout.flush()
    return abs(z) > TOLD_APART and abs(difference_ns) > SEEN_NS


def compare(port: int, tries: int) -> bool:
    """Print the table; return whether a pair is told apart."""
    told = False
    for name, one, other in (
        ("unknown and known user", (NOBODY, WRONG), (USER, WRONG)),
        ("wrong and right prefix", (USER, WRONG), (USER, NEARLY)),
    ):
        found = measure(partial(plain, port, *one), partial(plain, port, *other), tries)
        told |= row(f"PLAIN: {name}", *([timed.last for timed in each] for each in found))
    for mechanism in HASHES:
        salted = salted_of(port, mechanism)
        for name, one, other in (
            ("unknown and known user", (NOBODY, 0), (USER, 0)),
            ("wrong and right prefix", (USER, 0), (USER, -1)),
        ):
            begin = partial(scram, port, mechanism, salted)
            found = measure(partial(begin, *one), partial(begin, *other), tries)
            for step in ("first", "last"):
                times = ([getattr(timed, step) for timed in each] for each in found)
                told |= row(f"{mechanism}, {step} step: {name}", *times)
    return told


def main() -> int:
    """Print a table; the exit code is 1 if a pair is told apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=2_000)
    given = parser.parse_args()
    interpreter.announce()
    port, plain_port = free_ports(2)
    more = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *HASHES)),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{MODULE} required user_{USER}="{SECRET}";'
        ),
        "connection.failed.authentication.delay.ms": "0",
    }
    with tempfile.TemporaryDirectory() as name:
        server = servers.barnabas(Path(name) / "broker", more=more)
        server.port = plain_port
        server.start()
        try:
            added = [word for mechanism in HASHES for word in ("--mechanism", mechanism)]
            where = ["--password-file", "-", "--bootstrap", f"127.0.0.1:{plain_port}"]
            subprocess.run(
                [sys.executable, "-m", "client.cli", "users", "add", USER, *added, *where],
                input=SECRET.encode(),
                check=True,
                stdout=subprocess.DEVNULL,
            )
            sys.stdout.write(
                "| pair | median one, µs | other | difference, ns | z |\n|---|--:|--:|--:|--:|\n"
            )
            return 1 if compare(port, given.tries) else 0
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
