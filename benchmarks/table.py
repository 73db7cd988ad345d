"""The results as Markdown: one table for each group of cells, the limits, the missed goals.

A row is one metric of one cell: medians of both sides, and the median of the ratios of the pairs
with the minimum and maximum. A missed goal is bold.
"""

from __future__ import annotations

import statistics

from benchmarks.cells import CELLS, GROUPS, LIFE_CELL, Cell
from benchmarks.metrics import (
    CPU_GB,
    CPU_REQUEST,
    HIGHER_IS_BETTER,
    INFORMATIVE,
    LOAD_SHARE,
    MB_S,
    RECORDS_S,
    reached,
    wanted,
)
from benchmarks.results import (
    CACHED,
    DURABLE,
    KAFKA,
    Figures,
    Results,
    number,
    ratios,
    spread,
    values,
)

CLIENT_SHARE_MAX = 0.9
HEAD = (
    "| cell | metric | Kafka | Barnabas | Barnabas ÷ Kafka (spread) | goal | durable ÷ Kafka |"
    " of the limit | pairs |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
)


def compared(cell: Cell) -> str:
    """Return which of our durabilities is compared with Kafka."""
    return DURABLE if cell.fsynced or cell is LIFE_CELL else CACHED


def brief(figures: Figures) -> str:
    """Format one run as a line of progress."""
    return " ".join(
        f"{number(value)} {metric}"
        for metric, value in figures.items()
        if metric not in INFORMATIVE
    )


def rows(results: Results, cell: Cell) -> list[str]:
    """Return the rows of one cell; none if it was not measured."""
    pairs = results.pairs(cell.name)
    ours = compared(cell)
    metrics = next((figures for pair in pairs for figures in pair.values()), {})
    made = []
    for metric in metrics:
        if metric in INFORMATIVE:
            continue
        found = values(pairs, ours, metric)
        both, beside = ratios(pairs, ours, metric), ratios(pairs, DURABLE, metric)
        columns = [
            cell.title,
            metric,
            _median(values(pairs, KAFKA, metric)),
            _median(found),
            spread(both),
            _goals(cell, metric, found, both),
            spread(beside) if ours == CACHED and beside else "",
            _distance(results, cell, metric, found),
            str(len(pairs)),
        ]
        made.append("| " + " | ".join(columns) + " |")
    return made


def _goals(cell: Cell, metric: str, found: list[float], both: list[float]) -> str:
    """Format the goals for the ratio and for our own figure; missed ones are bold."""
    told = []
    goal = cell.goal(metric)
    if goal is not None and both:
        shown = wanted(metric, goal)
        told.append(shown if reached(metric, statistics.median(both), goal) else f"**{shown}**")
    if metric in cell.bounds and found:
        shown = f"itself {wanted(metric, cell.bounds[metric])}"
        met = reached(metric, statistics.median(found), cell.bounds[metric])
        told.append(shown if met else f"**{shown}**")
    return "; ".join(told)


def _median(found: list[float]) -> str:
    return number(statistics.median(found)) if found else "-"


def _distance(results: Results, cell: Cell, metric: str, found: list[float]) -> str:
    """A rate as a share of the limit, a cost as a multiple of it."""
    limit = (results.part("limits") or {}).get(cell.limit, {})
    if not found or metric not in limit:
        return ""
    factor = statistics.median(found) / limit[metric]
    return f"{factor:.0%}" if metric in HIGHER_IS_BETTER else f"{factor:.1f} times"


def missed(results: Results) -> list[str]:
    """Describe every missed goal."""
    told = []
    for cell in CELLS:
        pairs = results.pairs(cell.name)
        for metric in next((figures for pair in pairs for figures in pair.values()), {}):
            found = values(pairs, compared(cell), metric)
            both = ratios(pairs, compared(cell), metric)
            if metric not in INFORMATIVE and "**" in _goals(cell, metric, found, both):
                ratio = f"{statistics.median(both):.2f} of Kafka's" if both else "by itself"
                told.append(f"{cell.title}, {metric}: {_median(found)}, {ratio}")
    return told


def unmeasured(results: Results) -> list[Cell]:
    """Return the cells without a pair."""
    return [cell for cell in CELLS if not results.pairs(cell.name)]


def client_bound(results: Results) -> list[str]:
    """Return the cells whose single-threaded load was busy enough to limit the rate."""
    return [
        f"{cell.name} ({side})"
        for cell in CELLS
        for side in (KAFKA, compared(cell))
        if "raw" in cell.name or cell.name == "fan-out"
        if (found := values(results.pairs(cell.name), side, LOAD_SHARE))
        if statistics.median(found) > CLIENT_SHARE_MAX
    ]


def limits(results: Results) -> str:
    """Format what a minimal program reaches on the machine."""
    columns = (MB_S, CPU_GB, RECORDS_S, CPU_REQUEST)
    made = [f"| minimal program | {' | '.join(columns)} |", "|---|---:|---:|---:|---:|"]
    for name, figures in (results.part("limits") or {}).items():
        shown = (number(figures[metric]) if metric in figures else "" for metric in columns)
        made.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(made)


def text(results: Results) -> str:
    """Return all tables."""
    parts = []
    for group, title in GROUPS.items():
        found = [row for cell in CELLS if cell.group == group for row in rows(results, cell)]
        if found:
            parts.append(f"### {title}\n\n{HEAD}\n" + "\n".join(found))
    if behind := missed(results):
        parts.append("### Not there yet\n\n" + "\n".join(f"- {one}" for one in behind))
    parts.append(f"### Limits\n\n{limits(results)}")
    if bound := client_bound(results):
        parts.append(f"The load was itself the bound in: {', '.join(bound)}.")
    if lacking := unmeasured(results):
        names = ", ".join(f"`{cell.name}`" for cell in lacking)
        parts.append(f"Not measured in this run: {names}.")
    return "\n\n".join(parts) + "\n"
