"""The same records in a compacted topic of Apache Kafka 4.3 and of Barnabas: both keep the same.

The batches are built once and sent to both, byte for byte: five codecs, one and many records,
idempotent producers, keys that repeat soon, late and never, tombstones. When both cleaners have
reached the active segment, the same records must remain, in batches with the same header. Then
each broker is started on the other's directory, and Kafka's dump tool and `barnabas verify` read
both.
"""

import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol.record_batch import DELETE_HORIZON, BatchHeader, batches
from protocol.records import Record, build, read_records
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support import raw_client
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.interop

SETTINGS = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.dedupe.buffer.size": str(1 << 21),
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "200",
}
KEPT, SHORT = "kept", "short"
TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.0",
    "index.interval.bytes": "500",
    "file.delete.delay.ms": "1000",
}
CONFIGS = {KEPT: TOPIC_CONFIGS, SHORT: TOPIC_CONFIGS | {"delete.retention.ms": "100"}}
PHASES = 2
BATCHES = 400
SECONDS = 60
# With --deep-iteration the tool reports the offsets that compaction has removed, and those before
# the first of a file. Other complaints mean damage.
GAP = re.compile(r"  -?\d+ is followed by \d+$")
SAID_OF_GAPS = re.compile("Non-consecutive offsets in")


def workload(phase: int) -> list[bytes]:
    """Return the batches of one phase; sequences continue from phase to phase."""
    chance = random.Random(phase)
    now_ms = int(time.time() * 1000)
    made = []
    for number in range(BATCHES):
        count = chance.choice((1, 1, 2, 5, 30))
        records = [
            Record(
                0,
                now_ms + number * 3 + index,
                b"key-%d" % chance.randrange(chance.choice((20, 600))),
                None if chance.random() < 0.15 else b"%d-%d-%d " % (phase, number, index) * 8,
                (("h", b"%d" % number), ("null", None)) if index % 7 == 0 else (),
            )
            for index in range(count)
        ]
        options: dict[str, Any] = {"codec": chance.choice((0, 0, 1, 2, 3, 4))}
        made.append((records, options))
    sequences = {900: 0, 901: 0, 902: 0}
    sent = []
    for number, (records, options) in enumerate(made):
        producer = (900 + number % 3) if number % 4 == 0 and (number < 100 or phase) else -1
        if producer >= 0:
            options |= {
                "producer_id": producer + 10 * phase,
                "producer_epoch": 0,
                "base_sequence": sequences[producer],
            }
            sequences[producer] += len(records)
        sent.append(bytes(build(records, **options)))
    return sent


