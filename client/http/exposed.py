"""Reads Prometheus's text format as the broker writes it: names, types, help, samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(slots=True)
class Exposed:
    """One metric; samples are their name's ending, their labels and their value."""

    name: str
    kind: str = ""
    help: str = ""
    samples: list[tuple[str, dict[str, str], float]] = field(default_factory=list)


def exposed(text: str) -> Iterator[Exposed]:
    """Yield the metrics of a page in its order."""
    current: Exposed | None = None
    for line in text.split("\n"):
        if line.startswith("# HELP "):
            name, _, about = line[7:].partition(" ")
            if current is not None:
                yield current
            current = Exposed(name, help=about.replace(r"\n", "\n").replace("\\\\", "\\"))
        elif line.startswith("# TYPE ") and current is not None:
            current.kind = line.rpartition(" ")[2]
        elif line and not line.startswith("#") and current is not None:
            head, _, value = line.rpartition(" ")
            shown, brace, rest = head.partition("{")
            labels = {name: _plain(raw) for name, raw in _LABEL.findall(rest)} if brace else {}
            current.samples.append((shown.removeprefix(current.name), labels, float(value)))
    if current is not None:
        yield current


def _plain(raw: str) -> str:
    return _ESCAPED.sub(lambda one: "\n" if one[1] == "n" else one[1], raw)
