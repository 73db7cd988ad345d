"""Transactions beside Apache Kafka 4.3: `python -m benchmarks.transactions`.

Three brokers are up at once on one disk, and one works at a time: Kafka with its defaults, Kafka
with `log.flush.interval.messages=1`, and Barnabas with its defaults (each end of a transaction is
on the disk before it is answered). In each round every cell runs on each broker, in an order that
rotates, and beside ours a bare program syncs four files side by side, as the end of a transaction
over three partitions has to. A figure is the median of the rounds, with the least and the greatest;
a ratio belongs to one round.

The load is `benchmarks.transaction_load`. Each round is saved in the results file, and a later call
goes on there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks import interpreter, results, servers
from benchmarks.bench import Figures
from benchmarks.bench_commit_round import BareFiles
from benchmarks.results import Results
from benchmarks.servers import DEFAULT_DIRECTORY, Server
from benchmarks.transaction_frames import TV1, TV2
from benchmarks.transaction_load import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Reading,
    Shape,
    back_to_back,
    batch_of,
    offsets_end,
    prepare,
    readable,
    run_count,
)
from tests.interop.oracle.kafka import libs

KAFKA, FLUSHING, OURS, BARE = "Kafka", "Kafka, flushing", "Barnabas", "bare fdatasync"
SIDES = (KAFKA, FLUSHING, OURS)
MACHINE, LOAD = "machine", "load average"
PER_SECOND, P50, P99, CPU = "transactions/s", "EndTxn p50 ms", "EndTxn p99 ms", "CPU us each"
READABLE_P50, READABLE_P99 = "readable p50 ms", "readable p99 ms"
RECORDS, MB_COMMITTED, MB_UNCOMMITTED = "k records/s", "MB/s committed", "MB/s uncommitted"
TIMES, CPU_TIMES = "time ÷ uncommitted", "CPU ÷ uncommitted"
BARE_P50, BARE_P99 = "four side by side p50 ms", "four side by side p99 ms"
BARE_FILES, BARE_COUNT = 4, 200
READING_PRODUCERS, READING_COUNT, READING_TURNS = 20, 1_000, 4


@dataclass
class Options:
    """What a cell needs to know of the call."""

    seconds: float
    place: Path

    @property
    def warm_seconds(self) -> float:
        """Before each run."""
        return self.seconds / 4


Run = Callable[[Server, str, Options], Figures]


def percentile(taken: Sequence[float], part: float) -> float:
    """Return one of the ordered values, in ms."""
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3


def ends(shape: Shape) -> Run:
    """A cell of transactions, one after the other on each producer."""

    def run(server: Server, topic: str, options: Options) -> Figures:
        made = prepare(server, topic, shape)
        ran = back_to_back(server, made, warm_seconds=options.warm_seconds, seconds=options.seconds)
        figures = {
            PER_SECOND: ran.count / ran.seconds,
            P50: percentile(ran.end_seconds, 0.5),
            P99: percentile(ran.end_seconds, 0.99),
            CPU: ran.cpu_seconds / ran.count * 1e6,
        }
        records = made[0].record_count * shape.requests_each
        if records > 1:
            figures[RECORDS] = ran.count * records / ran.seconds / 1e3
        return figures

    return run


def waits(server: Server, topic: str, options: Options) -> Figures:
    """From EndTxn sent to the answer of a read_committed fetch that waits."""
    (one,) = prepare(server, topic, Shape(batch_of(1)))
    count = max(20, int(100 * options.seconds))
    taken = readable(server, topic, one, count)[count // 10 :]
    return {READABLE_P50: percentile(taken, 0.5), READABLE_P99: percentile(taken, 0.99)}


def reads(aborted_each: int, record_count: int) -> Run:
    """Both isolation levels in short turns over one topic."""

    def run(server: Server, topic: str, options: Options) -> Figures:
        shape = Shape(
            batch_of(record_count),
            producers=READING_PRODUCERS,
            shared=1,
            aborted_each=aborted_each,
        )
        run_count(server, prepare(server, topic, shape), READING_COUNT)
        end = offsets_end(server, topic)
        levels = {level: Reading(topic, end, level) for level in (READ_UNCOMMITTED, READ_COMMITTED)}
        totals = {level: [0.0, 0.0, 0.0] for level in levels}
        for turn in range(2 * READING_TURNS):
            for level in sorted(levels, reverse=bool(turn % 2)):
                found = levels[level].run(server, options.seconds / READING_TURNS)
                totals[level] = [sum(pair) for pair in zip(totals[level], found, strict=True)]
        rate = {level: size / 1e6 / seconds for level, (size, seconds, _) in totals.items()}
        cpu = {level: cpu / size for level, (size, _, cpu) in totals.items()}
        return {
            MB_UNCOMMITTED: rate[READ_UNCOMMITTED],
            MB_COMMITTED: rate[READ_COMMITTED],
            TIMES: rate[READ_UNCOMMITTED] / rate[READ_COMMITTED],
            CPU_TIMES: cpu[READ_COMMITTED] / (cpu[READ_UNCOMMITTED] or cpu[READ_COMMITTED] or 1.0),
        }

    return run


def cells() -> dict[str, Run]:
    """Return all cells, by name."""
    one = batch_of(1)
    made: dict[str, Run] = {}
    for version, name in ((TV2, "TV2"), (TV1, "TV1")):
        for count in (1, 3, 10):
            plural = "s" * (count > 1)
            shape = Shape(one, partitions=count, version=version)
            made[f"{name}, 1 producer, {count} partition{plural}"] = ends(shape)
        own = Shape(one, producers=40, version=version)
        made[f"{name}, 40 producers, a partition each"] = ends(own)
        shared = Shape(one, producers=40, shared=4, version=version)
        made[f"{name}, 40 producers, 4 partitions shared"] = ends(shared)
    made["from EndTxn sent to readable"] = waits
    made["transactions of 100 records"] = ends(Shape(batch_of(100)))
    made["transactions of 10,000 records"] = ends(Shape(batch_of(1_000), requests_each=10))
    for share, each in ((0, 0), (10, 10), (50, 2)):
        made[f"fetch, 16 KiB a transaction, {share} % aborted"] = reads(each, 150)
    made["fetch, 1 KiB a transaction, 50 % aborted"] = reads(2, 9)
    return made


def makers() -> dict[str, Callable[[Path], Server]]:
    """Return, for each side, the function that makes its server in a directory."""
    return {
        KAFKA: servers.kafka,
        FLUSHING: lambda place: servers.kafka(place, {"log.flush.interval.messages": "1"}),
        OURS: servers.barnabas,
    }


def bare(place: Path) -> Figures:
    """Sync four files side by side, over and over."""
    files = BareFiles(place, BARE_FILES)
    taken = []

    async def run() -> None:
        for _ in range(BARE_COUNT):
            files.write()
            begun = time.perf_counter()
            await files.side_by_side()
            taken.append(time.perf_counter() - begun)

    asyncio.run(run())
    files.close()
    return {BARE_P50: percentile(taken, 0.5), BARE_P99: percentile(taken, 0.99)}


def say(text: str) -> None:
    """Print progress, apart from the table on standard output."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


