"""Settings on the command line: KEY=VALUE, and suggestions for misspelt keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from client.suggest import did_you_mean


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Split KEY=VALUE. Raises click.UsageError."""
    found = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{assignment!r} is not KEY=VALUE.")
        found[key.strip()] = value
    return found


def unknown_keys(configs: Mapping[str, Any]) -> str:
    """Return suggestions for misspelt topic settings, from the keys that this version knows."""
    from config.topic import topic_keys

    known = topic_keys()
    hints = [did_you_mean(key, known) for key in configs if key not in known]
    return " ".join(hint for hint in hints if hint)
