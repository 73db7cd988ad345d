"""Segments with messages of magic 0 and 1: served as Apache Kafka 4.3 serves them.

Both brokers start on a copy of one directory, after a clean stop and after a kill, and get the
same requests: every offset with small and large limits, every timestamp, the special ones. Then
both get a record, and the requests again. Kafka's own consumer reads all of it from both.
"""

import hashlib
import shutil
import time
from pathlib import Path

import pytest

from client.kafka.connection import Connection
from protocol.legacy_batches import batches_any
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.support import old_messages
from tests.support.broker_process import BrokerProcess
from tests.support.old_messages import END_OFFSET
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.interop

NOW_MS = int(time.time() * 1000) - 3_600_000
TOPIC = "old"
SIZES = (1, 100, 400, 1 << 20)

Broker = BrokerProcess | KafkaNode


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory written by Kafka, with segments added to it."""
    kafka.libs()
    directory = tmp_path_factory.mktemp("made")
    node = KafkaNode(directory)
    node.start()
    try:
        with RawClient("127.0.0.1", node.port) as client:
            assert client.create_topic(TOPIC) == 0
    finally:
        node.stop()
    partition = directory / "data" / f"{TOPIC}-0"
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for base, parts in old_messages.segments(NOW_MS).items():
        (partition / f"{base:020}.log").write_bytes(b"".join(parts))
    checkpoint = directory / "data" / "recovery-point-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()
    others = [line for line in lines[2:] if not line.startswith(f"{TOPIC} ")]
    others.append(f"{TOPIC} 0 {END_OFFSET}")
    checkpoint.write_text("\n".join([lines[0], str(len(others)), *others, ""]))
    return directory


def fetched(connection: Connection, offset: int, size_max: int) -> tuple[object, ...]:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=size_max, current_leader_epoch=-1
    )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=size_max,
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
    )  # fmt: skip
    answer = connection.call(request, FetchResponse, version_max=12).responses[0].partitions[0]
    data = bytes(answer.records or b"")
    # Kafka fills an answer up with the beginning of the next batch; readers skip it.
    data = data[: max((at + header.size for at, header in batches_any(data)), default=0)]
    return answer.error_code, answer.high_watermark, len(data), hashlib.md5(data).hexdigest()[:8]


def listed(connection: Connection, timestamp: int) -> tuple[object, ...]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])], timeout_ms=5_000
    )
    answer = connection.call(request, ListOffsetsResponse).topics[0].partitions[0]
    return answer.error_code, answer.timestamp, answer.offset


def answers(broker: Broker) -> dict[object, object]:
    found: dict[object, object] = {}
    deadline = time.monotonic() + 30
    with Connection(broker.address, 10) as connection:
        while listed(connection, -1)[0] and time.monotonic() < deadline:
            time.sleep(0.2)  # a Kafka that has just started may not know yet that it leads
        for offset in range(-1, END_OFFSET + 3):
            for size_max in SIZES:
                found["fetch", offset, size_max] = fetched(connection, offset, size_max)
        for timestamp in (-1, -2, -3, -4, 0, *(NOW_MS + n for n in range(45))):
            found["list", timestamp if timestamp < 1 else timestamp - NOW_MS] = listed(
                connection, timestamp
            )
    return found


def values(broker: Broker) -> list[tuple[int, object, object]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "g", "enable.partition.eof": True,
         "check.crcs": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        got = consumer.poll(1)
        if got is None:
            continue
        if got.error():
            break
        found.append((got.offset(), got.key(), got.value(), got.timestamp()))
    consumer.close()
    return found


@pytest.mark.parametrize("ending", ["clean", "killed"])
def test_both_brokers_answer_alike(made: Path, tmp_path: Path, ending: str) -> None:
    results = []
    for name in ("kafka", "ours"):
        shutil.copytree(made, tmp_path / name)
        data = tmp_path / name / "data"
        if ending == "killed":
            (data / ".kafka_cleanshutdown").unlink()
            (data / "recovery-point-offset-checkpoint").unlink()
        broker: Broker = KafkaNode(tmp_path / name) if name == "kafka" else BrokerProcess(data)
        broker.start()
        try:
            first = answers(broker)
            with RawClient("127.0.0.1", broker.port) as client:
                appended = client.produce(TOPIC, old_messages.new_batch(0, [NOW_MS + 50]))
            results.append((first, appended, answers(broker), values(broker)))
        finally:
            broker.stop()
        assert not list((data / f"{TOPIC}-0").glob("*.quarantine"))
    theirs, ours = results
    for index, what in ((0, "at first"), (2, "after a record more")):
        different = {
            key: (theirs[index][key], ours[index][key])
            for key in theirs[index]
            if theirs[index][key] != ours[index][key]
        }
        assert not different, (what, different)
    assert theirs[1] == ours[1]
    assert theirs[3] == ours[3]
    assert len(ours[3]) == END_OFFSET + 1
