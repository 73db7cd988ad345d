"""docs/performance.md from the results: the generated part between two marks, and the plot.

The text outside the marks is written by hand and stays. The plot needs matplotlib
(requirements-bench.lock); without it the page is written and the plot is left as it is.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks import growth, profiles, table
from benchmarks.cells import CELLS
from benchmarks.metrics import HIGHER_IS_BETTER, INFORMATIVE
from benchmarks.results import Results, ratios
from benchmarks.servers import DELETE_DELAY_MS
from benchmarks.tools import TOOL_FLAGS
from tests.interop.oracle.kafka import JVM_FLAGS

BEGIN = "<!-- made by `make bench-peers`: begin -->"
END = "<!-- made by `make bench-peers`: end -->"
SHOWN = frozenset(("MB/s", "k requests/s", "p50 ms", "p99 ms", "CPU-s/GB", "CPU us/request",
                   "first ack s", "idle RSS MiB", "mean ms"))  # fmt: skip


def generated(results: Results, plot: Path) -> str:
    """The part between the marks."""
    told = "; ".join(f"{name} {value}" for name, value in results.settings.items())
    lengths = sorted({row["seconds"] for row in results.cell_settings()})
    parts = [
        f"Machine and versions: {told}.",
        f"Runs of {' or '.join(lengths)} s; the number of pairs is in each row. {busy(results)}",
        settings(),
        f"![Barnabas ÷ Kafka, every cell]({plot.name})",
        table.text(results).rstrip(),
        "### Growth\n\n" + (growth.tables(results) or "Not measured in this run."),
        "### Profiles\n\n" + (profiles.tables(results) or "Not taken in this run."),
    ]
    return "\n\n".join(parts)


def busy(results: Results) -> str:
    """Other work on the machine: the load average before each cell."""
    loads = [float(row["load"]) for row in results.cell_settings() if "load" in row]
    if not loads:
        return ""
    middle = statistics.median(loads)
    return (
        f"Load average before the cells, median and greatest: {middle:.1f}, {max(loads):.1f};"
        " the comparison by itself makes 1 to 2, and more than that was other work's."
    )


def settings() -> str:
    """The settings of both brokers and the programs that are not their defaults."""
    return (
        f"Kafka's JVM: `{' '.join(JVM_FLAGS)}`; one node that is broker and controller, replication"
        " factors of internal topics 1, `group.initial.rebalance.delay.ms=0`,"
        f" `log.segment.delete.delay.ms={DELETE_DELAY_MS}`. Barnabas: the last of these, and"
        f" `write.caching=true` where it is said. Kafka's tools: `{' '.join(TOOL_FLAGS)}`, and what"
        " the row says; librdkafka with one record a request: `batch.num.messages=1`,"
        " `linger.ms=0`, `max.in.flight.requests.per.connection` as the row says; at a fixed rate:"
        " `linger.ms=0`."
    )


def write(results: Results, page: Path) -> None:
    """Write the generated part into the page, and draw the plot."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END}")
    plot = page.with_name("performance.png")
    draw(results, plot)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{before}{BEGIN}\n\n{generated(results, plot)}\n\n{END}{after}"
    page.write_text(made, encoding="utf-8")


def draw(results: Results, path: Path) -> None:
    """Draw every ratio as a bar from 1, by how many times better; the spread as a line."""
    bars = []
    for cell in CELLS:
        pairs = results.pairs(cell.name)
        for metric in next((figures for pair in pairs for figures in pair.values()), {}):
            found = ratios(pairs, table.compared(cell), metric)
            if metric in INFORMATIVE or metric not in SHOWN or not found or min(found) <= 0:
                continue
            better = found if metric in HIGHER_IS_BETTER else [1 / value for value in found]
            bars.append((f"{cell.name}, {metric}", better))
    if not bars:
        return
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.6 + 0.17 * len(bars)), layout="constrained")
    _bars(axes, bars)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _bars(axes: Any, bars: list[tuple[str, list[float]]]) -> None:
    for place, (_, better) in enumerate(bars):
        middle = statistics.median(better)
        colour = "#2a7f4f" if middle >= 1 else "#b3402a"
        axes.barh(place, middle - 1, left=1, height=0.7, color=colour)
        axes.plot([min(better), max(better)], [place, place], color="black", linewidth=0.8)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=6)
    axes.invert_yaxis()
    axes.margins(y=0.005)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times better than Apache Kafka on the same load, in the same run")
    axes.grid(axis="x", which="both", linewidth=0.3)
