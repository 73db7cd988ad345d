"""Metrics that clients have pushed, under names and labels that Prometheus takes.

Clients choose names and labels, so both are made valid here, and what would then be there twice is
left out. Numbers that are not finite are left out too: Java's clients push NaN for "no sample yet".
"""

from __future__ import annotations

import math
import re
from typing import Final

from broker.exposition.label_text import Pieces, cut, labels
from broker.telemetry.pushed_figures import Figure, InstanceFigures, PushedFigures

STEP: Final = 200
PREFIX: Final = "kafka_client_"
KAFKAS: Final = "org.apache.kafka."
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_]")


class PushedSeries:
    """All figures of one name."""

    __slots__ = ("counters", "pushed_as", "samples")

    def __init__(self, pushed_as: str) -> None:
        self.pushed_as = pushed_as
        self.samples: dict[str, float] = {}  # by their labels
        self.counters = 0


class ClientWalk:
    """Walks over all figures once for a scrape."""

    def __init__(self, figures: PushedFigures) -> None:
        self._figures = figures
        self.series: dict[str, PushedSeries] = {}
        self.clients: list[str] = []  # labels that describe one client each

    def walk(self) -> Pieces:
        """Collect the series; yields nothing but turns."""
        count = 0
        for client in self._figures:
            self.clients.append(_described(client))
            for (name, _), figure in tuple(client.figures.items()):
                count += 1
                if not count % STEP:
                    yield ""
                self._add(name, figure, client)
            yield ""

    def _add(self, name: str, figure: Figure, client: InstanceFigures) -> None:
        if not math.isfinite(figure.value):
            return
        shown = metric_name(name)
        series = self.series.get(shown)
        if series is None:
            series = self.series[shown] = PushedSeries(name)
        tail = figure.tail
        if not tail:
            tail = figure.tail = _labels(figure.labels, client)
        if tail not in series.samples:
            series.samples[tail] = figure.value
            series.counters += figure.is_counter


def metric_name(pushed: str) -> str:
    """Return the name under which a client's metric is shown."""
    return PREFIX + _INVALID.sub("_", pushed.removeprefix(KAFKAS))


def _labels(pushed: tuple[tuple[str, str], ...], client: InstanceFigures) -> str:
    values: dict[str, str | int] = _identity(client)
    for name, value in pushed:
        valid = _INVALID.sub("_", name).lstrip("_0123456789")
        if valid:
            values.setdefault(valid, value)
    return labels(**values)


def _identity(client: InstanceFigures) -> dict[str, str | int]:
    attributes = client.attributes
    return {name: cut(attributes.get(name) or "") for name in ("client_id", "client_instance_id")}


def _described(client: InstanceFigures) -> str:
    values = _identity(client)
    attributes = client.attributes
    for name in ("client_software_name", "client_software_version", "client_source_address"):
        values[name] = cut(attributes.get(name) or "")
    for name in ("group_id", "transactional_id"):
        values[name] = client.resource.get(name, "")
    return labels(**values)
