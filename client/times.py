"""Points in time on the command line: read as people write them, shown in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str) -> int:
    """Return ms since 1970: of ms themselves, or of an ISO 8601 time (UTC unless it says).

    Raises click.UsageError.
    """
    if text.isdecimal():
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is no time, wanted 2026-05-01T12:00:00Z, 2026-05-01 or ms since 1970."
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Return ms of a number with a unit: 90s, 15m, 2h, 7d, 500ms. Raises click.UsageError."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    if found is None:
        raise click.UsageError(f"{text!r} is no duration, wanted 90s, 15m, 2h, 7d or 500ms.")
    return int(found[1]) * _UNIT_MS[found[2]]


def time_text(time_ms: int) -> str:
    """Return ms since 1970 as ISO 8601 in UTC; the number itself where no year has it."""
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
