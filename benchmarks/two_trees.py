"""Two checkouts beside each other, without Kafka: `python -m benchmarks.two_trees --other DIR`.

Says what a change of the broker brings. Both versions run as processes with this interpreter, one
works at a time, and rounds alternate, in a machine's noise that both share. The loads are cells of
the comparison with Kafka (`benchmarks.cells`), from the page cache. Prints the medians of both,
and the median ratio of the pairs with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import cells, interpreter
from benchmarks.bench import Bench, Figures
from benchmarks.life import life
from benchmarks.metrics import LOAD_SHARE
from benchmarks.results import spread
from benchmarks.servers import CHECKOUT, DEFAULT_DIRECTORY, Server, barnabas

PLACE = DEFAULT_DIRECTORY / "two-trees"
DEFAULT_CELLS = "raw-one,raw-one-1x1,raw-one-1x5,raw-small,raw-one-100x5,raw-fetch-16k,raw-fetch-1m"


def start(checkouts: Sequence[Path]) -> list[Server]:
    """Start a broker of each checkout."""
    servers = [
        barnabas(PLACE / str(number), write_caching=True, checkout=checkout)
        for number, checkout in enumerate(checkouts)
    ]
    for server in servers:
        server.start()
    return servers


def rows(cell: cells.Cell, found: list[list[Figures]]) -> list[str]:
    """Format the rows of one cell; each pair is before, after."""
    made = []
    for metric in found[0][0]:
        if metric == LOAD_SHARE:
            continue
        before, after = ([pair[number][metric] for pair in found] for number in (0, 1))
        ratios = [b / a for a, b in zip(before, after, strict=True) if a]
        if not ratios:
            continue
        made.append(
            f"| {cell.title} | {metric} | {statistics.median(before):.3g} "
            f"| {statistics.median(after):.3g} | {spread(ratios)} |"
        )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table; the first version is --other."""
    interpreter.announce()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, required=True, help="the checkout of before")
    parser.add_argument("--cells", default=DEFAULT_CELLS)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args(argv)
    bench = Bench(given.seconds)
    checkouts = [given.other.resolve(), CHECKOUT]
    shutil.rmtree(PLACE, ignore_errors=True)
    sys.stdout.write("| cell | metric | before | after | ratio |\n|---|---|---:|---:|---:|\n")
    servers: list[Server] = []
    try:
        for cell in cells.chosen(given.cells):
            found: list[list[Figures]] = []
            for _ in range(given.pairs):
                if cell.load is None:
                    pair = [
                        life(
                            lambda place, one=one: barnabas(  # type: ignore[misc]
                                place, write_caching=True, checkout=one
                            ),
                            PLACE / "life",
                            bench,
                        )
                        for one in checkouts
                    ]
                else:
                    servers = servers or start(checkouts)
                    pair = [cell.run(server, bench, kafka=False) for server in servers]
                found.append(pair)
            sys.stdout.write("\n".join(rows(cell, found)) + "\n")
            sys.stdout.flush()
    finally:
        for server in servers:
            server.kill()
        shutil.rmtree(PLACE, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
