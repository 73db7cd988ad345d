"""Kafka's own programs check the directory, and the reverse.

DumpLogSegments opens every file that Kafka knows and must not complain (it complains on standard
error: index entries that do not meet a batch's last offset, time index entries that do not meet a
batch's largest timestamp, holes in the offsets; and says `isvalid: false` of a wrong CRC). Apache
Kafka 4.3 itself is then started on a copy of the directory and must serve the same records and take
more; Barnabas is started on directories that Kafka wrote, stopped cleanly and killed, and must do
the same; and Kafka again on what Barnabas continued.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop import clients, real_input
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode, errors_in
from tests.support import raw_client
from tests.support.raw_client import RawClient
from tests.support.under_test import against_kafka, broker_on

LINES = 30_000  # several segments of 1 MiB a partition
PARTITIONS = 2
TOPICS = {codec: f"kept_{codec}" for codec in clients.CODECS}
SETTINGS = {"log.segment.bytes": str(1 << 20)}
SECONDS = 120
DUMP = "org.apache.kafka.tools.DumpLogSegments"
# With --deep-iteration the tool says this of every segment whose base is not 0, Kafka's own too:
# it treats the record before a file's first as -1. Real holes have another first number.
FIRST_IN_FILE = re.compile(r"  -1 is followed by \d+$")
KNOWN_TO_KAFKA = ("*.log", "*.index", "*.timeindex", "*.snapshot", "*.txnindex")

pytestmark = pytest.mark.interop


@dataclass
class Written:
    """A directory (its parent), how its broker ended, and the input that was produced into it."""

    place: Path
    ending: str
    path: Path

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.place / "data"

    def copied_to(self, place: Path) -> Path:
        """Copy the data directory to `place`/data, for another broker."""
        shutil.copytree(self.data, place / "data")
        return place


@pytest.fixture(scope="module", autouse=True)
def oracle() -> None:
    """Skip if Kafka cannot be run, and say what is missing."""
    kafka.libs()


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The input."""
    path = tmp_path_factory.mktemp("lines") / "access.log"
    real_input.generated(path, LINES)
    return path


def produce_all(address: str, path: Path) -> None:
    """Produce all the lines to every topic of TOPICS once more, with an idempotent producer."""
    pairs = [f"{topic}={codec}" for codec, topic in TOPICS.items()]
    arguments = ("produce", "confluent-kafka", address, str(PARTITIONS), str(path), *pairs)
    clients.run(*arguments, timeout_seconds=SECONDS)


def check_all(address: str, path: Path, *, times: int) -> None:
    """Check by digest that every topic holds the lines `times` over, every byte in order."""
    counts, digests = clients.expected(path, PARTITIONS, times)
    arguments = ("consume", "confluent-kafka", address, json.dumps(counts), *TOPICS.values())
    found = json.loads(clients.run(*arguments, timeout_seconds=SECONDS))
    assert found == dict.fromkeys(TOPICS.values(), digests)


def tell(broker: KafkaNode) -> None:
    """Let pytest show the broker's output when the test fails."""
    sys.stderr.write(broker.output()[-4000:])


def create_and_fill(broker: KafkaNode, path: Path) -> None:
    """Create the topics, one with settings and one deleted, and produce all lines twice."""
    with RawClient(broker.host, broker.port) as client:
        configs = {"retention.ms": "86400000000", "index.interval.bytes": "1024"}
        with_configs = raw_client.topic_to_create("with_configs", 3, configs=configs)
        codes = client.create_topics(with_configs, raw_client.topic_to_create("deleted", 2))
        assert codes == [0, 0]
        names = raw_client.array(raw_client.string("deleted"))
        client.call(raw_client.DELETE_TOPICS, 3, names + raw_client.int32(10_000))
    arguments = ("create", broker.address, str(PARTITIONS), *TOPICS.values())
    clients.run(*arguments, timeout_seconds=SECONDS)
    for _ in range(2):
        produce_all(broker.address, path)


def written_by(broker: KafkaNode, place: Path, ending: str, path: Path) -> Written:
    """Start, fill, and stop or kill a broker on a fresh directory."""
    broker.start()
    try:
        create_and_fill(broker, path)
    finally:
        if ending == "stopped":
            broker.stop()
        else:
            broker.kill()
        tell(broker)
    return Written(place, ending, path)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def ours(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lines: Path
) -> Iterator[Written]:
    """A directory that the broker under test wrote."""
    place = tmp_path_factory.mktemp("ours")
    yield written_by(broker_on(place, SETTINGS), place, request.param, lines)
    shutil.rmtree(place)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def kafkas(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, lines: Path
) -> Iterator[Written]:
    """A directory that Apache Kafka wrote."""
    place = tmp_path_factory.mktemp("kafkas")
    yield written_by(KafkaNode(place, settings=SETTINGS), place, request.param, lines)
    shutil.rmtree(place)


