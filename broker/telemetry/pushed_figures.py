"""The figures that clients have pushed: the last value of each gauge, the sum of each counter.

Clients push what a counter has gained since the push before (delta temporality, as Kafka asks), so
the broker adds it up. A figure belongs to one client instance and goes with it: when the instance
was not heard of for long, or a push said that it was the last one and its time is over.

All instances together have at most `SERIES_MAX` figures, and each `INSTANCE_SERIES_MAX` of them, so
one client cannot take the room of many. What finds no room is counted and left out. Of at most
`CLIENTS_MAX` instances anything is kept, so ids that a client invents take no memory: the one that
pushed longest ago gives way.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.telemetry.client_instances import ClientInstance
from broker.telemetry.metric_subscriptions import Attributes
from broker.telemetry.otlp import Labels, Point

SERIES_MAX: Final = 5_000
INSTANCE_SERIES_MAX: Final = 500
CLIENTS_MAX: Final = 2_000


class Figure:
    """One number."""

    __slots__ = ("is_counter", "labels", "tail", "value")

    def __init__(self, labels: Labels, *, is_counter: bool) -> None:
        self.labels = labels
        self.value = 0.0
        self.is_counter = is_counter
        self.tail = ""  # its labels as /metrics writes them, once they were written


class InstanceFigures:
    """What one client instance has pushed."""

    __slots__ = (
        "attributes", "figures", "instance_id", "is_terminating", "kept_ns", "principal",
        "pushed_ms", "pushed_ns", "pushes", "resource",
    )  # fmt: skip

    def __init__(self, instance_id: bytes) -> None:
        self.instance_id = instance_id
        self.attributes: Attributes = {}
        self.resource: Mapping[str, str] = {}
        self.principal = ""
        self.figures: dict[tuple[str, Labels], Figure] = {}
        self.pushes = 0
        self.pushed_ms = 0  # of the wall clock
        self.pushed_ns = 0
        self.kept_ns = 0
        self.is_terminating = False


class PushedFigures:
    """All figures, by client instance."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._by_id: OrderedDict[bytes, InstanceFigures] = OrderedDict()
        self._count = 0

    def __iter__(self) -> Iterator[InstanceFigures]:
        """Iterate over those there are now."""
        return iter(tuple(self._by_id.values()))

    def take(
        self, instance: ClientInstance, points: Iterable[Point], resource: Mapping[str, str]
    ) -> None:
        """Enter the points of a push."""
        found = self._by_id.get(instance.instance_id)
        if found is None:
            if len(self._by_id) >= CLIENTS_MAX:
                self._count -= len(self._by_id.popitem(last=False)[1].figures)
                self._metrics.client_figures_displaced += 1
            found = self._by_id[instance.instance_id] = InstanceFigures(instance.instance_id)
        self._by_id.move_to_end(instance.instance_id)
        found.attributes = instance.attributes
        found.principal = instance.info.principal
        found.resource = resource
        found.pushes += 1
        found.pushed_ms = self._clock.now_ms()
        found.pushed_ns = self._clock.monotonic_ns()
        found.kept_ns = instance.kept_ns
        found.is_terminating = instance.is_terminating
        for point in points:
            self._enter(found, point)
        self._metrics.client_series_now = self._count

    def _enter(self, found: InstanceFigures, point: Point) -> None:
        key = (point.name, point.labels)
        figure = found.figures.get(key)
        if figure is None:
            if len(found.figures) >= INSTANCE_SERIES_MAX or self._count >= SERIES_MAX:
                self._metrics.client_series_refused += 1
                return
            figure = found.figures[key] = Figure(point.labels, is_counter=point.is_counter)
            self._count += 1
        if not point.is_delta:
            figure.value = point.value
        elif math.isfinite(point.value):  # else the sum would never be a number again
            figure.value += point.value

    def expire(self) -> None:
        """Forget the figures of instances that have not pushed for long."""
        now_ns = self._clock.monotonic_ns()
        for found in self:
            if now_ns - found.pushed_ns >= found.kept_ns:
                del self._by_id[found.instance_id]
                self._count -= len(found.figures)
        self._metrics.client_series_now = self._count
