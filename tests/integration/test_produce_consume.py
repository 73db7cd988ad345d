"""`barnabas produce` and `consume` over the msgpack listener, with kafka-python on Kafka's.

Each dialect must read what the other wrote, byte for byte and in order. An idempotent producer's
acknowledged records must be stored exactly once, even if the broker is killed meanwhile.
"""

import json
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.two_dialects import WAIT_S, TwoDialects, command, run
from tests.support.under_test import against_kafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its imports are deprecated
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
pytestmark = [
    pytest.mark.skipif(against_kafka(), reason="Apache Kafka has no msgpack dialect"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka"),
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:open_text is deprecated:DeprecationWarning"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TwoDialects]:
    with TwoDialects(tmp_path / "data", {"num.partitions": "3"}) as one:
        yield one


def read_all(broker: TwoDialects, topic: str, partition_count: int = 3) -> dict[int, list]:
    """Every record of a topic by kafka-python, by partition and in order."""
    places = [TopicPartition(topic, number) for number in range(partition_count)]
    consumer = KafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    found: dict[int, list] = {place.partition: [] for place in places}
    deadline = time.monotonic() + WAIT_S
    while sum(map(len, found.values())) < sum(ends.values()):
        assert time.monotonic() < deadline, "records are missing"
        for place, records in consumer.poll(timeout_ms=500).items():
            found[place.partition] += records
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_our_records(broker: TwoDialects, codec: str) -> None:
    rows = [
        {"key": f"k{n}", "value": f"wörter {n}", "headers": [["h", str(n)], ["none", None]],
         "timestamp": 1_700_000_000_000 + n, "partition": n % 3}
        for n in range(30)
    ]  # fmt: skip
    rows.append({"key": None, "value": None, "timestamp": 5, "partition": 0})
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    run(broker, "produce", "t", "--json", "--compression", codec, data=lines)
    for partition, records in read_all(broker, "t").items():
        wanted = [row for row in rows if row["partition"] == partition]
        assert [(one.offset, one.timestamp) for one in records] == [
            (offset, row["timestamp"]) for offset, row in enumerate(wanted)
        ]
        for one, row in zip(records, wanted, strict=True):
            assert one.key == (row["key"] and row["key"].encode())
            assert one.value == (row["value"] and row["value"].encode())
            headers = [[key, value and value.decode()] for key, value in one.headers]
            assert headers == row.get("headers", [])


@pytest.mark.parametrize("codec", CODECS)
def test_our_command_reads_the_records_of_kafka_python(broker: TwoDialects, codec: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.address, compression_type=None if codec == "none" else codec
    )
    for n in range(30):
        producer.send(
            "t", b"v%d" % n, key=b"k%d" % n, headers=[("h", b"%d" % n)], timestamp_ms=1_000 + n,
            partition=n % 3,
        )  # fmt: skip
    producer.send("t", None, key=b"k", timestamp_ms=2_000, partition=0)
    producer.close()
    rows = [json.loads(line) for line in run(broker, "consume", "t", "--json").splitlines()]
    for partition in range(3):
        found = [row for row in rows if row["partition"] == partition]
        assert [row["offset"] for row in found] == list(range(len(found)))
        told = [(row["key"], row["value"], row["timestamp"], row["headers"]) for row in found[:10]]
        assert told == [
            (f"k{n}", f"v{n}", 1_000 + n, [["h", str(n)]]) for n in range(partition, 30, 3)
        ]
    assert next(row for row in rows if row["value"] is None)["key"] == "k"
    late = run(broker, "consume", "t", "--from-time", "1020", "--partition", "1")
    assert late == b"".join(b"v%d\n" % n for n in range(22, 30, 3))
    assert run(broker, "consume", "t", "--from", "8", "--partition", "2") == b"v26\nv29\n"
    assert run(broker, "consume", "t", "--from", "end") == b""


def test_following_shows_later_records(broker: TwoDialects) -> None:
    run(broker, "produce", "t", data=b"before\n")
    with command(broker, "consume", "t", "--follow", "--max-messages", "2") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"before\n"
        run(broker, "produce", "t", data=b"after\n")
        assert reader.stdout.readline() == b"after\n"
        assert reader.wait(WAIT_S) == 0


def test_following_outlives_the_broker(broker: TwoDialects) -> None:
    """The broker is killed and started again; the reader continues where it stopped."""
    run(broker, "produce", "t", data=b"one\n")
    with command(broker, "consume", "t", "--follow", "--max-messages", "3") as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"one\n"
        for line in (b"two\n", b"three\n"):
            broker.kill()
            while b"Retrying" not in reader.stderr.readline():
                pass
            broker.start()
            run(broker, "produce", "t", data=line)
            assert reader.stdout.readline() == line
        assert reader.wait(WAIT_S) == 0
        assert b"continuing where reading stopped" in reader.stderr.read()


@pytest.mark.parametrize(
    ("options", "data", "line", "reason"),
    [
        (["--key-separator", ":"], b"k:1\nk:2\nno\nk:3\n", 3, "no separator"),
        (["--json"], b'{"value": 1}\n{"value": 2}\n{\n', 3, "it is not JSON"),
        (["--json"], b'{"value": 1}\n{"value": 2, "partition": 3}\n', 2, "partitions 0 to 2"),
        (["--json"], b'{"value": 1, "timestamp": -2}\n', 1, "timestamp -2 is neither -1"),
        (["--partition", "7"], b"x\n", 1, "partitions 0 to 2, not 7"),
    ],
)
def test_a_bad_line_ends_the_command_and_says_how_to_go_on(
    broker: TwoDialects, options: list[str], data: bytes, line: int, reason: str
) -> None:
    with command(broker, "produce", "t", *options, stdin=subprocess.PIPE) as process:
        _, said = process.communicate(data, timeout=WAIT_S)
    told = said.decode()
    assert process.returncode == 1
    assert told.startswith(f"{line - 1} record")
    assert f"line {line} cannot be sent" in told
    assert reason in told
    assert f"tail -n +{line}" in told
    assert sum(map(len, read_all(broker, "t").values())) == line - 1


def is_written(data: Path, topic: str) -> bool:
    """Whether a record of the topic is in its log."""
    return any(path.stat().st_size for path in data.glob(f"{topic}-*/*.log"))


def test_killed_brokers_lose_nothing_and_repeat_nothing(
    broker: TwoDialects, tmp_path: Path
) -> None:
    """Lines are fed while the broker is killed and started again, three times."""
    count = 0
    with command(broker, "produce", "t", "--partitioner", "round_robin", "--timeout", "120",
                 stdin=subprocess.PIPE) as producer:  # fmt: skip
        assert producer.stdin is not None
        try:
            for _ in range(3):
                deadline = time.monotonic() + 0.7
                # The command retries only after it has reached a broker once.
                while time.monotonic() < deadline or not is_written(tmp_path / "data", "t"):
                    producer.stdin.write(b"".join(b"%d\n" % n for n in range(count, count + 50)))
                    producer.stdin.flush()
                    count += 50
                    time.sleep(0.001)
                broker.kill()
                broker.start()
        except BrokenPipeError:
            producer.stdin = None  # nobody reads it
            pytest.fail(f"it ended early: {producer.communicate(timeout=WAIT_S)[1].decode()}")
        _, told = producer.communicate(timeout=WAIT_S)
    assert producer.returncode == 0, told.decode()
    assert told.decode().splitlines()[-1].split()[0] == str(count), told.decode()
    for partition, records in read_all(broker, "t").items():
        assert [int(one.value) for one in records] == list(range(partition, count, 3))
