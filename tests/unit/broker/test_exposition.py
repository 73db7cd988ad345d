"""/metrics: after known work the numbers are exactly these, and other programs can read them.

The judges are prometheus_client's parser and, where it is installed, Prometheus's promtool.
"""

import asyncio
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.exposition.families import FAMILIES, all_families, page
from broker.exposition.family import Family, Kind
from broker.exposition.label_text import labels
from broker.exposition.pulse import Pulse
from broker.exposition.scrape_view import RECORDS, ScrapeView
from broker.exposition.text_format import CHARACTERS, written
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import raw_batches
from tests.support.broker_rig import Rig
from tests.support.http_client import get
from tests.unit.broker.test_http import ON, Running, started

ROOT = Path(__file__).parents[3]
HOSTILE = 'g"<script>\\\n\u202e\0\x7f é'
# What promtool's linter says of names and labels that boards for Kafka have.
IMPOSED = (
    "counter metrics should have", "use base unit", "camelCase", "no help", "_count",
    "non-histogram and non-summary", "should not", "abbreviated",
)  # fmt: skip


def text_of(rig: Rig, *wanted: str) -> str:
    view = ScrapeView(rig.assembly, [], Pulse(rig.services))
    return "".join(written(all_families(view), view, wanted))


def samples_of(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


async def produce(rig: Rig, topic: str, batch: bytes) -> None:
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    asked = TopicProduceData(name=topic, partition_data=[data])
    await rig.call(ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=[asked]), 9)


async def worked(rig: Rig) -> int:
    """Five records in two batches, three failures, one fetch, a lag of 3; return the bytes."""
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[topic]), 7)
    batches = [raw_batches.batch([b"a"] * 2), raw_batches.batch([b"b"] * 3)]
    for batch in batches:
        await produce(rig, "t", batch)
    torn = bytearray(batches[0])
    torn[-1] ^= 1
    await produce(rig, "t", torn)
    await produce(rig, "t", torn)
    await produce(rig, "unknown", batches[0])
    place = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=[place])],
    )  # fmt: skip
    await rig.call(body, 11)
    commit = OffsetCommitRequestTopic(
        name="t",
        partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=2)],
    )
    await rig.services.groups.ensure_log()
    answer = await rig.call(OffsetCommitRequest(group_id=HOSTILE, topics=[commit]), 8)
    assert answer.topics[0].partitions[0].error_code == 0
    return sum(map(len, batches))


async def test_after_known_work_the_numbers_are_exactly_these(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", offsets_topic_num_partitions="1")
    size = await worked(rig)
    found = samples_of(text_of(rig))

    def value(name: str, **given: str) -> float:
        return found[name, frozenset(given.items())]

    server, request = "kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_"
    for ending in ("_total", "persec"):
        assert value(f"{server}messagesin{ending}", topic="t") == 5
        assert value(f"{server}bytesin{ending}", topic="t") == size
        assert value(f"{server}bytesout{ending}", topic="t") == size
    assert value(f"{server}totalproducerequests_total", topic="t") == 4
    assert value(f"{server}failedproducerequests_total", topic="t") == 2
    assert value(f"{server}failedproducerequests_total") == 3
    assert value(f"{server}totalfetchrequests_total", topic="t") == 1
    assert value(f"{server}failedfetchrequests_total", topic="t") == 0
    assert value(f"{server}invalidmessagecrcrecords_total") == 2
    assert value(f"{request}requests_total", request="Produce", version="9") == 5
    assert value(f"{request}errors_total", request="Produce", error="CORRUPT_MESSAGE") == 2
    assert value(f"{request}errors_total", request="Produce", error="NONE") == 2
    assert value("kafka_log_log_logendoffset", topic="t", partition="0") == 5
    assert value("kafka_log_log_size", topic="t", partition="0") == size
    assert value("kafka_topic_partition_current_offset", topic="t", partition="0") == 5
    place = {"consumergroup": HOSTILE, "topic": "t"}
    assert value("kafka_consumergroup_lag", **place, partition="0") == 3
    assert value("kafka_consumergroup_current_offset", **place, partition="0") == 2
    assert value("kafka_consumergroup_lag_sum", **place) == 3
    flushes = rig.services.metrics.flushes
    assert value("barnabas_fsync_seconds_count") == value("barnabas_flushes_total") == flushes > 0
    assert value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value("kafka_controller_kafkacontroller_globaltopiccount") == 2
    assert await rig.close()


async def test_names_can_be_picked(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    text = text_of(rig, "kafka_brokers", "kafka_server_brokertopicmetrics_bytesinpersec")
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        "kafka_server_brokertopicmetrics_bytesinpersec 0",
        "kafka_brokers 1",
    ]
    assert "# TYPE kafka_server_brokertopicmetrics_bytesinpersec untyped" in text
    assert text_of(rig, "nothing") == ""
    assert await rig.close()


def test_labels_are_escaped() -> None:
    assert labels(a='x"\\\n', b=3) == '{a="x\\"\\\\\\n",b="3"}'
    assert labels(a="\udcff") == '{a="?"}'


def test_no_piece_is_large_whatever_names_are() -> None:
    view: Any = SimpleNamespace(prepare=lambda: iter(()))
    rows = [(labels(group=f"{n}" + "g" * 32_000), n) for n in range(100)]
    family = Family("many", Kind.GAUGE, "Many.", lambda _: rows)
    pieces = list(written([family], view))
    assert sum(piece.count("\nmany{") + piece.startswith("many{") for piece in pieces) == 100
    assert max(map(len, pieces)) <= CHARACTERS + 33_000


def test_names_are_taken_once_and_documented() -> None:
    names = [name for family in FAMILIES for name in (family.name, *family.also)]
    assert len(names) == len(set(names))
    assert [family.name for family in FAMILIES if not family.help.endswith(".")] == []
    counters = [family.name for family in FAMILIES if family.kind is Kind.COUNTER]
    assert [name for name in counters if not name.endswith("_total")] == []
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()


async def test_a_topic_that_is_deleted_during_a_scrape_is_counted_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[topic]), 7)
    await produce(rig, "t", raw_batches.batch([b"a"] * 5))
    view = ScrapeView(rig.assembly, [], Pulse(rig.services))
    walk = view.prepare()
    next(walk)  # it has listed the partitions
    await rig.services.topics.delete("t")
    for _ in walk:
        pass
    assert view.totals[RECORDS] == 5
    assert await rig.close()


