"""Barnabas beside Apache Kafka 4.3 under the same loads: `python -m benchmarks.peers`.

Starts both on one disk, warms them with the same load, then runs every cell in pairs: Kafka,
Barnabas, Kafka, Barnabas … Page cache is compared with page cache (Kafka's default against
write.caching=true), fsync with fsync (flush.messages=1 on Kafka's topic against our default); in
some cells our default stands beside the page cache as a third. MB and GB are powers of ten.

The loads are Kafka's own performance tools and librdkafka (benchmarks.tools), and prebuilt frames
where a client library would be the bottleneck (benchmarks.raw, benchmarks.crowds).

Every pair is saved in the results file as soon as it has run, and a later call continues where an
earlier one was interrupted; the page and the plot are made from the file. `--pairs 1 --seconds 2
--only CELL`, with `--page ''`, is a quick try.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import cells, growth, interpreter, limits, page, profiles, servers, table
from benchmarks.bench import Bench, Figures
from benchmarks.cells import LIFE_CELL, Cell
from benchmarks.life import life
from benchmarks.results import CACHED, DURABLE, KAFKA, SIDES, Results, machine
from benchmarks.servers import DEFAULT_DIRECTORY, Server
from tests.interop.oracle.kafka import OracleMissingError, libs

PAGE = servers.CHECKOUT / "docs" / "performance.md"
WARMED_BY = ("raw-16k", "raw-1m-all", "raw-small", "raw-fetch-1m", "raw-fetch-16k", "raw-waiting")
ATTEMPTS = 2
IDLE_SECONDS = 3.0


def say(text: str) -> None:
    """Print progress, apart from the table on standard output."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def makers() -> dict[str, Callable[[Path], Server]]:
    """Return, for each side, the function that makes its server in a directory."""
    return {
        KAFKA: servers.kafka,
        CACHED: lambda place: servers.barnabas(place, write_caching=True),
        DURABLE: servers.barnabas,
    }


def touch_memory(directory: Path, size: int) -> None:
    """Write and delete a file of `size` bytes, so that its pages are ready for the page cache.

    On a virtual machine the first use of a page costs several times the second; without this, the
    first broker would pay for all.
    """
    path = directory / "touch"
    chunk = bytes(1 << 20)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(chunk)
    path.unlink()


