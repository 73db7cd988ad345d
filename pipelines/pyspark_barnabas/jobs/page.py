"""The report as one HTML page: plots and tables, with nothing to load from elsewhere.

It shows the facts that `report --json` prints and adds none. Light and dark follow the reader's
system. Plots are SVG, in 720 units of width and the colours of `_STYLE`:

    over_time     the amount at each time, as an area of steps
    bars          named amounts, one to a line
    histogram     counts by size

Hovering over a part shows its number (`<title>`). Names of topics and keys are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from pyspark_barnabas.jobs.batch_tally import INTERVAL_NAMES
from pyspark_barnabas.jobs.session import bytes_text, cell_text, plural

Text = Callable[[float], str]
WIDTH: Final = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 10, 24
_HEIGHT: Final = 190
_ROW: Final = 22
_BAR_LEFT, _BAR_RIGHT = 210, 130
_COLUMN_MAX: Final = 80
_STEPS_MAX: Final = 360  # more would be thinner than a pixel
_LABEL_MAX: Final = 30
_DAY_MS: Final = 86_400_000
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
    """Return the page for a report's facts."""
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
    numbers.append(("largest lag", f"{max([0, *(one['lag'] for one in facts['groups'])]):,}"))
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
        plot = over_time(title, times, series[name], width_ms, text, base=base)
        found.append(_section(title, plot))
    note = "By the records' timestamps; a batch's bytes are spread as its records are."
    return [*found, f"<p>{note}</p>"]


