"""One screen of `barnabas top` for rich: a head, notices, topics by rate, groups by lag.

It fits any size: columns go as the terminal narrows, rows as it gets lower.
"""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from client.top.snapshot import Snapshot, TopicRates, rates_of
from client.units import count_text, size_text

WIDE: Final = 90  # columns from which every column is shown
NARROW: Final = 56
HEAD_LINES: Final = 9  # the head, titles and rules
SHARE: Final = 3  # groups have a third of the rows
UNKNOWN: Final = "-"


def screen(
    now: Snapshot, before: Snapshot | None, width: int, height: int, hint: str = ""
) -> RenderableType:
    """Return what is shown."""
    parts: list[RenderableType] = [Text(now.title, style="bold", overflow="ellipsis"), _facts(now)]
    if hint:
        parts.append(Text(hint, style="dim"))
    parts += [Text(f"! {one}", style="bold red") for one in now.notices]
    room = max(4, height - HEAD_LINES - len(now.notices) - _facts_lines(now, width))
    group_rows = min(len(now.groups), max(1, room // SHARE)) if now.groups else 0
    parts.append(_topics(now, before, width, room - group_rows - (2 if group_rows else 0)))
    if group_rows:
        parts.append(_groups(now, group_rows, width))
    return Group(*parts)


def _facts(now: Snapshot) -> Text:
    text = Text()
    for word, value in now.facts:
        text.append(f"{word} ", style="dim")
        text.append(f"{value}   ")
    return text


def _facts_lines(now: Snapshot, width: int) -> int:
    return sum(len(word) + len(value) + 4 for word, value in now.facts) // max(1, width) + 1


def _topics(now: Snapshot, before: Snapshot | None, width: int, rows: int) -> Table:
    rates = rates_of(now, before)
    has_bytes = any(one.bytes_in is not None for one in now.topics)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("topic", overflow="ellipsis", no_wrap=True, max_width=max(12, width - 44))
    columns = ["records/s"]
    if has_bytes:
        columns += ["in/s", "out/s"] if width >= NARROW else ["in/s"]
    if width >= WIDE:
        columns += ["records", "partitions"]
    columns.append("size")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    order = sorted(now.topics, key=lambda one: (-_weight(rates[one.name]), -(one.size_bytes or 0)))
    for one in order[: max(1, rows)]:
        rate = rates[one.name]
        cells = {
            "records/s": _rate(rate.records, is_size=False),
            "in/s": _rate(rate.bytes_in, is_size=True),
            "out/s": _rate(rate.bytes_out, is_size=True),
            "records": count_text(one.records),
            "partitions": str(one.partitions),
            "size": UNKNOWN if one.size_bytes is None else size_text(one.size_bytes),
        }
        table.add_row(Text(one.name), *(cells[name] for name in columns))
    return table


def _weight(rate: TopicRates) -> float:
    return max(rate.bytes_in or 0, rate.bytes_out or 0, rate.records or 0)


def _rate(value: float | None, *, is_size: bool) -> str:
    if value is None:
        return UNKNOWN
    return size_text(value) if is_size else count_text(value)


def _groups(now: Snapshot, rows: int, width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group", overflow="ellipsis", no_wrap=True, max_width=max(12, width - 40))
    table.add_column("lag", justify="right")
    has_members = any(one.members is not None for one in now.groups)
    if has_members:
        table.add_column("members", justify="right")
    else:
        table.add_column("state")
    for one in sorted(now.groups, key=lambda group: -group.lag)[:rows]:
        last = one.state if one.members is None else str(one.members)
        table.add_row(Text(one.name), count_text(one.lag), last)
    return table
