"""Barnabas beside Apache Kafka 4.3, driven by the same load: `python -m benchmarks.peers`.

Starts both on one disk, warms them with the same load, then runs every cell in pairs: Kafka,
Barnabas, Kafka, Barnabas … A row gives the medians and the median of the pairs' ratios with their
spread. Page cache is compared with page cache (Kafka's default against write.caching=true), fsync
with fsync (Kafka's flush.messages=1 on the topic against our default); our default stands beside
the page-cache rows as a third column, uncompared. MB and GB are powers of ten and count batches.

Writes the table to standard output and everything, each run by itself, to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import cells, servers
from benchmarks.cells import CELLS, Bench, Cell
from benchmarks.servers import Server

KAFKA, CACHED, DURABLE = "kafka", "cached", "durable"
DEFAULT_DIRECTORY = servers.CHECKOUT / "build" / "benchmarks"
STARTS = 3
# A JVM compiles what is hot: Kafka's 16 KiB produce went from 157 to 356 MB/s over four runs of
# three seconds that followed a general warm-up of twenty (2 cores, November 2026).
UNCOUNTED_PAIRS = 2
CLIENT_SHARE_MAX = 0.9  # of one core


@dataclass
class Measured:
    """The figures of one cell: side -> metric -> one value a run."""

    cell: Cell
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, side: str, figures: dict[str, float]) -> None:
        """Keep the figures of one run."""
        for metric, value in figures.items():
            self.values.setdefault(side, {}).setdefault(metric, []).append(value)


def start_servers(
    sides: Sequence[str], directory: Path, starts: int
) -> tuple[dict[str, Server], Measured]:
    """Start every side `starts` times on fresh directories, in turn; the last ones stay up."""
    measured = Measured(cells.START)
    running: dict[str, Server] = {}
    for number in range(starts):
        for side in sides:
            if side in running:
                running[side].stop()
            place = directory / f"{side}-{number}"
            if side == KAFKA:
                server = servers.kafka(place)
            else:
                server = servers.barnabas(place, write_caching=side == CACHED)
            server.start()
            running[side] = server
            figures = {"first answer s": server.first_answer_seconds}
            figures["first ack s"] = server.first_ack_seconds
            measured.add(side, figures)
            if number:
                shutil.rmtree(directory / f"{side}-{number - 1}")
    return running, measured


def touch_memory(directory: Path, size: int) -> None:
    """Write and delete a file of `size` bytes, so that its pages stand ready for the page cache.

    On a virtual machine the first use of a page costs several times the second; without this,
    whoever is measured first pays for all.
    """
    path = directory / "touch"
    chunk = bytes(1 << 20)
    with path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(chunk)
    path.unlink()


def memory(running: dict[str, Server], cell: Cell) -> Measured:
    """Resident memory now, with and without mapped files."""
    measured = Measured(cell)
    for side, server in running.items():
        resident, anonymous = server.memory_bytes()
        figures = {"RSS MiB": resident / 2**20, "of it anonymous MiB": anonymous / 2**20}
        measured.add(side, figures)
    return measured


def run_cell(cell: Cell, running: dict[str, Server], bench: Bench, pairs: int) -> Measured:
    """Run one cell `pairs` times on each side that it concerns, the sides in turn."""
    measured = Measured(cell)
    for pair in range(-UNCOUNTED_PAIRS, pairs):
        for side in (KAFKA, CACHED, DURABLE):
            if side not in running or (side == CACHED and cell.fsynced):
                continue
            configs = {"flush.messages": "1"} if side == KAFKA and cell.fsynced else {}
            figures = cell.run(running[side], bench, configs)
            if pair >= 0:
                measured.add(side, figures)
            os.sync()  # the next run must not pay for this one's dirty pages
    return measured


def ratios(measured: Measured, metric: str, ours: str) -> list[float]:
    """Ours over Kafka's, pair by pair; above 1 is better for us whichever way the metric points."""
    pairs = zip(
        measured.values.get(ours, {}).get(metric, []),
        measured.values.get(KAFKA, {}).get(metric, []),
        strict=False,
    )
    higher_is_better = metric in cells.HIGHER_IS_BETTER
    found = [(a, b) if higher_is_better else (b, a) for a, b in pairs]
    return [a / b for a, b in found if b]


