"""Metrics that clients push: errors equal to those of Kafka 4.3 with a receiver, and real clients.

The oracle is an Apache Kafka with a small plugin that receives metrics (TelemetryReceiver.java),
without which Kafka does not serve these APIs.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.wire import ZERO_UUID
from tests.interop.java_process import compiled
from tests.interop.oracle.kafka import KafkaNode, free_ports, java, libs, tool
from tests.support.broker_process import BrokerProcess
from tests.support.otlp_writer import attribute, fixed, gauge, part, point, pushed, total

pytestmark = pytest.mark.interop

TIMEOUT_S = 20
SET, DELETE = 0, 1
PATIENCE_S = 120.0
PUSH = pushed(gauge("g", point(1.5, topic="t")), total("c", point(4)), client_rack="r")
COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"


class TelemetryPeer:
    """A client instance of one broker, on a connection of its own."""

    def __init__(self, address: str) -> None:
        self.connection = Connection(address, TIMEOUT_S)
        self.connection.open()
        self.instance_id = ZERO_UUID
        self.subscription_id = 0

    def ask(self) -> GetTelemetrySubscriptionsResponse:
        body = GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        answer: GetTelemetrySubscriptionsResponse = self.connection.call(
            body, GetTelemetrySubscriptionsResponse
        )
        if not answer.error_code:
            self.instance_id = answer.client_instance_id
            self.subscription_id = answer.subscription_id
        return answer

    def push(self, metrics: bytes = PUSH, codec: int = NONE, **given: Any) -> int:
        fields = {
            "client_instance_id": self.instance_id,
            "subscription_id": self.subscription_id,
            **given,
        }
        body = PushTelemetryRequest(compression_type=codec, metrics=metrics, **fields)
        code: int = self.connection.call(body, PushTelemetryResponse).error_code
        return code


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Those of Kafka with the plugin, and of Barnabas without a default subscription."""
    libs()
    plugins = tmp_path_factory.mktemp("plugins")
    compiled("TelemetryReceiver", plugins)
    kafka = KafkaNode(
        tmp_path_factory.mktemp("kafka"), settings={"metric.reporters": "TelemetryReceiver"}
    )
    kafka.plugins = plugins
    settings = {"barnabas.client.metrics.default": ""}
    ours = BrokerProcess(tmp_path_factory.mktemp("ours") / "data", settings)
    try:
        for broker in (kafka, ours):
            broker.start()
        yield [kafka.address, ours.address]
    finally:
        for broker in (kafka, ours):
            if broker.running:
                broker.kill()


def subscribe(address: str, name: str, **configs: str | None) -> None:
    with Connection(address, TIMEOUT_S) as connection:
        rows = [
            AlterableConfig(
                name=key.replace("_", "."),
                config_operation=DELETE if value is None else SET,
                value=value,
            )
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=16, resource_name=name, configs=rows)
        answer = connection.call(
            IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
        )
        assert answer.responses[0].error_code == 0, answer


def both(addresses: list[str], script: Callable[[TelemetryPeer], Any]) -> tuple[Any, Any]:
    """What both answer to the same."""
    found = []
    for address in addresses:
        peer = TelemetryPeer(address)
        try:
            found.append(script(peer))
        finally:
            peer.connection.close()
    return found[0], found[1]


def subscription(answer: GetTelemetrySubscriptionsResponse) -> Any:
    """An answer but for its ids and the order of names."""
    return (
        answer.error_code, sorted(answer.requested_metrics), answer.push_interval_ms,
        answer.accepted_compression_types, answer.telemetry_max_bytes, answer.delta_temporality,
        answer.throttle_time_ms, answer.client_instance_id == ZERO_UUID,
    )  # fmt: skip


def once(metrics: bytes, codec: int = NONE, **given: Any) -> Callable[[TelemetryPeer], Any]:
    """A push after a request for subscriptions."""

    def script(peer: TelemetryPeer) -> list[int]:
        return [peer.ask().error_code, peer.push(metrics, codec, **given)]

    return script


def steps(*names: str) -> Callable[[TelemetryPeer], Any]:
    """Requests one after another."""
    actions: dict[str, Callable[[TelemetryPeer], int]] = {
        "ask": lambda peer: peer.ask().error_code,
        "push": lambda peer: peer.push(),
        "last": lambda peer: peer.push(terminating=True),
        "stale": lambda peer: peer.push(subscription_id=12345),
        "codec 9": lambda peer: peer.push(codec=9),
        "bad": lambda peer: peer.push(b"\xff"),
        "empty": lambda peer: peer.push(b""),
    }
    return lambda peer: [actions[name](peer) for name in names]


