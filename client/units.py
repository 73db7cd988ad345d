"""Sizes, rates and durations as people read them."""

from __future__ import annotations

from typing import Final

_STEP: Final = 1024
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS: Final = ("", "k", "M", "G", "T")
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def size_text(count: float) -> str:
    """Return bytes with three digits that count."""
    return _scaled(count, _STEP, _SIZES)


def count_text(count: float) -> str:
    """Return a number with three digits that count."""
    return _scaled(count, 1_000, _COUNTS)


def _scaled(count: float, step: int, units: tuple[str, ...]) -> str:
    value = float(count)
    for unit in units:
        if abs(value) < 999.5 or unit == units[-1]:
            is_whole = unit == units[0] and value == int(value)
            digits = 0 if is_whole else max(0, 3 - len(f"{value:.0f}"))
            return f"{value:.{digits}f} {unit}".rstrip()
        value /= step
    raise AssertionError("the last unit takes everything")


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units."""
    left = max(0, int(seconds))
    if left < MINUTE:
        return f"{left} s"
    if left < HOUR:
        return f"{left // MINUTE} min {left % MINUTE} s"
    if left < DAY:
        return f"{left // HOUR} h {left % HOUR // MINUTE} min"
    return f"{left // DAY} d {left % DAY // HOUR} h"
