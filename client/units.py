"""Sizes, rates and durations as people read them."""

from __future__ import annotations

from typing import Final

_STEP: Final = 1024
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTS: Final = ("", "k", "M", "G", "T")
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def size_text(count: float) -> str:
    """Return a number of bytes, above 1,023 to one decimal of a unit."""
    size = float(count)
    for unit in _SIZES:
        if abs(size) < _STEP or unit == _SIZES[-1]:
            return f"{size:.{0 if unit == 'B' else 1}f} {unit}"
        size /= _STEP
    raise AssertionError(count)


def count_text(count: float) -> str:
    """Return a number with three digits that count."""
    value = float(count)
    for unit in _COUNTS:
        if abs(value) < 999.5 or unit == _COUNTS[-1]:
            is_whole = not unit and value == int(value)
            digits = 0 if is_whole else max(0, 3 - len(f"{value:.0f}"))
            return f"{value:.{digits}f} {unit}".rstrip()
        value /= 1_000
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