def dump(*arguments: str) -> str:
    """Run DumpLogSegments, check that it has no complaint, and return its output."""
    done = kafka.tool(DUMP, *arguments)
    said = done.stdout.decode()
    complaints = [
        line
        for line in done.stderr.decode().splitlines()
        if not line.startswith("Non-consecutive offsets in") and not FIRST_IN_FILE.match(line)
    ]
    assert complaints == []
    assert done.returncode == 0, said[-1000:]
    for complaint in ("isvalid: false", "invalid bytes", "Error", "is invalid"):
        assert complaint not in said
    return said


def records_in(said: str) -> int:
    """Return how many records a dump with --deep-iteration printed."""
    return sum(line.startswith("| offset:") for line in said.splitlines())


def test_the_dump_tool_reads_every_file_without_a_complaint(ours: Written) -> None:
    counts, _ = clients.expected(ours.path, PARTITIONS, 2)
    for topic in TOPICS.values():
        for number in range(PARTITIONS):
            folder = ours.data / f"{topic}-{number}"
            logs = sorted(folder.glob("*.log"))
            if topic == TOPICS["none"]:
                assert len(logs) > 2, "expected several segments"
            said = dump("--deep-iteration", "--files", ",".join(map(str, logs)))
            assert records_in(said) == counts[number], folder
            others = [str(path) for name in KNOWN_TO_KAFKA[1:] for path in folder.glob(name)]
            if ours.ending == "killed":
                # a tail that is not on disk yet is allowed, a wrong entry is not
                others = [path for path in others if os.path.getsize(path)]
                if against_kafka():
                    # Kafka preallocates its newest indexes with zeros, which its tool misreads
                    others = [path for path in others if logs[-1].stem not in path]
            if others:
                said = dump("--files", ",".join(others))
                assert "offset:" in said


def test_producer_snapshots_tell_the_producers(ours: Written) -> None:
    folder = ours.data / f"{TOPICS['none']}-0"
    newest = max(folder.glob("*.snapshot"))
    counts, _ = clients.expected(ours.path, PARTITIONS, 2)
    if ours.ending == "killed":  # it has written the snapshots of its rolls, perhaps later ones
        assert int(newest.stem) >= max(int(path.stem) for path in folder.glob("*.log"))
        assert "producerId:" in dump("--files", str(newest))
        return
    assert int(newest.stem) == counts[0], "a clean stop leaves a snapshot at the end offset"
    rows = [line for line in dump("--files", str(newest)).splitlines() if "producerId:" in line]
    assert len(rows) == 2, "two producers wrote"
    assert any(f"lastOffset: {counts[0] - 1} " in row for row in rows)


def test_the_metadata_log_is_kafkas(ours: Written) -> None:
    folder = ours.data / "__cluster_metadata-0"
    said = dump("--cluster-metadata-decoder", "--files", ",".join(map(str, folder.glob("*.log"))))
    for name in (*TOPICS.values(), "with_configs"):
        assert f'"name":"{name}"' in said
    for part in ('"type":"FEATURE_LEVEL_RECORD"', '"type":"REMOVE_TOPIC_RECORD"', "retention.ms"):
        assert part in said


def test_kafka_serves_our_directory_and_goes_on(ours: Written, tmp_path: Path) -> None:
    node = KafkaNode(ours.copied_to(tmp_path), settings=SETTINGS)
    node.start()
    try:
        check_all(node.address, ours.path, times=2)
        produce_all(node.address, ours.path)
        check_all(node.address, ours.path, times=3)
        described = kafka.tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", node.address, "--describe"),
            *("--entity-type", "topics", "--entity-name", "with_configs"),
        ).stdout.decode()
        assert "retention.ms=86400000000" in described
        assert "index.interval.bytes=1024" in described
    finally:
        node.stop()
    assert errors_in(node.output()) == []


def test_we_serve_kafkas_directory_and_kafka_goes_on(kafkas: Written, tmp_path: Path) -> None:
    place = kafkas.copied_to(tmp_path)
    broker = broker_on(place, SETTINGS)
    broker.start()
    try:
        check_all(broker.address, kafkas.path, times=2)
        produce_all(broker.address, kafkas.path)
        check_all(broker.address, kafkas.path, times=3)
    finally:
        broker.stop()
        tell(broker)
    again = KafkaNode(place, settings=SETTINGS)
    again.start()
    try:
        check_all(again.address, kafkas.path, times=3)
        produce_all(again.address, kafkas.path)
        check_all(again.address, kafkas.path, times=4)
    finally:
        again.stop()
    assert errors_in(again.output()) == []
