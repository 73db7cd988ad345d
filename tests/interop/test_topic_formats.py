"""The effect of a topic's formats on a batch: the same batches to Apache Kafka 4.3 and to Barnabas.

One table of topic configurations and batches. The error code, the records named in it, and the
batch that is stored (codec, timestamps, records) must be the same on both.
"""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.record_batch import HEADER_SIZE, read_header, write_crc
from protocol.records import Record, build, read_records
from tests.interop.both_brokers import both_brokers

pytestmark = pytest.mark.interop

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LIMIT = 1 << 24
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
NAMES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")


def made(*offsets_ms: int, codec: int = 0, size: int = 100, **options: Any) -> bytes:
    """A batch with a record at each time, which is given relative to now."""
    records = [
        Record(index, NOW_MS + offset_ms, b"k%d" % index, b"v" * size)
        for index, offset_ms in enumerate(offsets_ms)
    ]
    return bytes(build(records, codec=codec, **options))


def garbage(codec: int) -> bytes:
    """A batch whose packed records are invalid; its CRC is right."""
    batch = bytearray(made(0, 1, 2, codec=codec))
    batch[HEADER_SIZE + 12 : HEADER_SIZE + 20] = b"\xff" * 8
    write_crc(batch, 0)
    return bytes(batch)


def plain_garbage() -> bytes:
    batch = bytearray(made(0, 1))
    batch[HEADER_SIZE] = 2  # the first record's length
    write_crc(batch, 0)
    return bytes(batch)


def undated() -> bytes:
    return bytes(build([Record(0, -1, None, b"v"), Record(1, -1, None, b"w")]))


ROWS: list[tuple[str, dict[str, str], bytes]] = [
    *(
        (f"{NAMES[source]} to {target}", {"compression.type": target}, made(0, 5, 3, codec=source))
        for source, target in itertools.product(range(5), (*NAMES, "producer"))
    ),
    *(
        (
            f"{NAMES[source]} to {target}, stamped",
            {"compression.type": target, "message.timestamp.type": "LogAppendTime"},
            made(0, 5, 3, codec=source),
        )
        for source, target in ((0, "zstd"), (4, "uncompressed"), (1, "gzip"), (0, "producer"))
    ),
    ("undated records", {}, undated()),
    ("undated records, packed anew", {"compression.type": "lz4"}, undated()),
    ("garbage to be packed anew", {"compression.type": "zstd"}, garbage(1)),
    ("plain garbage to be packed anew", {"compression.type": "zstd"}, plain_garbage()),
    ("too far ahead by default", {}, made(2 * HOUR_MS)),
    ("ahead, but not too far", {}, made(HOUR_MS // 2)),
    ("the distant past by default", {}, made(-400 * DAY_MS)),
    ("one of three too old", {BEFORE: str(DAY_MS)}, made(0, -2 * DAY_MS, 0)),
    ("the first too old", {BEFORE: str(DAY_MS)}, made(-2 * DAY_MS, 0, 0)),
    ("all too old", {BEFORE: str(DAY_MS)}, made(-2 * DAY_MS, -3 * DAY_MS)),
    ("the last too far ahead", {AFTER: str(HOUR_MS)}, made(0, 0, 2 * HOUR_MS)),
    ("one packed and too old", {BEFORE: str(DAY_MS)}, made(0, -2 * DAY_MS, codec=4)),
    (
        "too old, but stamped",
        {BEFORE: str(DAY_MS), "message.timestamp.type": "LogAppendTime"},
        made(-2 * DAY_MS),
    ),
    ("undated and bounded", {BEFORE: str(DAY_MS)}, undated()),
    ("as large as may be", {"max.message.bytes": str(len(made(0)))}, made(0)),
    ("a byte too large", {"max.message.bytes": str(len(made(0)) - 1)}, made(0)),
    (
        "small when sent, too large when stored",
        {"max.message.bytes": "5000", "compression.type": "uncompressed"},
        made(0, codec=4, size=10_000),
    ),
    (
        "too large when sent, small when stored",
        {"max.message.bytes": "5000", "compression.type": "zstd"},
        made(0, size=10_000),
    ),
]
# Where the answers differ, and why (docs/unsupported.md).
MIDDLE = "Kafka looks at each record's timestamp; here at the batch's first and largest"
DIFFERENT = {
    "one of three too old": MIDDLE,
    "one packed and too old": MIDDLE,
    "garbage to be packed anew": "Kafka says UNKNOWN_SERVER_ERROR; here it is CORRUPT_MESSAGE",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    with both_brokers(tmp_path_factory) as connections:
        yield connections


def create(connection: Connection, name: str, configs: dict[str, str]) -> bytes:
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (answer,) = connection.call(request, CreateTopicsResponse).topics
    assert answer.error_code == 0, answer
    topic_id: bytes = answer.topic_id
    return topic_id


def produce(connection: Connection, topic_id: bytes, batch: bytes) -> tuple[Any, ...]:
    """Code, the indexes of the named records, whether it has a text, and whether it is stamped."""
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(topic_id=topic_id, partition_data=data)],
    )
    deadline = time.monotonic() + 10
    while True:
        answer = connection.call(request, ProduceResponse).responses[0].partition_responses[0]
        if answer.error_code not in (3, 6, 100) or time.monotonic() > deadline:
            break
        time.sleep(0.05)  # Kafka has not created the partition yet
    indexes = [one.batch_index for one in answer.record_errors]
    return answer.error_code, indexes, answer.log_append_time_ms >= 0


def stored(connection: Connection, topic_id: bytes) -> tuple[Any, ...]:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=LIMIT)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=-1),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=LIMIT,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[asked])],
    )
    data = connection.call(request, FetchResponse).responses[0].partitions[0].records
    if not data:
        return ()
    header = read_header(data)
    records = [
        (record.offset, record.timestamp, bytes(record.key or b""), bytes(record.value or b""))
        for record in read_records(data, size_max=LIMIT)
    ]
    stamped = header.is_log_append_time
    times = () if stamped else (header.base_timestamp, header.max_timestamp)
    if stamped:
        records = [(offset, 0, key, value) for offset, _, key, value in records]
    return header.codec, stamped, times, header.record_count, header.base_sequence, records


@pytest.mark.parametrize(
    ("number", "configs", "batch"),
    [(number, *row[1:]) for number, row in enumerate(ROWS)],
    ids=[row[0] for row in ROWS],
)
def test_a_batch_is_taken_and_stored_as_kafka_does(
    both: list[Connection],
    number: int,
    configs: dict[str, str],
    batch: bytes,
    request: pytest.FixtureRequest,
) -> None:
    answers, contents = [], []
    for connection in both:
        topic_id = create(connection, f"t{number}", configs)
        answers.append(produce(connection, topic_id, batch))
        contents.append(stored(connection, topic_id))
    reason = DIFFERENT.get(ROWS[number][0])
    if reason is not None:
        assert answers[0] != answers[1], "the same now: take it off the list"
        return
    assert answers[1] == answers[0], "(code, records named, stamped): ours, Kafka's"
    assert contents[1] == contents[0], "what is stored: ours, Kafka's"
