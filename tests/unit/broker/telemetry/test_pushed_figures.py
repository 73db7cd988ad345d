"""Figures: gauges are replaced, deltas add up, room is bounded, and the old go."""

import math

import pytest

from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.telemetry import pushed_figures
from broker.telemetry.otlp import Point
from broker.telemetry.pushed_figures import PushedFigures
from tests.unit.broker.telemetry.test_client_instances import made


def point(name: str, value: float, *, is_delta: bool = False, **labels: str) -> Point:
    return Point(name, tuple(labels.items()), value, is_delta, is_delta)


def values(figures: PushedFigures) -> dict[str, float]:
    return {
        name + str(dict(labels) or ""): figure.value
        for client in figures
        for (name, labels), figure in client.figures.items()
    }


def test_gauges_are_replaced_and_deltas_add_up() -> None:
    figures = PushedFigures(ManualClock(), Metrics())
    one = made()
    for value in (1, 2, math.nan):
        figures.take(one, [point("g", 9 - value), point("c", value, is_delta=True)], {})
    found = values(figures)
    assert found["c"] == 3
    assert math.isnan(found["g"])


def test_there_is_room_for_so_many_and_each_has_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_figures, "SERIES_MAX", 5)
    monkeypatch.setattr(pushed_figures, "INSTANCE_SERIES_MAX", 3)
    clock, metrics = ManualClock(), Metrics()
    figures = PushedFigures(clock, metrics)
    for number in (1, 2):
        points = [point("g", n, partition=str(n)) for n in range(4)]
        figures.take(made(number), points, {})
        clock.advance(30_000)
    assert [len(client.figures) for client in figures] == [3, 2]
    assert (metrics.client_series_now, metrics.client_series_refused) == (5, 3)
    clock.advance(0)
    figures.expire()
    assert metrics.client_series_now == 2
    figures.take(made(3), [point("g", 1)], {})
    assert metrics.client_series_now == 3


def test_invented_ids_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_figures, "CLIENTS_MAX", 3)
    metrics = Metrics()
    figures = PushedFigures(ManualClock(), metrics)
    for number in range(1, 6):
        figures.take(made(number), [point("g", 1)], {})
    assert [client.instance_id[-1] for client in figures] == [3, 4, 5]
    assert (metrics.client_series_now, metrics.client_figures_displaced) == (3, 2)
    figures.take(made(4), [point("g", 2)], {})
    figures.take(made(6), [], {})
    assert [client.instance_id[-1] for client in figures] == [5, 4, 6]


def test_figures_outlive_their_connection_for_a_while() -> None:
    clock = ManualClock()
    figures = PushedFigures(clock, Metrics())
    one = made()
    figures.take(one, [point("g", 1)], {"group_id": "g1"})
    one.info.has_ended = True
    clock.advance(59_999)
    figures.expire()
    assert [client.resource for client in figures] == [{"group_id": "g1"}]
    clock.advance(1)
    figures.expire()
    assert list(figures) == []