class Side:
    """One broker, its directory, and the requests to it."""

    def __init__(self, broker: Any, data: Path) -> None:
        self.broker = broker
        self.data = data

    def client(self) -> RawClient:
        return RawClient("127.0.0.1", self.broker.port, timeout_s=SECONDS)

    def create(self) -> None:
        topics = [
            raw_client.topic_to_create(name, configs=configs) for name, configs in CONFIGS.items()
        ]
        with self.client() as client:
            assert client.create_topics(*topics) == [0, 0]

    def produce(self, topic: str, sent: list[bytes]) -> None:
        with self.client() as client:
            for data in sent:
                while (answer := client.produce(topic, data)).error in (3, 6):
                    time.sleep(0.1)  # Kafka's broker does not know the topic yet
                assert answer.error == 0, answer

    def bases(self, topic: str) -> list[int]:
        return sorted(int(path.name[:20]) for path in (self.data / f"{topic}-0").glob("*.log"))

    def cleaned_offset(self, topic: str) -> int:
        path = self.data / "cleaner-offset-checkpoint"
        found = re.search(rf"^{topic} 0 (\d+)$", path.read_text() if path.exists() else "", re.M)
        return int(found[1]) if found else 0

    def wait_until_clean(self, topic: str) -> int:
        """Return the base of the active segment when everything below it is clean."""
        deadline = time.monotonic() + SECONDS
        while self.cleaned_offset(topic) != self.bases(topic)[-1]:
            assert time.monotonic() < deadline, (self.cleaned_offset(topic), self.bases(topic))
            time.sleep(0.05)
        return self.bases(topic)[-1]

    def records(self, topic: str) -> list[Record]:
        """Return everything a consumer gets."""
        found: list[Record] = []
        with self.client() as client:
            end, offset = self.end_offset(client, topic), 0
            while offset < end:
                fetched = client.fetch(topic, offset)
                assert fetched.error == 0
                assert fetched.records
                for position, header in batches(fetched.records):
                    found += read_records(fetched.records, position, size_max=1 << 20)
                    offset = header.next_offset
        return found

    def end_offset(self, client: RawClient, topic: str) -> int:
        """Return the offset after the last record, as soon as the broker leads the partition."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return client.end_offset(topic)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def headers(self, topic: str) -> list[BatchHeader]:
        """Return the headers in the files, below the active segment."""
        paths = sorted((self.data / f"{topic}-0").glob("*.log"))
        return [header for path in paths[:-1] for _, header in batches(path.read_bytes())]


def numbers_of(header: BatchHeader) -> tuple[Any, ...]:
    """Return the fields that must agree: not epochs, sizes (codec levels) and times of cleaning.

    The first pass that finds a tombstone in a batch sets its horizon, and passes differ.
    """
    fields = ("base_offset", "last_offset", "max_timestamp", "producer_id", "producer_epoch",
              "base_sequence", "record_count")  # fmt: skip
    attributes = header.attributes & ~DELETE_HORIZON
    return attributes, *(getattr(header, field) for field in fields)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    libs()
    node = KafkaNode(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    process = BrokerProcess(tmp_path_factory.mktemp("ours") / "data", SETTINGS)
    sides = Side(node, node.data), Side(process, process.data)
    try:
        node.start()
        process.start()
        for side in sides:
            side.create()
        for phase in range(PHASES):
            sent = workload(phase)
            for side in sides:
                for topic in CONFIGS:
                    side.produce(topic, sent)
            for side in sides:
                for topic in CONFIGS:
                    side.wait_until_clean(topic)
            time.sleep(1.0)  # the delete horizons of the tombstones of SHORT pass
        yield sides
    finally:
        sys.stderr.write(node.output()[-2000:] + process.output()[-4000:])
        node.kill()
        process.kill()


def test_the_same_records_stay(both: tuple[Side, Side]) -> None:
    theirs, ours = (side.records(KEPT) for side in both)
    assert [record.offset for record in ours] == [record.offset for record in theirs]
    assert ours == theirs
    assert 300 < len(ours) < 3000


def test_in_the_same_batches(both: tuple[Side, Side]) -> None:
    theirs, ours = (side.headers(KEPT) for side in both)
    assert [numbers_of(h) for h in ours] == [numbers_of(h) for h in theirs]
    for side in both:
        tombstones = [r.offset for r in side.records(KEPT) if r.value is None]
        horizons = [h for h in side.headers(KEPT) if h.has_delete_horizon]
        active = side.bases(KEPT)[-1]
        assert [
            offset
            for offset in tombstones
            if offset < active
            and not any(h.base_offset <= offset <= h.last_offset for h in horizons)
        ] == []
    emptied = [h for h in ours if not h.record_count]
    assert {h.base_timestamp for h in emptied} == {-1}
    assert {h.base_timestamp for h in theirs if not h.record_count} == {-1}
    assert len(emptied) >= 2


def test_old_tombstones_have_gone_on_both(both: tuple[Side, Side]) -> None:
    """Which pass removes one depends on time; in the end none of the first phase is left."""
    for side in both:
        first_phase = [r for r in side.records(SHORT) if r.offset < side.bases(SHORT)[-1] // 3]
        assert first_phase
        assert not [record for record in first_phase if record.value is None]
    values = [
        {record.key: record for record in side.records(SHORT) if record.value is not None}
        for side in both
    ]
    assert values[0] == values[1]


def complaints_of(data: Path) -> list[str]:
    """Return the complaints of Kafka's dump tool about the files of both topics."""
    paths = [path for topic in CONFIGS for path in (data / f"{topic}-0").glob("*.*")]
    known = (".log", ".index", ".timeindex", ".snapshot")
    names = ",".join(sorted(str(path) for path in paths if path.suffix in known))
    done = kafka.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration", "--print-data-log", "--files", names,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"Dumping") == names.count(",") + 1
    assert b"isvalid: false" not in done.stdout
    lines = done.stderr.decode().replace(str(data), "").splitlines()
    return [line for line in lines if not GAP.match(line) and not SAID_OF_GAPS.match(line)]


def test_kafkas_dump_tool_finds_no_more_than_in_kafkas_own(both: tuple[Side, Side]) -> None:
    """For a batch that is kept without records it finds the time index entry, and no timestamp."""
    theirs, ours = (complaints_of(side.data) for side in both)
    assert ours == theirs
    assert all("log timestamp: -1" in line or "timestamp mismatch" in line for line in ours)


def verified(data: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "client.cli", "verify", str(data)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_each_serves_the_others_directory(
    both: tuple[Side, Side], tmp_path: Path, ending: str
) -> None:
    for side in both:
        if not side.broker.running:
            side.broker.start()
    wanted = [[side.records(topic) for topic in CONFIGS] for side in both]
    for side in both:
        getattr(side.broker, ending)()
    copies = [tmp_path / name for name in ("theirs", "ours")]
    for side, copy in zip(both, copies, strict=True):
        shutil.copytree(side.data, copy / "data")
        report = verified(copy / "data")
        assert report.returncode == 0, report.stdout + report.stderr
    still = SETTINGS | {"log.cleaner.enable": "false"}
    ours_on_theirs = BrokerProcess(copies[0] / "data", still)
    theirs_on_ours = KafkaNode(copies[1], settings=SETTINGS)
    for broker, records in ((ours_on_theirs, wanted[0]), (theirs_on_ours, wanted[1])):
        try:
            broker.start()
            side = Side(broker, broker.data)
            found = [side.records(topic) for topic in CONFIGS]
            assert found[0] == records[0]
            assert {r.key: r for r in found[1]}.keys() <= {r.key: r for r in records[1]}.keys()
            sent = workload(PHASES)
            side.produce(KEPT, sent)
            assert len(side.records(KEPT)) > len(sent)
        finally:
            sys.stderr.write(broker.output()[-3000:])
            broker.kill()
