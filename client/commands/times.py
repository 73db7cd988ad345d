"""Points in time on the command line: read as people write them, shown in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

TIME_MS_MAX: Final = (1 << 63) - 1  # the protocol's int64
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, *, besides: str = "") -> int:
    """Return ms since 1970: of ms themselves, or of an ISO 8601 time (UTC unless it says).

    Raises click.UsageError, whose sentence also names what the option takes `besides` a time.
    """
    if text.isdecimal():
        return _bounded(text, 1)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is no time, wanted {besides}2026-05-01T12:00:00Z, 2026-05-01 or "
            "ms since 1970."
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    if (time_ms := int(found.timestamp() * 1000)) < 0:
        # Records before 1970 do not exist, and the protocol keeps negative times for places.
        raise click.UsageError(f"{text!r} is before 1970, wanted a later time.")
    return time_ms


def parse_duration(text: str) -> int:
    """Return ms of a number with a unit: 90s, 15m, 2h, 7d, 500ms. Raises click.UsageError."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    if found is None:
        raise click.UsageError(f"{text!r} is no duration, wanted 90s, 15m, 2h, 7d or 500ms.")
    return _bounded(found[1], _UNIT_MS[found[2]])


def _bounded(digits: str, unit_ms: int) -> int:
    """Return the ms that a number of units makes. Raises click.UsageError above `TIME_MS_MAX`."""
    # Python refuses to convert some thousand digits; so many are too large anyway.
    time_ms = int(digits) * unit_ms if len(digits) <= 20 else TIME_MS_MAX + 1
    if time_ms > TIME_MS_MAX:
        raise click.UsageError(f"{digits} is too large, wanted at most {TIME_MS_MAX // unit_ms}.")
    return time_ms


def time_text(time_ms: int) -> str:
    """Return ms since 1970 as ISO 8601 in UTC; the number itself where no year has it."""
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