HISTOGRAM = part(1, "h") + part(9, part(1, fixed(4, 7)))
UNKNOWN = part(99, b"x")
SCRIPTS: dict[str, Callable[[TelemetryPeer], Any]] = {
    "asking": lambda peer: subscription(peer.ask()),
    "asking twice": lambda peer: [subscription(peer.ask()), subscription(peer.ask())],
    "a push": once(PUSH),
    **{
        f"a push in codec {codec}": once(compress(codec, PUSH), codec)
        for codec in (GZIP, SNAPPY, LZ4, ZSTD)
    },
    "a push before asking": steps("push"),
    "pushes too early": steps("ask", "push", "push", "push"),
    "a push of a stale subscription": steps("ask", "stale", "ask", "push"),
    "an unknown codec": steps("ask", "codec 9", "ask", "push"),
    "a bad push, then asking": steps("ask", "bad", "ask"),
    "an early push, then asking": steps("ask", "push", "push", "ask"),
    "a last push": steps("ask", "push", "last", "push", "push", "last"),
    "a last push of a stale subscription": steps("ask", "last", "ask", "last", "last"),
    "an empty push": steps("ask", "empty", "empty"),
    "a negative codec": once(PUSH, -1),
    "a push of the zero id": once(PUSH, client_instance_id=ZERO_UUID),
    "a push of the reserved id": once(PUSH, client_instance_id=(1).to_bytes(16, "big")),
    "a push of another id": once(PUSH, client_instance_id=bytes(range(16))),
    "a push that is too large": once(bytes((1 << 20) + 1)),
    "a push that is as large as may be": once(
        part(99, bytes((1 << 20) - 5)),
    ),
    "no protobuf": once(b"\xff\xff"),
    "cut short": once(PUSH[:-1]),
    "cut short in zstd": once(compress(ZSTD, PUSH)[:-3], ZSTD),
    "no gzip": once(b"xxxxxxxx", GZIP),
    "no snappy": once(b"xxxxxxxx", SNAPPY),
    "no lz4": once(b"xxxxxxxx", LZ4),
    "metrics of another codec": once(compress(GZIP, PUSH), ZSTD),
    "a histogram and what is not known": once(pushed(HISTOGRAM, gauge("g") + UNKNOWN) + UNKNOWN),
    "a name that is not UTF-8": once(pushed(gauge("x", point(1)).replace(b"x", b"\xff"))),
    "a label that is not UTF-8": once(
        pushed(gauge("g", part(7, attribute("x", "1").replace(b"x", b"\xff"))))
    ),
    "field number 0": once(b"\x00\x00"),
    "NaN and infinity": once(pushed(gauge("g", point(float("nan")), point(float("-inf"))))),
    "a resource twice": once(pushed(gauge("g", point(1))) * 2),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_errors_are_those_of_kafka(addresses: list[str], name: str) -> None:
    kafkas, ours = both(addresses, SCRIPTS[name])
    assert ours == kafkas


@pytest.mark.parametrize(
    "configs",
    [
        {"s": {"metrics": "a.,b.", "interval_ms": "2000"}},
        {"s": {"metrics": "a."}, "t": {"metrics": "a.,c.", "interval_ms": "600000"}},
        {"s": {"metrics": "*,a."}, "t": {"interval_ms": "100"}},
        {"s": {"metrics": "a.", "match": "client_id=nobody"}, "t": {"metrics": "b."}},
        {"s": {"metrics": "a.", "match": "client_software_name=.*,client_source_port=[0-9]+"}},
        {"s": {"metrics": "a.", "match": "client_source_address=127\\.0\\.0\\.1"}},
        {"s": {"metrics": "a.", "match": "client_instance_id=.{22}"}},
        {"s": {"interval_ms": "100"}},
        {"s": {"metrics": "org.apache.kafka.producer."}},
    ],
)
def test_subscriptions_are_those_of_kafka(
    addresses: list[str], configs: dict[str, dict[str, str]]
) -> None:
    """Kafka's broker learns of a change a moment after its answer."""
    for address in addresses:
        for name, rows in configs.items():
            subscribe(address, name, **rows)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        kafkas, ours = both(addresses, SCRIPTS["asking"])
        if kafkas == ours and kafkas[1:3] != ([], 300_000):
            break
        assert time.monotonic() < deadline, (kafkas, ours)
        time.sleep(0.05)
    for address in addresses:
        for name, rows in configs.items():
            subscribe(address, name, **dict.fromkeys(rows, None))
    while both(addresses, SCRIPTS["asking"])[0][1:3] != ([], 300_000):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kafkas, ours = both(addresses, SCRIPTS["asking"])
    assert ours == kafkas


def test_kafkas_command_does_each_of_its_jobs(addresses: list[str]) -> None:
    """What the command says of both brokers is the same; the one of Kafka may need a moment."""

    def said(address: str, *arguments: str) -> tuple[int, list[str]]:
        done = tool(COMMAND, "--bootstrap-server", address, *arguments)
        lines = (done.stdout + done.stderr).decode().splitlines()
        return done.returncode, sorted(line for line in lines if line.strip())

    jobs = [
        ("--alter", "--name", "n", "--metrics", "org.apache.kafka.", "--interval", "1000",
         "--match", "client_id=a.*"),
        ("--list",),
        ("--describe", "--name", "n"),
        ("--alter", "--name", "n", "--interval", ""),
        ("--describe",),
        ("--alter", "--name", "n", "--interval", "5"),
        ("--alter", "--name", "n", "--match", "nothing=x"),
        ("--delete", "--name", "n"),
        ("--list",),
        ("--describe", "--name", "n"),
    ]  # fmt: skip
    outcomes = set()
    for job in jobs:
        ours = said(addresses[1], *job)
        deadline = time.monotonic() + PATIENCE_S
        while (kafkas := said(addresses[0], *job)) != ours:
            assert time.monotonic() < deadline, (job, kafkas, ours)
        outcomes.add(ours[0])
    assert outcomes == {0, 1}


# -- real clients --


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[BrokerProcess, int]]:
    """A broker whose clients push ten times a second, and its HTTP port."""
    (port,) = free_ports(1)
    broker = BrokerProcess(
        tmp_path / "data", {"barnabas.http.listener": f"127.0.0.1:{port}"}
    ).start()
    yield broker, port
    assert broker.stop() == 0