def _partitions(facts: dict[str, Any]) -> list[str]:
    rows = facts["partitions"]
    largest = sorted(rows, key=lambda row: -row["records"])[:_BARS_MAX]
    shown = [row for row in rows if row in largest] if len(rows) > _BARS_MAX else rows
    total = facts["records"] or 1
    plot = bars(
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
    plot = bars("Records of the most frequent keys", rows) if rows else ""
    return [_section("The most frequent keys", f"<p>{said}.</p>{plot}")]


def _batches(facts: dict[str, Any]) -> list[str]:
    found = []
    for name, text in (("batch_records", "{:,}"), ("batch_bytes", "")):
        sizes = facts[name]
        if not sizes["histogram"]:
            continue
        show = text.format if text else bytes_text
        title = "Records per batch" if text else "Bytes per batch, stored"
        said = f"Mean {show(sizes['mean'])}, largest {show(sizes['max'])}. Batches by size, up to:"
        bins = [(show(row["up_to"]), row["batches"]) for row in sizes["histogram"]]
        found.append(_section(title, f"<p>{said}</p>" + histogram(title, bins, "batches")))
    rows = [
        [row["codec"], row["batches"], bytes_text(row["bytes"]), f"{row['ratio']:.2f}"]
        for row in facts["codecs"]
    ]
    note = "The ratio, decompressed to stored size, is measured on a sample of the batches."
    table = _table(["codec", "batches", "stored", "ratio"], rows)
    return [*found, _section("Codecs", f"{table}<p>{note}</p>")]


def _groups(facts: dict[str, Any]) -> list[str]:
    groups = facts["groups"]
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
    plot = bars("Lag of consumer groups", rows)
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


# -- plots -----------------------------------------------------------------------------------------


def over_time(
    title: str,
    times_ms: Sequence[int],
    values: Sequence[float],
    width_ms: int,
    text: Text,
    *,
    base: int = 1000,
) -> str:
    """Plot the amount in each interval of `width_ms` that begins at one of `times_ms`, ascending.

    Missing intervals are empty. If there are too many for the width, neighbours are combined and
    their mean is shown. `base` is 1024 for bytes.
    """
    first, last = times_ms[0], times_ms[-1]
    count = (last - first) // width_ms + 1
    per_step = -(-count // _STEPS_MAX)
    steps = [0.0] * -(-count // per_step)
    for time, value in zip(times_ms, values, strict=True):
        steps[(time - first) // width_ms // per_step] += value / per_step
    top = nice(max(steps), base)
    left, right, bottom = _LEFT, WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    wide = (right - left) / len(steps)
    points = [f"{left},{bottom}"]
    marks = []
    for index, value in enumerate(steps):
        x, y = left + index * wide, bottom - (bottom - _TOP) * value / top
        points += [f"{x:.1f},{y:.1f}", f"{x + wide:.1f},{y:.1f}"]
        at = first + index * per_step * width_ms
        said = f"{time_text(at)}: {text(value)}"
        marks.append(
            f'<rect class="hover" x="{x:.1f}" y="{_TOP}" width="{wide:.2f}" '
            f'height="{bottom - _TOP}"><title>{escape(said)}</title></rect>'
        )
    points.append(f"{right},{bottom}")
    end = first + len(steps) * per_step * width_ms
    span = end - first
    shape = f'<polygon class="area" points="{" ".join(points)}"/>'
    ticks = []
    for part in range(5):
        x = left + (right - left) * part / 4
        anchor = ("start", "middle", "middle", "middle", "end")[part]
        label = _tick_text(first + span * part // 4, span)
        ticks.append(_label(x, _HEIGHT - 6, label, anchor))
    return _svg(title, _HEIGHT, [*_grid(top, text), shape, *ticks, *marks])


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Plot (name, amount, label) as one bar each."""
    top = max((value for _, value, _ in rows), default=0) or 1
    full = WIDTH - _BAR_LEFT - _BAR_RIGHT
    parts = []
    for index, (name, value, said) in enumerate(rows):
        y = index * _ROW
        size = max(1.0, full * value / top) if value else 0.0
        shown = name if len(name) <= _LABEL_MAX else name[: _LABEL_MAX - 1] + "…"
        parts += [
            f"<g><title>{escape(f'{name}: {said}')}</title>",
            _label(_BAR_LEFT - 8, y + 15, shown, "end"),
            f'<rect class="bar" x="{_BAR_LEFT}" y="{y + 4}" width="{size:.1f}" height="14"/>',
            _label(_BAR_LEFT + size + 6, y + 15, said, "start"),
            "</g>",
        ]
    return _svg(title, max(1, len(rows)) * _ROW + 4, parts)


def histogram(title: str, rows: Sequence[tuple[str, int]], what: str) -> str:
    """Plot (name, count of `what`) as one column each."""
    top = nice(max((count for _, count in rows), default=1))
    left, right, bottom = _LEFT, WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    wide = min(_COLUMN_MAX, (right - left) / max(1, len(rows)))
    parts = _grid(top, lambda value: f"{value:,.0f}")
    for index, (name, count) in enumerate(rows):
        x, tall = left + index * wide, (bottom - _TOP) * count / top
        place = f'x="{x + 2:.1f}" y="{bottom - tall:.1f}"'
        parts += [
            f"<g><title>{escape(f'{name}: {count:,} {what}')}</title>",
            f'<rect class="bar" {place} width="{max(1.0, wide - 4):.1f}" height="{tall:.1f}"/>',
            _label(x + wide / 2, _HEIGHT - 6, name, "middle"),
            "</g>",
        ]
    return _svg(title, _HEIGHT, parts)


def nice(value: float, base: int = 1000) -> float:
    """Return `value` rounded up to 1, 2 or 5 times a power of ten times a power of `base`."""
    if value <= 0:
        return 1.0
    unit = float(base) ** math.floor(math.log(value, base))
    power = 10.0 ** math.floor(math.log10(max(1.0, value / unit)))
    for factor in (1, 2, 5):
        if value <= factor * power * unit:
            return factor * power * unit
    return 10 * power * unit


def time_text(time_ms: int) -> str:
    """Return a time as 2026-11-22 12:30 UTC; in ms if it is out of the calendar's range."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def _tick_text(time_ms: int, span_ms: int) -> str:
    whole = time_text(time_ms)
    if whole.endswith("ms"):
        return whole
    if span_ms <= _DAY_MS:
        return whole[11:16]
    return whole[5:16] if span_ms <= 30 * _DAY_MS else whole[:10]


def _grid(top: float, text: Text) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for step in range(3):
        y = bottom - (bottom - _TOP) * step / 2
        parts += [
            f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}"/>',
            _label(_LEFT - 6, y + 4, text(top * step / 2), "end"),
        ]
    return parts


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *parts, "</svg>"])
