"""A look-up by time in one call; the broker does it in steps, some of them in its pool."""

from __future__ import annotations

from collections.abc import Iterable

from storage.segments.timestamp_lookup import TimestampCandidate, TimestampOffset


def first_found(candidates: Iterable[TimestampCandidate]) -> TimestampOffset | None:
    """Search the candidates in order; return the first record found, or None."""
    for candidate in candidates:
        while not candidate.is_over:
            candidate.look_on()
        if candidate.found is not None:
            return candidate.found
    return None