async def test_no_piece_of_a_large_page_takes_long(tmp_path: Path) -> None:
    """By the least of three tries: a busy machine may interrupt any of them."""
    rig = Rig(tmp_path / "data")
    topic = CreatableTopic(name="many", num_partitions=400, replication_factor=1)
    await rig.call(CreateTopicsRequest(topics=[topic]), 7, timeout_seconds=60)
    longest = []
    for _ in range(3):
        view, longest_s = ScrapeView(rig.assembly, [], Pulse(rig.services)), 0.0
        pieces = written(all_families(view), view)
        while True:
            begun = time.thread_time()
            piece = next(pieces, None)
            longest_s = max(longest_s, time.thread_time() - begun)
            if piece is None:
                break
        longest.append(longest_s)
    assert min(longest) < 0.002
    assert await rig.close()


async def test_the_page_is_served_with_its_type_and_the_pulse_ends(tmp_path: Path) -> None:
    running: Running = await started(tmp_path / "data", ON)
    found = await get(running.port, "/metrics")
    assert found.status == 200
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert samples_of(found.body.decode())["kafka_brokers", frozenset()] == 1
    picked = await get(running.port, "/metrics?name[]=kafka_brokers&name%5B%5D=other")
    assert picked.body.decode().splitlines()[-1] == "kafka_brokers 1"
    assert await running.stop() == 0


async def test_the_page_is_for_those_with_the_password(tmp_path: Path) -> None:
    running = await started(tmp_path / "data", ON, "barnabas.http.password=key")
    assert (await get(running.port, "/metrics")).status == 401
    answer = await get(running.port, "/metrics", "Authorization: Basic eDprZXk=")
    assert answer.status == 200
    assert (await get(running.port, "/healthz")).status == 200
    assert await running.stop() == 0


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
async def test_promtool_reads_the_page(tmp_path: Path) -> None:
    """It complains of nothing but of names and labels that boards for Kafka have."""
    rig = Rig(tmp_path / "data", offsets_topic_num_partitions="1")
    await worked(rig)
    done = await asyncio.to_thread(
        subprocess.run,
        ["promtool", "check", "metrics"], input=text_of(rig).encode(), capture_output=True,
        check=False,
    )  # fmt: skip
    said = done.stderr.decode() + done.stdout.decode()
    assert done.returncode in (0, 3), said
    unexpected = [
        line
        for line in said.splitlines()
        if line.startswith(("barnabas_", "process_")) or not any(one in line for one in IMPOSED)
    ]
    assert unexpected == []
    assert await rig.close()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_reads_our_rules_and_the_scrape_configuration() -> None:
    grafana = ROOT / "docs" / "grafana"
    for what, name in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            ["promtool", "check", what, str(grafana / name)], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
