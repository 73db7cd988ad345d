"""Boards for Kafka, asked through a real Prometheus: every query that they ask answers.

Debian's Prometheus scrapes a broker under load with the configuration of docs/grafana, which sets
the labels that the boards filter by. `tests.interop.board_queries` has the queries of the popular
boards. `EMPTY` says which metrics one process without a JVM cannot have, and why.

Where Prometheus is not installed, nothing runs, and pytest says so.
"""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from tests.interop.board_queries import BOARDS
from tests.interop.page_browser import Served
from tests.support.broker_process import free_port

pytestmark = [pytest.mark.interop]

ROOT = Path(__file__).parents[2]
SCRAPES = 4
GROUP, TOPIC = "billing", "orders"


EMPTY = {
    "jvm_": "there is no JVM",
    "java_lang_": "there is no JVM",
    "container_": "cAdvisor's, of a cluster of Kubernetes",
    "kubelet_": "a kubelet's",
    "zookeeper_": "there is no ZooKeeper",
    "kafka_server_zookeeperclientmetrics_": "there is no ZooKeeper",
    "kafka_server_sessionexpirelistener_": "there is no ZooKeeper",
    "kafka_log_log_tiersize": "there is no tiered storage",
    "kafka_tier_tasks_": "there is no tiered storage",
}


def is_empty(name: str) -> bool:
    return name.startswith(tuple(EMPTY))


class Asked:
    """A Prometheus that has scraped a broker."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}/api/v1/query?"

    def query(self, text: str) -> list[Any]:
        with urllib.request.urlopen(
            self._base + urllib.parse.urlencode({"query": text}), timeout=20
        ) as answer:
            found = json.load(answer)
        assert found["status"] == "success", (text, found)
        result: list[Any] = found["data"]["result"]
        return result


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed: the boards were not asked")
    served = Served(tmp_path_factory.mktemp("boards") / "data")
    served.start()
    yield served
    served.kill()


@pytest.fixture(scope="module")
def asked(broker: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    home, port = tmp_path_factory.mktemp("prometheus"), free_port()
    text = (ROOT / "docs/grafana/prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:9095", f"127.0.0.1:{broker.http}")
    text = text.replace("scrape_interval: 15s", "scrape_interval: 1s")
    (home / "prometheus.yml").write_text(text)
    shutil.copy(ROOT / "docs/grafana/alerts.yml", home)
    process = subprocess.Popen(
        ["prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
    )  # fmt: skip
    found = Asked(port)
    try:
        producer = work(broker, found)
        yield found
        producer.flush(10)  # it has stayed connected: some metrics are of open connections
    finally:
        process.terminate()
        process.wait(20)


def work(broker: Served, asked: Asked) -> Producer:
    """Produce, consume and commit, until the lag of the group has been scraped a few times.

    Returns the producer, whose connection is open.
    """
    settings = {"bootstrap.servers": f"127.0.0.1:{broker.kafka}"}
    producer = Producer({**settings, "client.id": "shop"})
    consumer = Consumer(
        {
            **settings,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 90
    while not enough(asked):
        assert time.monotonic() < deadline, "Prometheus has not scraped what was done"
        for number in range(100):
            producer.produce(TOPIC, key=f"{number}", value="x" * 100)
        producer.flush(10)
        if (message := consumer.poll(0.2)) is not None and not message.error():
            consumer.commit(message=message, asynchronous=False)
    consumer.close()
    return producer


def enough(asked: Asked) -> bool:
    counted = 'min(count_over_time(kafka_consumer_lag_millis{consumergroup="billing"}[5m]))'
    try:
        found = asked.query(counted)
    except OSError:
        return False  # it is starting
    return bool(found) and float(found[0]["value"][1]) >= SCRAPES


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_of_a_board_answers(asked: Asked, name: str) -> None:
    queries = [one for one in BOARDS[name].queries() if not is_empty(one.metric)]
    assert [one.text for one in queries if not asked.query(one.text)] == []


def test_what_is_said_to_be_empty_is_asked_for_and_empty(asked: Asked) -> None:
    queries = [one for board in BOARDS.values() for one in board.queries()]
    for prefix in EMPTY:
        found = [one for one in queries if one.metric.startswith(prefix)]
        assert found, f"no board asks for {prefix}"
        assert [one.text for one in found if asked.query(one.text)] == []


def test_the_page_under_load_is_read_by_both_judges(broker: Served, asked: Asked) -> None:
    del asked  # it has worked
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.http}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    count = sum(len(family.samples) for family in text_string_to_metric_families(text))
    assert count == sum(not line.startswith("#") for line in text.splitlines())
    done = subprocess.run(
        ["promtool", "check", "rules", str(ROOT / "docs/grafana/alerts.yml")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_our_own_alerts_and_board_find_their_metrics(asked: Asked) -> None:
    board = json.loads((ROOT / "docs/grafana/barnabas.json").read_text(encoding="utf-8"))
    silent = []
    for text in expressions(board):
        filled = text.replace("$__rate_interval", "1m").replace("$instance", ".*")
        if not asked.query(filled):
            silent.append(filled)
    assert silent == []


def expressions(found: Any) -> Iterator[str]:
    """Yield the queries of a board."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "expr":
                yield value
            else:
                yield from expressions(value)
    elif isinstance(found, list):
        for one in found:
            yield from expressions(one)