def pushed_by(port: int) -> dict[str, dict[str, Any]]:
    """The clients that have pushed, by their ids."""
    url = f"http://127.0.0.1:{port}/api/v1/client-metrics"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return {one["client_id"]: one for one in json.load(answer)["clients"]}


def wait_for(port: int, client_id: str, moving: str, *names: str) -> dict[str, Any]:
    """Wait until a client has pushed these names, and `moving` is above 0; return the client."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = pushed_by(port).get(client_id)
        have = {one["name"]: one["value"] for one in found["metrics"]} if found else {}
        if found and have.keys() >= set(names) and (have.get(moving) or 0) > 0:
            return found
        assert time.monotonic() < deadline, (client_id, have)
        time.sleep(0.1)


PREFIX = "org.apache.kafka."


def test_clients_of_librdkafka_push_by_default(busy: tuple[BrokerProcess, int]) -> None:
    from confluent_kafka import Consumer, Producer

    broker, port = busy
    subscribe(broker.address, "soon", metrics=f"{PREFIX}", interval_ms="300")
    producer = Producer({"bootstrap.servers": broker.address, "client.id": "rd-p"})
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address, "client.id": "rd-c", "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    consumer.subscribe(["t"])
    deadline = time.monotonic() + PATIENCE_S
    name = f"{PREFIX}producer.connection.creation.total"
    while time.monotonic() < deadline:
        producer.produce("t", b"x")
        producer.poll(0.05)
        consumer.poll(0.05)
        if {"rd-p", "rd-c"} <= set(pushed_by(port)):
            break
    names = (name, f"{PREFIX}producer.node.request.latency.avg")
    found = wait_for(port, "rd-p", f"{PREFIX}producer.record.queue.time.max", *names)
    assert found["client_software_name"] == "confluent-kafka-python"
    wait_for(
        port,
        "rd-c",
        f"{PREFIX}consumer.poll.idle.ratio.avg",
        f"{PREFIX}consumer.connection.creation.total",
    )
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    assert 'kafka_client_producer_connection_creation_total{client_id="rd-p"' in text
    consumer.close()
    producer.flush()


def test_clients_of_java_push_by_default(busy: tuple[BrokerProcess, int], tmp_path: Path) -> None:
    libs()
    broker, port = busy
    subscribe(broker.address, "soon", metrics=f"{PREFIX}", interval_ms="300")
    config = tmp_path / "p.properties"
    config.write_text("client.id=java-p\n")
    command = java(
        "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", broker.address,
        "--topic", "t", "--throughput", "50", "--command-config", str(config),
        flags=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    )  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            found = wait_for(
                port, "java-p",
                f"{PREFIX}producer.record.send.total",
                f"{PREFIX}producer.record.queue.time.avg",
                f"{PREFIX}producer.node.request.latency.max",
            )  # fmt: skip
        finally:
            process.terminate()
            process.wait(60)
    assert found["client_software_name"] == "apache-kafka-java"
