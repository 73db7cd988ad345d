"""Whether the time of a refused login tells anything: `python -m benchmarks.login_times`.

For each pair of logins that a client must not tell apart, both are tried by turns, in a random
order, and the time that the broker takes for each is measured. The rank-sum test (Mann and Whitney)
asks whether one takes longer than the other: |z| is below 1.96 in 19 of 20 runs if they do not, and
below 3.3 in 999 of 1,000. A pair is told apart if |z| is above 3.3 and the medians are 50 ns apart.

All is within one process: in front of a broker lie a network and a delay of 100 ms, which hide much
more. The machine must be idle.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from benchmarks import interpreter
from broker.http.password_check import is_password
from broker.metadata.scram_image import ScramCredential
from broker.security.sasl.mechanism import AuthenticationFailed, Reply
from broker.security.sasl.sasl_listeners import SaslListeners
from config.sasl_settings import MechanismSettings, SaslSettings
from protocol.scram import (
    HASHES,
    client_key,
    prove,
    read_server_first,
    salted_password,
    server_key,
    stored_key,
    unproven_final,
)

TRIES: Final = 2_000
WARM_UP: Final = 200
TOLD_APART: Final = 3.3
SEEN_NS: Final = 50
USER: Final = "alice"
SECRET: Final = "correct horse battery staple"
WRONG: Final = "x" + SECRET[1:]  # differs in the first character
NEARLY: Final = SECRET[:-1] + "x"  # and in the last
ITERATIONS: Final = 8192  # not the default


class Pair(NamedTuple):
    """Two logins that a client must not tell apart; each call returns what is then timed."""

    name: str
    one: Callable[[], Callable[[], object]]
    other: Callable[[], Callable[[], object]]
    tries: int = TRIES


def z_of(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the z value of the rank-sum test; ties get their mean rank."""
    marked = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    ranks = [0.0, 0.0]
    at, ties = 0, 0
    while at < len(marked):
        end = at
        while end < len(marked) and marked[end][0] == marked[at][0]:
            end += 1
        for place in range(at, end):
            ranks[marked[place][1]] += (at + end + 1) / 2
        ties += (end - at) ** 3 - (end - at)
        at = end
    n, m = len(one), len(other)
    total = n + m
    u = ranks[0] - n * (n + 1) / 2
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    return (u - n * m / 2) / math.sqrt(variance)


