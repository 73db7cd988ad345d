"""What producers notice of a broker that is looked at: the p99 of produce, alone and watched.

    python -m benchmarks.watched [lz4 | zstd | gzip | snappy]

A topic gets 1 GB, in uncompressed batches, or by a codec in batches that inflate to as much. Then a
client sends a batch of 1 KiB with acks=1 every few milliseconds to another one, in turns of
`SECONDS`: alone, and with a page open, a scrape a second and searches through the 1 GB that never
find anything, one after the other. The turns alternate, so other load on the machine meets both
alike. acks=1 shows the loop's delay, which an fsync would hide.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import load
from benchmarks.console import ask, free_port, served, view
from benchmarks.frames import filled_batch, produce, record_batch
from protocol.compression import NAMES
from protocol.records import Record, build

GIGABYTE = 1_000_000_000
BATCH_BYTES = 900_000  # of records, before compression
SECONDS = 8.0
TURNS = 4
EACH_SECONDS = 0.003
NOWHERE = "/api/v1/messages?topic=large&order=oldest&text=nothing-has-this&cursor="


def main(codec: str) -> None:
    """Print the percentiles of both."""
    http, kafka = free_port(), free_port()
    with served(http, kafka):
        for name in ("large", "small"):
            ask(http, "POST", "/api/v1/topics/create", {"name": name, "partitions": 1})
        _fill(kafka, codec)
        _compare(http, kafka)


def _fill(port: int, codec: str) -> None:
    now_ms = int(time.time() * 1000)
    batch = bytes(filled_batch(1_000, BATCH_BYTES, now_ms)[0])
    if codec != "none":  # to half their size
        values = [random.randbytes(500).hex().encode() for _ in range(BATCH_BYTES // 1_010)]
        records = [Record(0, now_ms, None, value) for value in values]
        batch = bytes(build(records, codec=NAMES.index(codec)))
    sock = load.connect(port)
    for _ in range(GIGABYTE // BATCH_BYTES):
        load.exchange(sock, produce("large", 0, batch, 1))
    sock.close()


def _compare(http: int, kafka: int) -> None:
    found: dict[str, list[float]] = {"alone": [], "watched": []}
    _produced(kafka, 2.0)
    for _ in range(TURNS):
        found["alone"] += _produced(kafka, SECONDS)
        with _watchers(http) as searched:
            found["watched"] += _produced(kafka, SECONDS)
        print(f"searches have read {searched[0]:,} records")
    for name, times in found.items():
        times.sort()
        shown = [f"p{p:g} {1e3 * times[int(p / 100 * len(times))]:.2f} ms" for p in (50, 99, 99.9)]
        print(f"{name:8} {', '.join(shown)} of {len(times)}")


def _produced(port: int, seconds: float) -> list[float]:
    """Send one batch after the other, at times that no timer of the broker shares."""
    sock = load.connect(port)
    frame = produce("small", 0, record_batch([b"x" * 1_000], int(time.time() * 1000)), 1)
    times, ends = [], time.monotonic() + seconds
    while time.monotonic() < ends:
        begun = time.perf_counter()
        load.exchange(sock, frame)
        times.append(time.perf_counter() - begun)
        time.sleep(EACH_SECONDS * random.uniform(0.5, 1.5))
    sock.close()
    return times


@contextmanager
def _watchers(port: int) -> Iterator[list[int]]:
    """Watch in a process of its own: the client must not wait for its interpreter."""
    searched: list[int] = []
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.watched", "--watch", str(port)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield searched
    finally:
        searched.append(int(process.stdout.readline()))
        process.wait()


def watch(port: int) -> None:
    """Watch for a turn, and print how many records the searches have read."""
    print("begun", flush=True)
    ends = time.monotonic() + SECONDS
    searched = [0]
    threads = [
        threading.Thread(target=view, args=(port, ends)),
        threading.Thread(target=_scrape, args=(port, ends)),
        threading.Thread(target=_search, args=(port, ends, searched)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(searched[0], flush=True)


def _scrape(port: int, ends: float) -> None:
    while time.monotonic() < ends:
        ask(port, "GET", "/metrics")
        time.sleep(1)


def _search(port: int, ends: float, searched: list[int]) -> None:
    cursor = ""
    while time.monotonic() < ends:
        text = ask(port, "GET", NOWHERE + cursor).decode()
        cursor = text.partition('"cursor":"')[2].partition('"')[0]
        searched[0] += int(text.partition('"looked_at":')[2].partition(",")[0])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        watch(int(sys.argv[2]))
    else:
        main(*(sys.argv[1:] or ["none"]))