class Comparison:
    """The brokers of one call."""

    def __init__(self, options: argparse.Namespace, found: Results) -> None:
        self._options = options
        self._found = found
        self._place: Path = options.directory / "transactions"
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir(parents=True)
        chosen = [side for side in SIDES if not options.side or side in options.side]
        places = {side: self._place / f"side-{number}" for number, side in enumerate(chosen)}
        self._running = {side: makers()[side](place) for side, place in places.items()}
        self._number = 0

    def start(self) -> None:
        """Start all, and warm them with each cell."""
        for side, server in self._running.items():
            server.start()
            say(f"{side}: up after {server.first_ack_seconds:.2f} s")
        seconds = self._options.warm_seconds
        if seconds:
            for name, run in self._chosen().items():
                say(f"warming: {name}")
                for server in self._running.values():
                    self._once(name, run, server, seconds)

    def _chosen(self) -> dict[str, Run]:
        only = self._options.only or [""]
        return {name: run for name, run in cells().items() if any(part in name for part in only)}

    def run(self) -> None:
        """Run every cell on each side, round after round."""
        for number in range(self._options.rounds):
            for name, run in self._chosen().items():
                if len(self._found.pairs(name)) > number:
                    continue
                pair: dict[str, Figures] = {}
                sides = list(self._running)
                for side in sides[number % len(sides) :] + sides[: number % len(sides)]:
                    if side == OURS:
                        pair[BARE] = bare(self._place)
                    server = self._running[side]
                    pair[side] = self._once(name, run, server, self._options.seconds)
                pair[MACHINE] = {LOAD: os.getloadavg()[0]}
                self._found.add(name, pair, {"seconds": f"{self._options.seconds:g}"})
                shown = ", ".join(
                    f"{side} {next(iter(figures.values())):.4g}" for side, figures in pair.items()
                )
                say(f"round {number + 1}, {name}: {shown}")

    def _once(self, name: str, run: Run, server: Server, seconds: float) -> Figures:
        self._number += 1
        topic = f"bench-{self._number}"
        try:
            return run(server, topic, Options(seconds, self._place))
        except Exception as error:
            raise RuntimeError(f"{name} failed on {server.name}") from error
        finally:
            with suppress(Exception):
                server.delete_topic(topic)
            os.sync()  # the next run must not pay for this one's dirty pages

    def stop(self) -> None:
        """Stop all, and delete their data."""
        for server in self._running.values():
            server.stop()
        shutil.rmtree(self._place, ignore_errors=True)


