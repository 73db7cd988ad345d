"""Points in time on the command line: read as people write them, shown in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import click


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


def time_text(time_ms: int) -> str:
    """Return ms since 1970 as ISO 8601 in UTC; the number itself where no year has it."""
    try:
        found = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return found.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"
