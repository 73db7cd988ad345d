"""A directory with data of every kind, passed from one broker to the other and back.

Five codecs, headers, nulls and timestamps, idempotent producers, a topic that was compacted, one
that retention has cut, one whose first records were deleted, and a deleted topic. Written by
Barnabas and by Apache Kafka 4.3, stopped cleanly and killed:

- Kafka's DumpLogSegments opens every file of ours, batch by batch and record by record, without a
  complaint;
- the other broker, on a copy, serves every record with its offset, timestamp, key, value and
  headers, and accepts more; so does the first one again, on the copy that the other continued;
- a Kafka with a snapshot of its metadata log passes on its topics through the snapshot.

Compaction and retention may remove more while a broker runs: the newest
record of each key and everything above a start offset must stay.
"""

import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode, errors_in
from tests.support.broker_process import BrokerProcess
from tests.support.under_test import broker_on

SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    "log.index.interval.bytes": "2048",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "500"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
TOPICS: dict[str, dict[str, str]] = {
    "mixed": {},
    "compacted": COMPACT,
    "retained": {"retention.bytes": str(1 << 20), "file.delete.delay.ms": "100"},
    "shortened": {},
}
PARTITIONS = 2
DELETED_BEFORE = 1_000
KEYS = 50
NOW_MS = int(time.time() * 1000)
DUMP = "org.apache.kafka.tools.DumpLogSegments"
# The tool treats the record before a file's first as -1, whatever the file's name.
FIRST_IN_FILE = re.compile(r"  -1 is followed by \d+$")
HOLE = re.compile(r"  \d+ is followed by \d+$")

pytestmark = pytest.mark.interop

Broker = BrokerProcess | KafkaNode
Found = dict[tuple[str, int], dict[int, tuple[object, ...]]]  # offset -> the rest of a record


@pytest.fixture(scope="module", autouse=True)
def oracle() -> None:
    kafka.libs()


