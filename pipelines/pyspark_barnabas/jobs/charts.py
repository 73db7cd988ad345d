"""Three kinds of plots as SVG, for a page that needs nothing but itself.

    over_time     how much there was at each time, as an area of steps
    bars          named amounts, each on a line
    columns       a histogram

An SVG is a string of text in 720 units of width, coloured by the classes of
pyspark_barnabas.jobs.page; what stands under the pointer says its number (`<title>`). Names
from topics and keys are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

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


def over_time(
    title: str,
    times_ms: Sequence[int],
    values: Sequence[float],
    width_ms: int,
    text: Text,
    *,
    base: int = 1000,
) -> str:
    """Plot the amount in each interval of `width_ms` that begins at one of `times_ms`, rising.

    Intervals that are left out are empty. Where there are too many for the width, neighbours are
    put together and their mean is shown. `base` is 1024 for what has units of bytes.
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
    """Plot (name, amount, what to write behind it) as one bar each."""
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


def columns(title: str, rows: Sequence[tuple[str, int]], what: str) -> str:
    """Plot (name, count) as one column each; `what` is counted."""
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
    """Return the next larger of 1, 2, 5 times a power of ten times a power of `base`."""
    if value <= 0:
        return 1.0
    unit = float(base) ** math.floor(math.log(value, base))
    power = 10.0 ** math.floor(math.log10(max(1.0, value / unit)))
    for factor in (1, 2, 5):
        if value <= factor * power * unit:
            return factor * power * unit
    return 10 * power * unit


def time_text(time_ms: int) -> str:
    """Return a time as 2026-11-22 12:30 UTC; a number of ms where no calendar has it."""
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
