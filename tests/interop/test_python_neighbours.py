"""What people run beside Kafka, in Python: Faust, Quix Streams, kafkatop.

Each is the original, from PyPI by `requirements-neighbours.lock`, in a directory of its own; what
cannot be had skips its test with the reason. BARNABAS_NEIGHBOURS names the directory, if it has
been made. With BARNABAS_TEST_AGAINST=kafka the broker is an Apache Kafka.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.committed_reader import read_all
from tests.interop.first_commit import commit
from tests.interop.go_program import fetch
from tests.interop.oracle.kafka import KafkaNode
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

PROGRAMS = Path(__file__).parent / "programs" / "python"
PARTITIONS = 2
COUNT = 200  # records that each of two runs counts
KEYS = 5
PATIENCE_S = 240.0
Broker = BrokerProcess | KafkaNode


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the packages of the lock file."""
    if named := os.environ.get("BARNABAS_NEIGHBOURS"):
        return Path(named)
    directory = tmp_path_factory.mktemp("packages")
    fetch(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
        "--require-hashes", "--no-deps", "--no-compile", "--target", str(directory),
        "-r", str(ROOT / "requirements-neighbours.lock"), cwd=directory,
    )  # fmt: skip
    return directory


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = broker_on(tmp_path / "broker")
    made.start()
    yield made
    made.kill()


@contextmanager
def running(
    packages: Path, directory: Path, *command: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program with the packages; kill it at the end, if it still runs."""
    output = directory / "output"
    with output.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=directory, stdin=subprocess.DEVNULL,
            stdout=file, stderr=file,
            env={**os.environ, "PYTHONPATH": str(packages), **environment},
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        sys.stdout.write(output.read_text(errors="replace")[-5_000:])


def create(address: str, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(one, PARTITIONS, 1) for one in topics]).values():
        future.result(PATIENCE_S)


def produce(address: str, topic: str, first: int = 0) -> None:
    """Write COUNT records of KEYS keys, each key in its partition."""
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(first, first + COUNT):
        key = number % KEYS
        partition = key % PARTITIONS
        producer.produce(
            topic, f"{number if topic == 'numbers' else f'w{key}'}", f"w{key}", partition
        )
    assert producer.flush(PATIENCE_S) == 0


def end_of(address: str, topic: str) -> int:
    """Return the sum of the ends of a topic's partitions, of what is committed."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = sum(consumer.get_watermark_offsets(one, timeout=PATIENCE_S)[1] for one in places)
    consumer.close()
    return found


@pytest.mark.skipif(
    "BARNABAS_FAUST" not in os.environ,
    reason="Faust at times leaves out the first records of a partition, and then counts too few;"
    " to try it, set BARNABAS_FAUST=1",
)
def test_faust_counts_in_a_table_with_a_changelog(
    packages: Path, broker: Broker, tmp_path: Path
) -> None:
    """The second run has its counts from the changelog: its own memory is gone."""
    create(broker.address, "words", "counted")
    for run in (1, 2):
        produce(broker.address, "words")
        with running(
            packages, tmp_path, str(PROGRAMS / "faust_counts.py"), "worker", "-l", "warn",
            BROKER=broker.address, STATE=str(tmp_path / f"state-{run}"),
        ) as worker:  # fmt: skip
            deadline = time.monotonic() + PATIENCE_S
            while end_of(broker.address, "counted") < run * COUNT:
                assert worker.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
            worker.send_signal(signal.SIGTERM)
            worker.wait(PATIENCE_S)
    counts = defaultdict(list)
    for key, value in (
        one for part in read_all(broker.address, "counted", PARTITIONS) for one in part
    ):
        counts[(key or b"").decode().strip('"')].append(json.loads(value or b""))
    wanted = list(range(1, 2 * COUNT // KEYS + 1))
    assert counts == {f"w{key}": wanted for key in range(KEYS)}


def test_quix_streams_counts_in_a_window_exactly_once(
    packages: Path, broker: Broker, tmp_path: Path
) -> None:
    """The second run has its window from the changelog topic: it gets an empty directory."""
    create(broker.address, "numbers", "windows")
    for run in (1, 2):
        produce(broker.address, "numbers", first=(run - 1) * COUNT)
        with running(
            packages, tmp_path, str(PROGRAMS / "quix_window.py"), str(COUNT),
            BROKER=broker.address, STATE=str(tmp_path / f"state-{run}"),
        ) as program:  # fmt: skip
            assert program.wait(PATIENCE_S) == 0
    counts = defaultdict(list)
    for key, value in (
        one for part in read_all(broker.address, "windows", PARTITIONS) for one in part
    ):
        counts[(key or b"").decode()].append(json.loads(value or b"")["value"])
    wanted = list(range(1, 2 * COUNT // KEYS + 1))
    assert counts == {f"w{key}": wanted for key in range(KEYS)}


def test_kafkatop_tells_the_lag_of_groups(packages: Path, broker: Broker) -> None:
    create(broker.address, "words")
    produce(broker.address, "words")
    places = [TopicPartition("words", partition, 10) for partition in range(PARTITIONS)]
    commit(broker.address, "slow", places)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kafkatop", "--kafka-broker", broker.address),
            *("--all", "--summary-json"),
        ],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["slow"]["topics"].values()
    behind = [COUNT // KEYS * keys - 10 for keys in (2, 3)]
    assert (told["lag_min"], told["lag_max"]) == tuple(behind)
