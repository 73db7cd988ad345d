"""Times and durations on the command line; times are shown in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

TIME_MS_MAX: Final = (1 << 63) - 1  # the protocol's int64
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, *, besides: str = "") -> int:
    """Return ms since 1970, given as such or as an ISO 8601 time (UTC unless it has a zone).

    Raises click.UsageError; its sentence also names what the option accepts `besides` a time.
    """
    if text.isdecimal():
        return _bounded(text, 1)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is not a time; expected {besides}2026-05-01T12:00:00Z, 2026-05-01 or "
            "ms since 1970."
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    if (time_ms := int(found.timestamp() * 1000)) < 0:
        # No record is older than 1970, and negative times have special meanings in the protocol.
        raise click.UsageError(f"{text!r} is before 1970.")
    return time_ms


def parse_duration(text: str) -> int:
    """Return a duration (90s, 15m, 2h, 7d, 500ms) in ms. Raises click.UsageError."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    if found is None:
        raise click.UsageError(f"{text!r} is not a duration; expected 90s, 15m, 2h, 7d or 500ms.")
    return _bounded(found[1], _UNIT_MS[found[2]])


def _bounded(digits: str, unit_ms: int) -> int:
    """Return a number of units in ms. Raises click.UsageError above `TIME_MS_MAX`."""
    # Python refuses to convert thousands of digits; so many are too large anyway.
    time_ms = int(digits) * unit_ms if len(digits) <= 20 else TIME_MS_MAX + 1
    if time_ms > TIME_MS_MAX:
        raise click.UsageError(f"{digits} is too large; the maximum is {TIME_MS_MAX // unit_ms}.")
    return time_ms


def time_text(time_ms: int) -> str:
    """Return ms since 1970 as ISO 8601 in UTC, or the number itself if Python has no such date."""
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
