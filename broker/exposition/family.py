"""One metric as it is declared: its names, its kind, its help, and where its samples come from.

A family has the name that jmx_exporter's rules give it (Strimzi's boards) or the name that it has
in kafka_exporter, or one of ours. `also` are the names of the same samples in the rules of
Confluent's and Grafana's boards. docs/metrics.md is printed from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from broker.exposition.scrape_view import ScrapeView

# What follows the name (a suffix, labels in braces, or nothing), and the value.
Sample = tuple[str, int | float]
Samples = Callable[[ScrapeView], Iterable[Sample]]


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
