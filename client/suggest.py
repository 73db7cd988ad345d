"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

SUGGESTIONS_MAX = 3
ALIKE_MIN = 0.6  # of 1; difflib's default


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean a or b?" with the names most like `name`, "" if there are none."""
    from difflib import get_close_matches

    found = get_close_matches(name, sorted(known), SUGGESTIONS_MAX, ALIKE_MIN)
    if not found:
        return ""
    *rest, last = found
    return f"Did you mean {', '.join(rest)} or {last}?" if rest else f"Did you mean {last}?"
