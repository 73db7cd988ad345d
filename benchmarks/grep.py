"""What `barnabas consume --grep` costs beside kcat piped into grep: `python -m benchmarks.grep`.

One topic, one partition, batches of 16 KiB of records of 100 bytes; the pattern occurs in one
batch of a thousand, or in each record. Both read everything from a broker of the same run, in
turns. Prints the medians of the wall time in seconds, how many records each found, and the ratio
of the pairs. Needs kcat and grep.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

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


def timed(command: str) -> tuple[float, int]:
    """Return the seconds of a shell command, and the lines it wrote."""
    began = time.perf_counter()
    ended = subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE)
    return time.perf_counter() - began, ended.stdout.count(b"\n")


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
            found = [{lines for _, lines in side} for side in zip(*pairs, strict=True)]
            kcat, grep = (
                statistics.median(seconds for seconds, _ in side)
                for side in zip(*pairs, strict=True)
            )
            ratios = [own / other for (other, _), (own, _) in pairs]
            print(
                f"{name}: kcat and grep {kcat:.2f} s, {found[0]} records;"
                f" consume --grep {grep:.2f} s, {found[1]} records; ratio {spread(ratios)}"
            )
    finally:
        server.stop()
        shutil.rmtree(PLACE, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
