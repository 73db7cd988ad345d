"""One metric as it is declared: its names, its kind, its help, and where its samples come from.

A family has the name that jmx_exporter's rules give it (Strimzi's boards) or the name that it has
in kafka_exporter, or one of ours. `also` are the names of the same samples in the rules of
Confluent's and Grafana's boards. docs/metrics.md is printed from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from broker.exposition.label_text import Pieces
from broker.exposition.scrape_view import ScrapeView

# What follows the name (a suffix, labels in braces, or nothing), and the value.
Sample = tuple[str, int | float]
Samples = Callable[[ScrapeView], Iterable[Sample]]
LINES = 200  # in a piece of text


class Kind(StrEnum):
    """The type of a metric, in Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"
    UNTYPED = "untyped"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `why_zero` says why it is always 0 on one node."""

    name: str
    kind: Kind
    help: str
    samples: Samples
    labels: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    why_zero: str = ""


def one(value: Callable[[ScrapeView], int | float]) -> Samples:
    """Return the samples of a metric without labels."""
    return lambda view: (("", value(view)),)


class OfPartitions:
    """A sample of each partition: a column of the view, or one number for all of them.

    There are as many of these as of all others together, so their lines are made many at a time.
    """

    def __init__(self, values: Callable[[ScrapeView], Sequence[int] | int]) -> None:
        self._values = values

    def __call__(self, view: ScrapeView) -> Iterator[Sample]:
        """Yield the samples."""
        values = self._values(view)
        for count, tail in enumerate(view.tails):
            yield tail, values if isinstance(values, int) else values[count]

    def lines(self, name: str, view: ScrapeView) -> Pieces:
        """Yield the text of the samples."""
        values = self._values(view)
        for begin in range(0, len(view.tails), LINES):
            tails = view.tails[begin : begin + LINES]
            if isinstance(values, int):
                end = f" {values}\n"
                yield f"{name}{f'{end}{name}'.join(tails)}{end}"
            else:
                some = zip(tails, values[begin : begin + LINES], strict=True)
                yield "".join([f"{name}{tail} {value}\n" for tail, value in some])