def spread(values: Sequence[float]) -> str:
    """Show the median, the least and the greatest."""
    low, middle, high = map(results.number, (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def report(found: Results) -> str:
    """Return the table."""
    lines = [
        f"| cell | metric | {KAFKA} | {FLUSHING} | {OURS} | ÷ {KAFKA} | ÷ {FLUSHING} |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name in cells():
        pairs = found.pairs(name)
        for metric in pairs[0][OURS] if pairs and OURS in pairs[0] else ():
            figures = [
                spread([pair[side][metric] for pair in pairs]) if side in pairs[0] else ""
                for side in SIDES
            ]
            ratios = [
                spread([pair[OURS][metric] / pair[side][metric] for pair in pairs])
                if side in pairs[0]
                else ""
                for side in (KAFKA, FLUSHING)
            ]
            lines.append(f"| {name} | {metric} | {' | '.join(figures + ratios)} |")
    return "\n".join(lines) + "\n\n" + bare_report(found)


def bare_report(found: Results) -> str:
    """Return how EndTxn over three partitions compares with bare fdatasyncs, round by round."""
    pairs = found.pairs("TV2, 1 producer, 3 partitions")
    if not pairs or BARE not in pairs[0]:
        return ""
    lines = [
        "| round | four bare fdatasyncs p50 ms | limit ms | EndTxn p50 ms |",
        "|--:|--:|--:|--:|",
    ]
    for number, pair in enumerate(pairs, 1):
        synced = pair[BARE][BARE_P50]
        limit = 1.2 * synced + 0.3
        lines.append(f"| {number} | {synced:.2f} | {limit:.2f} | {pair[OURS][P50]:.2f} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing, and print the table."""
    interpreter.announce()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.transactions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", help="cells with this in their names")
    parser.add_argument("--side", action="append", choices=SIDES, help="instead of all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--warm-seconds", type=float, default=1.0, help="of each cell, uncounted")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY, help="on a disk")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args(argv)
    has_kafka = options.side is None or {KAFKA, FLUSHING} & set(options.side)
    settings = results.machine(options.directory, libs() if has_kafka else None)
    path = options.directory / "transactions.json"
    found = Results(path, settings, fresh=options.fresh)
    comparison = Comparison(options, found)
    try:
        comparison.start()
        comparison.run()
    finally:
        comparison.stop()
    told = "; ".join(f"{key} {value}" for key, value in settings.items())
    sys.stdout.write(f"{told}.\n\n{report(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
