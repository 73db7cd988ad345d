"""Compaction in a running broker: under load, killed at any moment, and over both dialects."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import raw_client
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.msgpack_client import MsgpackClient
from tests.support.raw_batches import batch, keyed_records_of, next_offset_of, record
from tests.support.raw_client import Closed, RawClient

TOPIC = "table"
KEYS = 40
KILLS = 6
SETTINGS = {"log.cleaner.backoff.ms": "1", "barnabas.recovery.point.interval.ms": "20"}
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.1",
    "file.delete.delay.ms": "0",
}
INVALID_RECORD = 87


def create(client: RawClient) -> None:
    assert client.create_topics(raw_client.topic_to_create(TOPIC, configs=CONFIGS)) == [0]


def table_of(client: RawClient) -> dict[bytes, tuple[int, bytes | None]]:
    """Read the topic as a consumer does: key -> (offset, value). Offsets must increase."""
    table: dict[bytes, tuple[int, bytes | None]] = {}
    offset, last = 0, -1
    end = client.end_offset(TOPIC)
    while offset < end:
        fetched = client.fetch(TOPIC, offset)
        assert fetched.error == 0
        assert fetched.records, f"nothing at {offset}, the end is {end}"
        for found, key, value in keyed_records_of(fetched.records):
            if found >= offset:
                assert found > last
                assert key is not None
                last = found
                table[key] = found, value
        assert next_offset_of(fetched.records) > offset
        offset = next_offset_of(fetched.records)
    return table


def merges(data: Path) -> int:
    """Return the offset that compaction has reached, from its checkpoint."""
    path = data / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return max((int(line.split()[2]) for line in lines[2:]), default=0)


def test_the_newest_value_of_every_key_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(5)
    broker = BrokerProcess(tmp_path / "data", SETTINGS)
    wanted: dict[bytes, tuple[int, bytes | None]] = {}
    number, cleaned = 0, []
    try:
        broker.start()
        with RawClient(broker.host, broker.port) as client:
            create(client)
        # At least one pass ends before the last kill, even on a slow machine.
        while len(cleaned) < KILLS or (cleaned[-1] == cleaned[0] and len(cleaned) < 10 * KILLS):
            with RawClient(broker.host, broker.port) as client:
                end_s = time.monotonic() + chance.uniform(0.3, 0.8)
                while time.monotonic() < end_s:
                    number += 1
                    key = b"k%d" % chance.randrange(KEYS)
                    value = None if chance.random() < 0.1 else b"%d" % number * 5
                    body = record(value, key=key)
                    answer = client.produce(TOPIC, batch([value], body=body))
                    assert answer.error == 0
                    wanted[key] = answer.base_offset, value
                    if number % 50 == 0:
                        assert table_of(client) == wanted
            broker.kill()
            cleaned.append(merges(broker.data))
            broker.start()
            with RawClient(broker.host, broker.port) as client:
                assert table_of(client) == wanted
                assert client.end_offset(TOPIC) == number
    except (AssertionError, Closed):
        sys.stderr.write(broker.output()[-4000:])
        raise
    finally:
        broker.stop()
    assert "Unexpected exception" not in broker.output()
    assert cleaned == sorted(cleaned)
    assert cleaned[-1] > cleaned[0]
    command = [sys.executable, "-m", "client.cli", "verify", str(broker.data)]
    report = subprocess.run(command, capture_output=True, text=True, check=False)
    assert report.returncode == 0, report.stdout


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[BrokerProcess, RawClient, MsgpackClient]]:
    port = free_port()
    broker = BrokerProcess(tmp_path / "data", SETTINGS)
    broker.settings["listeners"] += f",MSGPACK://127.0.0.1:{port}"
    with broker, RawClient(broker.host, broker.port) as client, MsgpackClient(port) as other:
        yield broker, client, other


def test_the_msgpack_dialect_over_a_compacted_topic(
    both: tuple[BrokerProcess, RawClient, MsgpackClient],
) -> None:
    broker, client, other = both
    create(client)
    topic_id = other.topic_id(TOPIC)
    for records in (
        [{"value": b"v"}],
        [{"key": b"k", "value": b"v"}, {"key": None, "value": b"v"}],
        batch([b"v"]),
    ):
        assert other.produce(topic_id, records)["error_code"] == INVALID_RECORD
    assert client.end_offset(TOPIC) == 0
    for number in range(300):
        key = b"k%d" % (number % 7)
        answer = other.produce(topic_id, [{"key": key, "value": b"%d" % number * 10}])
        assert answer["error_code"] == 0
    deadline = time.monotonic() + 20
    while merges(broker.data) < 250:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found = other.read(topic_id, 300)
    table = {record["key"]: record["offset"] for record in found}
    assert table == {b"k%d" % (number % 7): number for number in range(293, 300)}
    assert len(found) < 80