def create(address: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
    for future in admin.create_topics([*topics, NewTopic("gone", 1, 1)]).values():
        future.result()
    for future in admin.delete_topics(["gone"]).values():
        future.result()


def produce(address: str, topic: str, count: int, size: int, codec: str, **extra: object) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": address, "acks": "all", "linger.ms": 5, "compression.type": codec}
        | extra
    )
    for number in range(count):
        key = b"key-%d" % (number % KEYS) if topic == "compacted" or number % 3 else None
        value = (b"%s %d \xff\xc3\xa9 " % (codec.encode(), number)) * (size // 12 + number % 5)
        headers = [("trace", b"%d" % number), ("none", None), ("trace", b"")]
        producer.produce(
            topic,
            key=key,
            value=None if topic == "mixed" and number % 11 == 0 else value,
            headers=headers if number % 2 else None,
            partition=number % KEYS % PARTITIONS,
            timestamp=NOW_MS - 60_000 + number,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def fill(broker: Broker) -> None:
    address = broker.address
    create(address)
    for codec in CODECS:
        idempotent = codec in ("none", "zstd")
        produce(address, "mixed", 1_500, 200, codec, **{"enable.idempotence": idempotent})
    produce(address, "compacted", 6_000, 700, "none")
    produce(address, "retained", 6_000, 700, "none")
    produce(address, "shortened", 4_000, 100, "lz4")
    delete_records(address)
    time.sleep(1.2)  # so that segment.ms rolls the compacted topic
    produce(address, "compacted", 200, 700, "gzip")
    wait_for_compaction_and_retention(address)


def delete_records(address: str) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    cut = [TopicPartition("shortened", number, DELETED_BEFORE) for number in range(PARTITIONS)]
    for future in admin.delete_records(cut).values():
        future.result()


def wait_for_compaction_and_retention(address: str, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = records(address, ["compacted", "retained"])
        compacted = all(len(found["compacted", n]) < 2_000 for n in range(PARTITIONS))
        if compacted and all(min(found["retained", n]) > 0 for n in range(PARTITIONS)):
            return
        time.sleep(0.5)
    sizes = {place: (min(found[place]), len(found[place])) for place in found}
    raise AssertionError(f"not compacted, or not cut by retention: {sizes}")


def records(address: str, topics: list[str] | None = None) -> Found:
    """Return everything that a consumer gets."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    places = [(topic, n) for topic in topics or TOPICS for n in range(PARTITIONS)]
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for topic, n in places])
    found: Found = {place: {} for place in places}
    open_places = set(places)
    deadline = time.monotonic() + 60
    while open_places:
        assert time.monotonic() < deadline, f"no end of {open_places}"
        for message in consumer.consume(1_000, 1.0):
            place = (message.topic(), message.partition())
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_places.discard(place)
                continue
            found[place][message.offset()] = (
                message.timestamp(), message.key(), message.value(), tuple(message.headers() or ())
            )  # fmt: skip
    consumer.close()
    return found


def hold(found: Found, before: Found) -> None:
    """Check that a broker serves the same records of a directory as the one before it."""
    for place, was in before.items():
        # Below: Kafka writes log starts once a minute, and loses newer ones when it is killed.
        now = {at: one for at, one in found[place].items() if min(was) <= at <= max(was)}
        known = {at: one for at, one in now.items() if at in was or place[0] != "compacted"}
        assert {at: was.get(at) for at in known} == known, f"{place}: other records"
        lost = set(was) - set(now)
        if place[0] == "compacted":
            lost -= set(was) - set({one[1]: offset for offset, one in sorted(was.items())}.values())
        elif place[0] == "retained":
            lost -= set(range(min(now)))
        assert not lost, f"{place}: {len(lost)} records are gone, the first {min(lost)}"


@dataclass
class Written:
    """A directory, how its broker ended, which broker it was, and what it served."""

    place: Path
    ending: str
    found: Found

    def copied_to(self, place: Path) -> Path:
        place.mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.place / "data", place / "data")
        return place


def written_by(broker: Broker, place: Path, ending: str) -> Written:
    broker.start()
    try:
        fill(broker)
        found = records(broker.address)
    finally:
        if ending == "stopped":
            broker.stop()
        else:
            broker.kill()
        sys.stderr.write(broker.output()[-4000:])
    return Written(place, ending, found)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def ours(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    place = tmp_path_factory.mktemp("ours")
    yield written_by(broker_on(place, SETTINGS), place, request.param)
    shutil.rmtree(place)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def kafkas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    place = tmp_path_factory.mktemp("kafkas")
    yield written_by(KafkaNode(place, settings=SETTINGS | SNAPSHOTS), place, request.param)
    shutil.rmtree(place)


def test_kafkas_dump_tool_has_no_complaint(ours: Written) -> None:
    for topic in TOPICS:
        for number in range(PARTITIONS):
            folder = ours.place / "data" / f"{topic}-{number}"
            files = [
                str(path)
                for kind in ("log", "index", "timeindex", "snapshot")
                for path in sorted(folder.glob(f"*.{kind}"))
                if path.stat().st_size
            ]
            done = kafka.tool(DUMP, "--deep-iteration", "--files", ",".join(files))
            said = done.stdout.decode()
            holes_allowed = topic == "compacted"
            complaints = [
                line
                for line in done.stderr.decode().splitlines()
                if not line.startswith("Non-consecutive offsets in")
                and not FIRST_IN_FILE.match(line)
                and not (holes_allowed and HOLE.match(line))
            ]
            assert (complaints, done.returncode) == ([], 0), folder
            for complaint in ("isvalid: false", "invalid bytes", "is invalid"):
                assert complaint not in said
            dumped = sum(line.startswith("| offset:") for line in said.splitlines())
            assert dumped >= len(ours.found[topic, number]), folder


def test_kafka_serves_it_and_so_do_we_again(ours: Written, tmp_path: Path) -> None:
    place = ours.copied_to(tmp_path / "copy")
    found = served_by(KafkaNode(place, settings=SETTINGS), ours.found)
    served_by(broker_on(place, SETTINGS), found)


def test_we_serve_kafkas_and_so_does_kafka_again(kafkas: Written, tmp_path: Path) -> None:
    snapshots = list((kafkas.place / "data" / "__cluster_metadata-0").glob("*.checkpoint"))
    assert any(int(path.name[:20]) > 0 for path in snapshots), "expected a metadata snapshot"
    place = kafkas.copied_to(tmp_path / "copy")
    found = served_by(broker_on(place, SETTINGS), kafkas.found)
    served_by(KafkaNode(place, settings=SETTINGS), found)


def served_by(broker: Broker, before: Found) -> Found:
    """Start, compare, produce more, and stop; return what is stored at the end."""
    broker.start()
    try:
        hold(records(broker.address), before)
        produce(broker.address, "mixed", 200, 100, "zstd", **{"enable.idempotence": True})
        produce(broker.address, "compacted", 200, 100, "lz4")
        found = records(broker.address)
        hold(found, before)
        assert all(max(found["mixed", n]) > max(before["mixed", n]) for n in range(PARTITIONS))
        return found
    finally:
        broker.stop()
        sys.stderr.write(broker.output()[-4000:])
        assert errors_in(broker.output()) == []
