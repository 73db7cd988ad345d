"""Prometheus's text format: escaping, HELP and TYPE, and the text of families in small pieces.

A piece has at most `LINES` samples and little more than `CHARACTERS` (names of groups may have
32 KiB), so a page of any size is made in slices (broker/http). The
writer costs about 0.4 us a sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from broker.exposition.family import LINES, Family, Kind, OfPartitions
from broker.exposition.label_text import Pieces
from broker.exposition.scrape_view import ScrapeView

CHARACTERS: Final = 64 * 1024
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def written(families: Iterable[Family], view: ScrapeView, wanted: Collection[str] = ()) -> Pieces:
    """Yield the text of `families`, or of those with a name in `wanted`."""
    yield from view.prepare()
    for family in families:
        for name in (family.name, *family.also):
            if not wanted or name in wanted:
                kind = family.kind
                if name != family.name and kind is Kind.COUNTER:
                    kind = Kind.UNTYPED  # without _total, as Confluent's rules have it
                yield from _written(family, name, kind, view)


def _written(family: Family, name: str, kind: Kind, view: ScrapeView) -> Pieces:
    lines = [f"# HELP {name} {_escaped_help(family.help)}\n# TYPE {name} {kind}\n"]
    if isinstance(family.samples, OfPartitions):
        yield lines[0]
        yield from family.samples.lines(name, view)
        return
    size = 0
    for tail, value in family.samples(view):
        lines.append(f"{name}{tail} {value}\n")
        size += len(tail)
        if len(lines) >= LINES or size >= CHARACTERS:
            yield "".join(lines)
            lines.clear()
            size = 0
    yield "".join(lines)


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
