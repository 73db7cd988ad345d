"""What `barnabas consume --grep` costs beside kcat piped into grep: `python -m benchmarks.grep`.

One topic, one partition, batches of 16 KiB of records of 100 bytes; the pattern occurs in one
batch of a thousand, or in each record. Both read everything from a broker of the same run, in
turns. Prints the medians of the wall time in seconds, how many records each found, the ratio of the
pairs, and the same ratio of the processor time of all processes, which other programs on the
machine disturb less. Needs kcat and grep.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import frames, interpreter, load
from benchmarks.results import spread
from benchmarks.servers import DEFAULT_DIRECTORY, barnabas

PLACE = DEFAULT_DIRECTORY / "grep"
TOPIC = "searched"
RARE_EVERY = 1_000  # batches
RECORD_BYTES, BATCH_BYTES = 100, 16 * 1024
PATTERNS = {"rare": "needle[0-9]", "each": "word[0-9]"}


def filled(port: int, size_mb: int) -> None:
    """Write the records."""
    line = (b"word1 of a line of text " * 5)[:RECORD_BYTES]
    count = BATCH_BYTES // (RECORD_BYTES + 10)
    now_ms = time.time_ns() // 1_000_000
    usual = frames.record_batch([line] * count, now_ms)
    rare = frames.record_batch([line] * (count - 1) + [b"needle7 " + line[8:]], now_ms)
    for _ in range(max(1, size_mb * 1_000_000 // (RARE_EVERY * len(usual)))):
        load.fill(port, TOPIC, usual, count, count=RARE_EVERY - 1)
        load.fill(port, TOPIC, rare, count, count=1)


class Run(NamedTuple):
    """One run of a shell command: its seconds, those of the processor, and the lines it wrote."""

    seconds: float
    cpu_seconds: float
    lines: int


def cpu_seconds() -> float:
    """Return the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: str) -> Run:
    """Run a shell command."""
    began, used = time.perf_counter(), cpu_seconds()
    ended = subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE)
    took = time.perf_counter() - began
    return Run(took, cpu_seconds() - used, ended.stdout.count(b"\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each pattern."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=500)
    options = parser.parse_args(argv)
    if shutil.which("kcat") is None:
        sys.exit("kcat is missing: install Debian's package kcat")
    shutil.rmtree(PLACE, ignore_errors=True)
    server = barnabas(PLACE, write_caching=True)
    server.start()
    try:
        server.create_topic(TOPIC, 1)
        filled(server.port, options.megabytes)
        address = f"127.0.0.1:{server.port}"
        for name, pattern in PATTERNS.items():
            theirs = f"kcat -b {address} -C -t {TOPIC} -e -q | grep '{pattern}'"
            ours = (
                f"{sys.executable} -m client.cli consume {TOPIC} --bootstrap {address}"
                f" --grep '{pattern}'"
            )
            pairs = [(timed(theirs), timed(ours)) for _ in range(options.pairs)]
            kcat, grep = (
                statistics.median(one.seconds for one in side) for side in zip(*pairs, strict=True)
            )
            found = [{one.lines for one in side} for side in zip(*pairs, strict=True)]
            print(
                f"{name}: kcat and grep {kcat:.2f} s, {found[0]} records;"
                f" consume --grep {grep:.2f} s, {found[1]} records;"
                f" ratio {spread([own.seconds / other.seconds for other, own in pairs])},"
                f" of CPU {spread([own.cpu_seconds / other.cpu_seconds for other, own in pairs])}"
            )
    finally:
        server.stop()
        shutil.rmtree(PLACE, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
