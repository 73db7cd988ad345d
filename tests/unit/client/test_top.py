"""`barnabas top`, `clients` and `metrics` on a broker in this process, and screens of any size."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from client import cli
from client.http.broker_http import BrokerHttp
from client.kafka.connection import BrokerError, Connection
from client.top.kafka_sampling import KafkaSampling
from client.top.screen import screen
from client.top.snapshot import GroupLine, Snapshot, TopicLine, TopicRates, rates_of
from tests.support.broker_process import BrokerProcess
from tests.support.console_client import ConsoleBroker
from tests.unit.broker.test_client_metrics import gauge, take


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    broker = await ConsoleBroker.start(tmp_path / "data")
    yield broker
    await broker.stop()


async def run(broker: ConsoleBroker, *line: str) -> tuple[int, str]:
    """Run a command in a thread, as the broker needs this loop."""
    environment = {
        "BARNABAS_HTTP": f"127.0.0.1:{broker.port}",
        "BARNABAS_BOOTSTRAP": f"127.0.0.1:{broker.kafka_port}",
    }

    def invoke() -> tuple[int, str]:
        done = CliRunner().invoke(cli.main, list(line), env=environment)
        return done.exit_code, done.output

    return await asyncio.to_thread(invoke)


async def test_each_command_asks_the_broker(running: ConsoleBroker) -> None:
    assert (await run(running, "topics", "create", "orders", "--partitions", "3"))[0] == 0
    take(running, 1, gauge("org.apache.kafka.x", 1.5, topic="t"))
    code, output = await run(running, "top", "--json", "--interval", "0.2")
    assert code == 0, output
    found = json.loads(output)
    (orders,) = [one for one in found["topics"] if one["name"] == "orders"]
    assert (orders["partitions"], orders["records"], orders["bytes_in"]) == (3, 0, 0)
    assert orders["rates"] == {"records": 0, "bytes_in": 0, "bytes_out": 0}
    assert found["facts"]["clients"]
    code, output = await run(running, "top", "--once", "--kafka", "--interval", "0.2")
    assert code == 0, output
    assert "by its APIs" in output
    assert "orders" in output
    code, output = await run(running, "clients", "--metrics", "--json")
    (client,) = json.loads(output)
    assert [one["value"] for one in client["metrics"]] == [1.5]
    code, output = await run(running, "clients", "--metrics")
    assert "topic=t" in output
    code, output = await run(running, "clients")
    assert (code, "client id" in output) == (0, True)


@pytest.mark.parametrize(
    ("names", "code", "text"),
    [
        (["kafka_brokers"], 0, "kafka_brokers"),
        (["kafka_brok"], 0, "kafka_brokers"),
        ([], 0, "barnabas_fsync_seconds"),
        (["kafka_brokerz"], 1, "Did you mean kafka_brokers"),
        (["--json", "kafka_brokers"], 0, '"samples": [{"name": "kafka_brokers", "labels": {}, "v'),
    ],
)
async def test_metrics_are_shown_by_name(
    running: ConsoleBroker, names: list[str], code: int, text: str
) -> None:
    found = await run(running, "metrics", *names)
    assert found[0] == code, found
    assert text in found[1]


def test_without_a_broker_a_sentence_says_what_to_do() -> None:
    for line in ("clients", "metrics", "top --once --bootstrap 127.0.0.1:1"):
        done = CliRunner().invoke(cli.main, [*line.split(), "--http", "127.0.0.1:1"])
        assert done.exit_code == 1, done.output
        assert "--http" in done.output or "--bootstrap" in done.output
    with pytest.raises(BrokerError, match="does not answer HTTP"):
        BrokerHttp("no port:x", 1).json("overview")


def sampled(at_s: float, records: int, bytes_in: int | None) -> Snapshot:
    topics = [
        TopicLine(f"a-topic-with-a-long-name-{n}", 1, records, 5, bytes_in) for n in range(99)
    ]
    groups = [GroupLine("g" * 60, 7, None, "Stable") for _ in range(9)]
    return Snapshot(at_s, "T" * 200, [("up", "1 h")] * 9, ["the disk is full"], topics, groups)


def test_rates_are_of_one_life() -> None:
    before, now = sampled(1, 10, 100), sampled(3, 20, None)
    name = now.topics[0].name
    assert rates_of(now, before)[name] == TopicRates(5, None, None)
    assert rates_of(before, now)[name] == TopicRates(None, None, None)
    assert rates_of(now, None)[name] == TopicRates(None, None, None)


@pytest.mark.parametrize(("width", "height"), [(200, 60), (80, 24), (40, 12), (20, 6)])
@pytest.mark.parametrize("bytes_in", [100, None])
def test_a_screen_fits_its_terminal(width: int, height: int, bytes_in: int | None) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None)
    shown = screen(sampled(3, 20, bytes_in), sampled(1, 10, bytes_in), width, height)
    console.print(shown)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "the disk is full"[: width - 4] in out.getvalue()
    if height >= 24:
        assert len(lines) <= height


def test_a_kafka_that_was_gone_is_asked_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {})
    with broker:
        connection = Connection(broker.address, 10.0)
        connection.open()
        sampling = KafkaSampling(connection)
        assert dict(sampling.sample().facts)["topics"] == "0"
        broker.stop()
        for _ in range(2):
            with pytest.raises(BrokerError):
                sampling.sample()
        broker.start()
        assert dict(sampling.sample().facts)["topics"] == "0"
        connection.close()
