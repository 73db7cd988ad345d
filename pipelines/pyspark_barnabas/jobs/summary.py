"""What a run says at its end: an `Outcome`, in lines for a person and in facts for a program.

The small texts of it too: counts, bytes and tables as a person reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(kw_only=True)
class Outcome:
    """How a run ended. `facts` hold JSON's types only; `failed` means exit code 1.

    `error` is the kind of an error where the run could not be done: what it found otherwise, as
    damage, is no error.
    """

    facts: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    failed: bool = False
    error: str | None = None


def bytes_text(count: float) -> str:
    """Return a number of bytes with a unit, three digits or so."""
    size = float(count)
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError(count)


def plural(count: int, noun: str) -> str:
    """Return "1 file", "2,000 files", "2 batches"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows under their columns as lines; numbers stand to the right."""
    texts = [[cell_text(cell) for cell in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[n], int | float | None) for row in rows)
        for n in range(len(columns))
    ]
    widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(columns), *texts]
    ]


def cell_text(value: object) -> str:
    """Return a cell of a table: numbers with separators, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