def number(value: float) -> str:
    """Three significant digits, with thousands parted."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 else f"{value:.4f}"


def table(results: list[Measured]) -> str:
    """The result as a Markdown table, one row a metric."""
    lines = [
        "| cell | metric | Kafka 4.3 | Barnabas | times better (spread) | Barnabas, durable |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for measured in results:
        cell = measured.cell
        compared = DURABLE if cell.fsynced else CACHED
        metrics = next(iter(measured.values.values()), {})
        for metric in metrics:
            if metric in cells.INFORMATIVE:
                continue
            shown = {
                side: number(statistics.median(values[metric]))
                for side, values in measured.values.items()
            }
            found = ratios(measured, metric, compared)
            ratio = "-"
            if found:
                ratio = f"{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})"
            beside = "(compared)" if cell.fsynced else shown.get(DURABLE, "-")
            lines.append(
                f"| {cell.title} | {metric} | {shown.get(KAFKA, '-')} |"
                f" {shown.get(compared, '-')} | {ratio} | {beside} |"
            )
    return "\n".join(lines)


def behind(results: list[Measured]) -> list[str]:
    """The cells in which Kafka was better in every pair, that is beyond the spread of the run."""
    found = []
    for measured in results:
        compared = DURABLE if measured.cell.fsynced else CACHED
        for metric in measured.values.get(compared, {}):
            values = ratios(measured, metric, compared)
            if metric not in cells.INFORMATIVE and values and max(values) < 1:
                found.append(f"{measured.cell.name} {metric} {statistics.median(values):.2f}")
    return found


def client_bound(results: list[Measured]) -> list[str]:
    """The cells in which the load client was busy enough to be the bound itself."""
    return [
        f"{measured.cell.name} ({side})"
        for measured in results
        for side, values in measured.values.items()
        if max(values.get(cells.LOAD_SHARE, [0.0])) > CLIENT_SHARE_MAX
    ]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    names = ", ".join(cell.name for cell in CELLS)
    parser.add_argument("--cells", default="", help=f"comma-separated subset of: {names}")
    parser.add_argument(
        "--only", choices=("kafka", "barnabas"), help="drive one side; no ratios then"
    )
    parser.add_argument("--no-durable", action="store_true", help="leave out the third column")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each cell on each side")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every duration")
    parser.add_argument(
        "--warm-seconds", type=float, default=20.0, help="all loads on each side, before measuring"
    )
    parser.add_argument(
        "--touch-gib", type=float, default=4.0, help="page cache to touch before measuring"
    )
    parser.add_argument(
        "--directory", type=Path, default=DEFAULT_DIRECTORY, help="data directories; on a disk"
    )
    parser.add_argument("--json", type=Path, help="default: DIRECTORY/peers.json")
    parser.add_argument("--keep", action="store_true", help="keep the data directories")
    return parser.parse_args(argv)


def chosen_cells(names: str) -> list[Cell]:
    """The cells asked for, in the table's order."""
    wanted = [name for name in names.split(",") if name]
    unknown = set(wanted) - {cell.name for cell in CELLS}
    if unknown:
        raise SystemExit(f"no such cell: {', '.join(sorted(unknown))}; see --help")
    return [cell for cell in CELLS if not wanted or cell.name in wanted]


def say(text: str) -> None:
    """Progress, beside the table's stream."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def report(results: list[Measured], options: argparse.Namespace, path: Path) -> None:
    """Write the table to standard output and every run to the JSON file."""
    title = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
    title += f"{options.pairs} pairs, {time.strftime('%Y-%m-%d')}"
    sys.stdout.write(f"{title}\n\n{table(results)}\n")
    sys.stdout.write(f"\nbehind Kafka in every pair: {', '.join(behind(results)) or 'none'}\n")
    if bound := client_bound(results):
        sys.stdout.write(f"the load client itself was the bound in: {', '.join(bound)}\n")
    rows = [{"cell": m.cell.name, "title": m.cell.title, "runs": m.values} for m in results]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": title, "cells": rows}, indent=1) + "\n")
    say(f"every run: {path}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code tells only whether it ran."""
    options = arguments(argv)
    chosen = chosen_cells(options.cells)
    sides = [KAFKA] if options.only != "barnabas" else []
    if options.only != "kafka":
        sides += [CACHED] if options.no_durable else [CACHED, DURABLE]
    place = options.directory / f"run-{os.getpid()}"
    place.mkdir(parents=True)
    bench = Bench(scale=options.scale)
    running: dict[str, Server] = {}
    results: list[Measured] = []
    try:
        running, started = start_servers(sides, place, STARTS)
        results.append(started)
        time.sleep(2.0 * options.scale)
        results.append(memory(running, cells.IDLE))
        warm: Callable[[Server], None] = lambda server: cells.warm(  # noqa: E731
            server, bench, options.warm_seconds * options.scale
        )
        touch_memory(place, int(options.touch_gib * 2**30))
        for side, server in running.items():
            say(f"warming {side}")
            warm(server)
        for cell in chosen:
            say(cell.title)
            results.append(run_cell(cell, running, bench, options.pairs))
        results.append(memory(running, cells.LOADED))
        report(results, options, options.json or options.directory / "peers.json")
    finally:
        for server in running.values():
            server.stop()
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