class Comparison:
    """The brokers of one call, started when a cell first needs them and kept until the end."""

    def __init__(self, options: argparse.Namespace, results: Results, place: Path) -> None:
        self.options = options
        self.results = results
        self.place = place
        self.bench = Bench(options.seconds)
        self.running: dict[str, Server] = {}

    def sides(self, cell: Cell) -> list[str]:
        """Return the sides that take part in a cell, in turn."""
        ours = [DURABLE] if cell.fsynced else [CACHED]
        if cell.durable_too and not self.options.no_durable:
            ours.append(DURABLE)
        if cell is LIFE_CELL:
            ours = [DURABLE]
        only = self.options.side
        return [side for side in (KAFKA, *ours) if not only or (only == KAFKA) == (side == KAFKA)]

    def run(self, cell: Cell) -> None:
        """Run the missing pairs of a cell."""
        lacking = self.options.pairs - len(self.results.pairs(cell.name))
        if lacking <= 0:
            return
        say(f"{cell.name}: {lacking} pairs")
        self.bench.forget()
        load = f"{os.getloadavg()[0]:.1f}"  # near 0 on an otherwise idle machine
        settings = {"seconds": f"{self.options.seconds:g}", "title": cell.title, "load": load}
        if cell is not LIFE_CELL:
            self._start()
            self._uncounted(cell)
        for number in range(lacking):
            pair = {side: self._once(cell, side, number) for side in self.sides(cell)}
            self.results.add(cell.name, pair, settings)
            shown = {side: table.brief(figures) for side, figures in pair.items()}
            say("  " + ", ".join(f"{side} {text}" for side, text in shown.items()))

    def stop(self) -> None:
        """Stop all brokers."""
        for server in self.running.values():
            server.stop()
        self.running.clear()

    def _uncounted(self, cell: Cell) -> None:
        """Run Kafka twice and Barnabas once, before the runs that count.

        A JVM compiles hot code: Kafka's 16 KiB produce went from 157 to 356 MB/s over four runs
        after a general warm-up of 20 s. The first two also set the number of records of a run.
        """
        first, *others = self.sides(cell)
        self.bench.learning = True
        self._once(cell, first)
        self._once(cell, first)
        self.bench.learning = False
        for side in others:
            self._once(cell, side)

    def _once(self, cell: Cell, side: str, number: int = 0) -> Figures:
        """Run once; a load that failed is retried once, and then fails the cell."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                if cell is LIFE_CELL:
                    return life(makers()[side], self.place / f"life-{side}-{number}", self.bench)
                figures = cell.run(self.running[side], self.bench, kafka=side == KAFKA)
                os.sync()  # the next run must not pay for this one's dirty pages
                return figures
            except Exception as error:
                say(f"  {side} failed: {error}")
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError

    def _start(self) -> None:
        """Start and warm every side that is not running."""
        wanted = [side for side in SIDES if side not in self.running]
        only = self.options.side
        for side in wanted:
            if only and (only == KAFKA) != (side == KAFKA):
                continue
            server = makers()[side](self.place / side)
            server.start()
            self.running[side] = server
            say(f"{server.name}: up after {server.first_ack_seconds:.2f} s; warming")
            self._warm(server, self.options.warm_seconds)
        for server in self.running.values():
            if server.idle_cpu_share == 0.0:
                os.sync()
                server.measure_idle(IDLE_SECONDS)
                say(f"{server.name}: idle {server.idle_cpu_share:.1%} of a core")

    def _warm(self, server: Server, seconds: float) -> None:
        begun, brief = time.perf_counter(), self.bench.brief()
        warming = [cell for cell in cells.CELLS if cell.name in WARMED_BY]
        while time.perf_counter() - begun < seconds:
            for cell in warming:
                cell.run(server, brief, kafka=False)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="names or patterns of cells, comma-separated")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each cell on each side")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one run")
    parser.add_argument(
        "--side", choices=("kafka", "barnabas"), help="drive one side; no ratios then"
    )
    parser.add_argument("--no-durable", action="store_true", help="leave out the third column")
    parser.add_argument("--minutes", type=float, help="begin no cell after so many")
    parser.add_argument("--warm-seconds", type=float, default=20.0, help="for each broker")
    parser.add_argument("--touch-gib", type=float, default=4.0, help="page cache to touch first")
    parser.add_argument("--growth", default="all", help="growth curves: all, none, or names")
    parser.add_argument("--no-profiles", action="store_true", help="take no profiles")
    parser.add_argument(
        "--directory", type=Path, default=DEFAULT_DIRECTORY, help="data directories; on a disk"
    )
    parser.add_argument("--results", type=Path, help="default: DIRECTORY/peers.json")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--page", default=str(PAGE), help="the page to write; '' for none")
    parser.add_argument("--page-only", action="store_true", help="write the page, run nothing")
    parser.add_argument("--keep", action="store_true", help="keep the data directories")
    return parser.parse_args(argv)


def compare(
    options: argparse.Namespace, wanted: Sequence[Cell], results: Results, place: Path
) -> list[str]:
    """Run everything that is missing; return the cells that failed."""
    deadline = time.monotonic() + 60 * (options.minutes or 1e9)
    comparison = Comparison(options, results, place)
    failed: list[str] = []
    try:
        touch_memory(place, int(options.touch_gib * 2**30))
        if results.part("limits") is None:
            say("limits of the machine")
            results.put("limits", limits.measure(place))
        for cell in wanted:
            if time.monotonic() > deadline:
                break
            try:
                comparison.run(cell)
            except Exception as error:
                say(f"{cell.name} failed: {error}")
                failed.append(cell.name)
    finally:
        comparison.stop()
    if not options.no_profiles:
        profiles.take(results, place, deadline, say)
    growth.take(results, place, options, deadline, say)
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code is 1 if a cell could not be measured."""
    options = arguments(argv)
    wanted = cells.chosen(options.only)  # a wrong name is refused before anything runs
    interpreter.announce()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))  # an interrupted run stops its brokers
    try:
        oracle = None if options.side == "barnabas" else libs()
    except OracleMissingError as missing:
        say(f"no Apache Kafka to compare with: {missing}")
        return 2
    path = options.results or options.directory / "peers.json"
    results = Results(path, machine(options.directory, oracle), fresh=options.fresh)
    failed: list[str] = []
    if not options.page_only:
        place = options.directory / f"run-{os.getpid()}"
        place.mkdir(parents=True)
        try:
            failed = compare(options, wanted, results, place)
        finally:
            if not options.keep:
                shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write(table.text(results))
    if options.page:
        page.write(results, Path(options.page))
    say(f"all runs: {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
