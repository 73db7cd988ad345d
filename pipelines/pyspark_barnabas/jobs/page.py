"""The report as one HTML page: plots and tables, and nothing that it would have to load.

It takes the facts that `report --json` prints and adds none. Light and dark follow the reader's
system.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from pyspark_barnabas.jobs import charts
from pyspark_barnabas.jobs.batch_tally import INTERVAL_NAMES
from pyspark_barnabas.jobs.summary import bytes_text, cell_text, plural

_BARS_MAX: Final = 64
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6875; --line: #d9dee4;
  --fill: #2f6f9f; --tint: #2f6f9f33; --back: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #9aa7b4; --line: #37424e;
  --fill: #6db1de; --tint: #6db1de33; --back: #14191f; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p, summary { color: var(--soft); } section { margin-bottom: 1rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.area { fill: var(--tint); stroke: var(--fill); } .bar { fill: var(--fill); }
.grid { stroke: var(--line); } .hover { fill: transparent; } .hover:hover { fill: var(--tint); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.35rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } td { font-variant-numeric: tabular-nums; }
"""


def page(facts: dict[str, Any]) -> str:
    """Return the page of a report's facts."""
    title = ", ".join(one["topic"] for one in facts["topics"]) or "no records"
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>Read from {escape(facts['source'])}, {escape(facts['written'])}.</p>",
        _numbers(facts),
        *_times(facts),
        *_partitions(facts),
        *_keys(facts["keys"]),
        *_batches(facts),
        *_groups(facts),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _numbers(facts: dict[str, Any]) -> str:
    numbers = [
        ("records", f"{facts['records']:,}"),
        ("stored", bytes_text(facts["bytes"])),
        ("compression ratio", f"{facts['compression_ratio']:.2f}"),
        ("batches", f"{facts['batches']:,}"),
        ("partitions", f"{len(facts['partitions']):,}"),
    ]
    if facts["groups"] is not None:
        numbers.append(("largest lag", f"{max([0, *(g['lag'] for g in facts['groups'])]):,}"))
    pairs = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in numbers)
    return f"<dl>{pairs}</dl>"


def _times(facts: dict[str, Any]) -> list[str]:
    series = facts["times"]
    if not series["begin_ms"]:
        return []
    unit = INTERVAL_NAMES[series["width_ms"]]
    found = []
    times, width_ms = series["begin_ms"], series["width_ms"]
    for name, text, base in (("records", _whole, 1000), ("bytes", bytes_text, 1024)):
        title = f"{name.capitalize()} per {unit}"
        plot = charts.over_time(title, times, series[name], width_ms, text, base=base)
        found.append(_section(title, plot))
    note = "By the records' timestamps: a batch is spread evenly between its first and its largest."
    return [*found, f"<p>{note}</p>"]


def _partitions(facts: dict[str, Any]) -> list[str]:
    rows = facts["partitions"]
    largest = sorted(rows, key=lambda row: -row["records"])[:_BARS_MAX]
    shown = [row for row in rows if row in largest] if len(rows) > _BARS_MAX else rows
    total = facts["records"] or 1
    plot = charts.bars(
        "Records per partition",
        [
            (
                f"{row['topic']}-{row['partition']}", row["records"],
                f"{row['records']:,} ({row['records'] / total:.1%})",
            )
            for row in shown
        ],
    )  # fmt: skip
    table = _table(
        ["partition", "records", "stored", "batches", "ratio", "first offset", "next offset"],
        [
            [
                f"{row['topic']}-{row['partition']}", row["records"], bytes_text(row["bytes"]),
                row["batches"], f"{row['compression_ratio']:.2f}", row["first_offset"],
                row["next_offset"],
            ]
            for row in rows
        ],
    )  # fmt: skip
    details = f"<details><summary>As a table</summary>{table}</details>"
    return [_section("Records per partition", plot + details)]


def _keys(keys: dict[str, Any] | None) -> list[str]:
    if keys is None:
        return []
    said = f"{plural(keys['distinct'], 'distinct key')}"
    if keys["without_key"]:
        said += f", {plural(keys['without_key'], 'record')} without a key"
    several = len({row["topic"] for row in keys["top"]}) > 1
    rows = [
        (
            f"{row['topic']}: {row['key']}" if several else row["key"], row["records"],
            f"{row['records']:,} ({row['share']:.2%})",
        )
        for row in keys["top"]
    ]  # fmt: skip
    plot = charts.bars("Records of the most frequent keys", rows) if rows else ""
    return [_section("The most frequent keys", f"<p>{said}.</p>{plot}")]


def _batches(facts: dict[str, Any]) -> list[str]:
    found = []
    for name, text in (("batch_records", "{:,}"), ("batch_bytes", "")):
        sizes = facts[name]
        if not sizes["histogram"]:
            continue
        show = text.format if text else bytes_text
        title = "Records per batch" if text else "Bytes per batch, stored"
        said = f"{show(sizes['mean'])} in the mean, {show(sizes['max'])} at most; up to:"
        bins = [(show(row["up_to"]), row["batches"]) for row in sizes["histogram"]]
        found.append(_section(title, f"<p>{said}</p>" + charts.columns(title, bins, "batches")))
    rows = [
        [row["codec"], row["batches"], bytes_text(row["bytes"]), f"{row['ratio']:.2f}"]
        for row in facts["codecs"]
    ]
    note = "The ratio is from a sample of the batches, unpacked: how many times larger they are."
    table = _table(["codec", "batches", "stored", "ratio"], rows)
    return [*found, _section("Codecs", f"{table}<p>{note}</p>")]


def _groups(facts: dict[str, Any]) -> list[str]:
    groups = facts["groups"]
    if groups is None:
        return [_section("Lag of consumer groups", f"<p>{escape(facts['groups_note'])}.</p>")]
    if not groups:
        return [_section("Lag of consumer groups", "<p>No group has committed an offset.</p>")]
    rows = [
        (f"{row['group']}: {row['topic']}", row["lag"], f"{row['lag']:,}")
        for row in sorted(groups, key=lambda row: -row["lag"])[:_BARS_MAX]
    ]
    table = _table(
        ["group", "topic", "lag", "partitions", "largest"],
        [[row["group"], row["topic"], row["lag"], row["partitions"], row["lag_max"]]
         for row in groups],
    )  # fmt: skip
    plot = charts.bars("Lag of consumer groups", rows)
    return [_section("Lag of consumer groups, records", plot + table)]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
