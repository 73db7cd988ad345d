"""Metrics that clients push, as /metrics and the JSON API show them, whatever clients name them."""

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.console.walks import EACH, Turns
from broker.exposition.client_walk import metric_name
from broker.telemetry.otlp import Point
from tests.support.console_client import ConsoleBroker
from tests.unit.broker.telemetry.test_client_instances import made

HOSTILE = 'x"<script>\\\n\u202e\0é'


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    broker = await ConsoleBroker.start(tmp_path / "data")
    yield broker
    await broker.stop()


def take(broker: ConsoleBroker, number: int, *points: Point) -> None:
    instance = made(number)
    instance.attributes = {"client_id": HOSTILE, "client_instance_id": f"i{number}"}
    broker.services.telemetry.figures.take(instance, points, {"group_id": HOSTILE})


def gauge(name: str, value: float, **labels: str) -> Point:
    return Point(name, tuple(labels.items()), value, is_delta=False, is_counter=False)


def counter(name: str, value: float) -> Point:
    return Point(name, (), value, is_delta=True, is_counter=True)


async def scraped(broker: ConsoleBroker) -> dict[str, list[tuple[dict[str, str], float, str]]]:
    answered = await broker.ask("/metrics")
    found: dict[str, list[tuple[dict[str, str], float, str]]] = {}
    names = set()
    for family in text_string_to_metric_families(answered.body.decode()):
        assert (family.name, family.type) not in names
        names.add((family.name, family.type))
        if family.name.startswith("kafka_client_"):
            rows = [(dict(one.labels), one.value, family.type) for one in family.samples]
            assert len({str(labels) for labels, _, _ in rows}) == len(rows)
            found[family.name] = rows
    return found


async def test_figures_are_shown_with_their_labels(running: ConsoleBroker) -> None:
    for number in (1, 2):
        take(
            running, number,
            gauge("org.apache.kafka.producer.record.queue.time.avg", 1.5 * number, topic=HOSTILE),
            counter("org.apache.kafka.producer.record.error.total", 2),
            counter("org.apache.kafka.producer.record.errors", 2),
        )  # fmt: skip
    take(running, 1, counter("org.apache.kafka.producer.record.error.total", 3))
    found = await scraped(running)
    client = {"client_id": HOSTILE, "client_instance_id": "i1"}
    other = {**client, "client_instance_id": "i2"}
    queue_time = found["kafka_client_producer_record_queue_time_avg"]
    assert sorted(queue_time, key=str) == [
        ({**client, "topic": HOSTILE}, 1.5, "gauge"),
        ({**other, "topic": HOSTILE}, 3.0, "gauge"),
    ]
    errors = found["kafka_client_producer_record_error"]  # the parser takes _total off
    assert sorted(errors, key=str) == [(client, 5.0, "counter"), (other, 2.0, "counter")]
    assert found["kafka_client_producer_record_errors"][0][2] == "unknown"
    info = {one["client_instance_id"]: one["group_id"] for one, _, _ in found["kafka_client_info"]}
    assert info == {"i1": HOSTILE, "i2": HOSTILE}
    assert await running.ask("/metrics?name[]=kafka_client_info")


async def test_no_name_or_number_breaks_the_page(running: ConsoleBroker) -> None:
    take(
        running, 1,
        gauge(HOSTILE, 1), gauge("", 2), gauge("a.b", 3), gauge("a-b", 4),
        gauge("info", 5), gauge("nan", math.nan), gauge("inf", math.inf),
        gauge("l", 6, **{"a.b": "1", "a-b": "2", "9": "3", "__name__": "evil", "client_id": "x"}),
    )  # fmt: skip
    found = await scraped(running)
    assert found[metric_name(HOSTILE)][0][1] == 1
    assert [row[1] for row in found["kafka_client_a_b"]] == [3]
    assert [row[1] for row in found["kafka_client_info"]] == [1]
    assert found["kafka_client_l"][0][0] == {
        "client_id": HOSTILE, "client_instance_id": "i1", "a_b": "1", "name__": "evil",
    }  # fmt: skip
    assert "kafka_client_nan" not in found
    assert "kafka_client_inf" not in found


async def test_what_a_client_says_of_itself_is_cut(running: ConsoleBroker) -> None:
    """It stands beside each of its samples: a name of 32 KiB would be a page of megabytes."""
    instance = made(1)
    instance.attributes = {"client_id": "x" * 30_000, "client_software_version": "y" * 30_000}
    points = [gauge("g", 1, n=str(n)) for n in range(300)]
    running.services.telemetry.figures.take(instance, points, {})
    found = await scraped(running)
    assert found["kafka_client_info"][0][0]["client_id"] == "x" * 200 + "…"
    assert len((await running.ask("/metrics?name[]=kafka_client_g")).body) < 300 * 400


async def test_the_json_api_takes_turns(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure may have some 6 KB of labels: thousands in one step would hold the loop."""
    looks = 0

    async def look(_: Turns) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(Turns, "look", look)
    take(running, 1, *(gauge(f"g{n}", 1) for n in range(320)))
    (client,) = (await running.get("client-metrics"))["clients"]
    assert len(client["metrics"]) == 320
    assert looks == 320 // EACH


async def test_the_json_api_lists_clients_and_figures(running: ConsoleBroker) -> None:
    take(running, 1, gauge("g", math.nan, topic="t"), counter("c", 2))
    take(running, 2, gauge("g", 1))
    found = await running.get("client-metrics?offset=0&limit=1")
    assert found["total"] == 2
    (client,) = found["clients"]
    assert client["client_id"] == HOSTILE
    assert client["resource"] == {"group_id": HOSTILE}
    assert client["metrics"] == [
        {"name": "g", "labels": {"topic": "t"}, "value": None, "is_counter": False},
        {"name": "c", "labels": {}, "value": 2, "is_counter": True},
    ]
    assert json.dumps(found)
