"""Settings on the command line: KEY=VALUE, and suggestions for misspelt keys.

A value of a key in milliseconds or bytes may be written as people write it: retention.ms=7d,
segment.bytes=1GiB. What is neither is passed on as it is, for the broker to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import click

from client.suggest import did_you_mean

_NAMED = re.compile(r"(?:^|\.)(ms|seconds|bytes)(?:\.(?:min|max))?$")
_WRITTEN = re.compile(r"(\d{1,19})\s*([a-zA-Z]+)")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_MS = {"ms": 1} | {unit: seconds * 1_000 for unit, seconds in _SECONDS.items()}
_BYTES = {"B": 1} | {f"{unit}iB": 1024**power for power, unit in enumerate("KMGT", 1)}
_UNITS = {"ms": _MS, "seconds": _SECONDS, "bytes": _BYTES}
_INT64_MAX = (1 << 63) - 1


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Split KEY=VALUE. Raises click.UsageError."""
    found = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"{assignment!r} is not KEY=VALUE.")
        found[key.strip()] = in_units(key.strip(), value)
    return found


def in_units(key: str, value: str) -> str:
    """Return a value in the unit of its key, if it is written with another one."""
    named, written = _NAMED.search(key), _WRITTEN.fullmatch(value.strip())
    if named is None or written is None:
        return value
    scale = _UNITS[named[1]].get(written[2])
    number = int(written[1]) * scale if scale is not None else _INT64_MAX + 1
    return str(number) if number <= _INT64_MAX else value


def unknown_keys(configs: Mapping[str, Any]) -> str:
    """Return suggestions for misspelt topic settings, from the keys that this version knows."""
    from config.topic import topic_keys

    known = topic_keys()
    hints = [did_you_mean(key, known) for key in configs if key not in known]
    return " ".join(hint for hint in hints if hint)