class _Directory:
    """One user, in the metadata log's own kind of map."""

    def __init__(self) -> None:
        self._found = {(mechanism, USER): CREDENTIALS[mechanism] for mechanism in HASHES}

    def scram(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._found.get((mechanism, user))

    def iterations(self, mechanism: str) -> list[int]:
        return [self._found[mechanism, USER].iterations]

    def generation(self, user: str, mechanism: str = "") -> int | None:  # noqa: ARG002
        return 1


def _credential(mechanism: str) -> ScramCredential:
    salted = salted_password(mechanism, SECRET, b"s" * 26, ITERATIONS)
    key = stored_key(mechanism, client_key(mechanism, salted))
    return ScramCredential(b"s" * 26, key, server_key(mechanism, salted), ITERATIONS)


CREDENTIALS: Final = {mechanism: _credential(mechanism) for mechanism in HASHES}


async def _here(call: Callable[[], bool]) -> bool:
    return call()


def _no_tokens(_: Any) -> Any:
    raise AssertionError("no listener has them")


def listener(users: dict[str, str] | None) -> Any:
    """Return the SASL of a listener whose PLAIN has these users, or those of SCRAM."""
    mechanisms = {
        name: MechanismSettings(
            name=name, max_reauth_ms=0, users=users if name == "PLAIN" else None
        )
        for name in ("PLAIN", *HASHES)
    }
    settings = SaslSettings(listener="L", mechanisms=mechanisms, failed_delay_ms=0)
    sasl = SaslListeners(
        {"L": settings}, _Directory(), random.randbytes, _here, _no_tokens, b"mock secret"
    )
    return sasl.of("L")


def _refused(respond: Callable[[bytes], Reply | Coroutine[Any, Any, Reply]], token: bytes) -> None:
    try:
        reply = respond(token)
        if not isinstance(reply, Reply):
            reply.send(None)
    except (AuthenticationFailed, StopIteration):
        return
    raise AssertionError("a login is accepted")


def plain(offered: Any, user: str, password: str) -> Callable[[], Callable[[], object]]:
    """A login by PLAIN."""
    token = f"\0{user}\0{password}".encode()

    def begin() -> Callable[[], object]:
        respond = offered.offers["PLAIN"].begin().respond
        return lambda: _refused(respond, token)

    return begin


def first_step(offered: Any, mechanism: str, user: str) -> Callable[[], Callable[[], object]]:
    """The first step of SCRAM."""
    token = f"n,,n={user},r=abc".encode()

    def begin() -> Callable[[], object]:
        respond = offered.offers[mechanism].begin().respond
        return lambda: respond(token)

    return begin


def last_step(
    offered: Any, mechanism: str, user: str, flipped: int
) -> Callable[[], Callable[[], object]]:
    """The last step of SCRAM; a proof that is right but for one byte, if the user exists."""
    salted = salted_password(mechanism, SECRET, b"s" * 26, ITERATIONS)

    def begin() -> Callable[[], object]:
        respond = offered.offers[mechanism].begin().respond
        bare = f"n={user},r=abc"
        answer = respond(f"n,,{bare}".encode()).token
        unproven = unproven_final(read_server_first(answer).nonce)
        right = prove(mechanism, salted, bare, answer, unproven)
        proof = bytearray(right.proof)
        proof[flipped] ^= 1
        token = right._replace(proof=bytes(proof)).message
        return lambda: _refused(respond, token)

    return begin


def http(given: str) -> Callable[[], Callable[[], object]]:
    """The password of the pages."""
    data = given.encode()
    return lambda: lambda: is_password(SECRET, data)


def pairs() -> list[Pair]:
    """Return all pairs."""
    jaas, scram = listener({USER: SECRET, "bob": SECRET}), listener(None)
    made = [
        Pair("PLAIN, JAAS: unknown and known user", plain(jaas, "alicf", WRONG),
             plain(jaas, USER, WRONG)),
        Pair("PLAIN, JAAS: wrong and right prefix", plain(jaas, USER, WRONG),
             plain(jaas, USER, NEARLY)),
        Pair("PLAIN, SCRAM users: unknown and known user", plain(scram, "alicf", WRONG),
             plain(scram, USER, WRONG)),
        Pair("PLAIN, SCRAM users: wrong and right prefix", plain(scram, USER, WRONG),
             plain(scram, USER, NEARLY)),
        Pair("password of HTTP: wrong and right prefix", http(WRONG), http(NEARLY)),
    ]  # fmt: skip
    for mechanism in HASHES:
        made += [
            Pair(f"{mechanism}, first step: unknown and known user",
                 first_step(scram, mechanism, "alicf"), first_step(scram, mechanism, USER)),
            Pair(f"{mechanism}, last step: unknown and known user",
                 last_step(scram, mechanism, "alicf", 0), last_step(scram, mechanism, USER, 0)),
            Pair(f"{mechanism}, last step: wrong and right prefix",
                 last_step(scram, mechanism, USER, 0), last_step(scram, mechanism, USER, -1)),
        ]  # fmt: skip
    return made


def measure(pair: Pair, tries: int, source: random.Random) -> tuple[list[float], list[float]]:
    """Return the times of both, in ns."""
    found: tuple[list[float], list[float]] = ([], [])
    order = [0, 1] * (tries + WARM_UP)
    source.shuffle(order)
    gc.collect()
    gc.disable()
    try:
        for number, which in enumerate(order):
            call = (pair.one, pair.other)[which]()
            begun = time.perf_counter_ns()
            call()
            took = time.perf_counter_ns() - begun
            if number >= 2 * WARM_UP:
                found[which].append(took)
    finally:
        gc.enable()
    return found


async def _run(options: Any) -> int:
    source = random.Random(options.seed)
    sys.stdout.write(
        "| pair | median one, µs | other | difference, ns | z |\n|---|--:|--:|--:|--:|\n"
    )
    told = 0
    for pair in pairs():
        if options.only not in pair.name:
            continue
        one, other = measure(pair, options.tries, source)
        medians = [statistics.median(each) / 1000 for each in (one, other)]
        z = z_of(one, other)
        difference_ns = (medians[1] - medians[0]) * 1000
        told += abs(z) > TOLD_APART and abs(difference_ns) > SEEN_NS
        row = (*(f"{one:.2f}" for one in medians), f"{difference_ns:+.0f}")
        sys.stdout.write(f"| {pair.name} | {' | '.join(row)} | {z:+.2f} |\n")
        sys.stdout.flush()
    return 1 if told else 0


def main() -> int:
    """Print a table; the exit code is 1 if a pair is told apart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=TRIES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="pairs whose name has this text")
    interpreter.announce()
    return asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
