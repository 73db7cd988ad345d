"""`barnabas dump` and Kafka's DumpLogSegments print the same lines of the same files.

Line by line, whole lines, order included, of every file of a data directory after a mixed
workload: all codecs, headers, null keys and values, idempotent and transactional producers, log
append time, several segments; of a metadata log, and of the states of transactional ids; and of
messages of magic 0 and 1. The standard error of Kafka's tool (its own checks) is not compared.
"""

import os
import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import pytest

from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.support.broker_process import ROOT
from tests.support.under_test import broker_on

SETTINGS = {"log.segment.bytes": str(1 << 20), "log.index.interval.bytes": "2048"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 8_000
DUMP = "org.apache.kafka.tools.DumpLogSegments"
KINDS = (".log", ".index", ".timeindex", ".snapshot", ".txnindex", ".checkpoint")

pytestmark = pytest.mark.interop

WORKLOAD = """
import sys
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

address = sys.argv[1]
admin = AdminClient({"bootstrap.servers": address})
topics = [NewTopic("mixed", 2, 1), NewTopic("stamped", 1, 1,
          config={"message.timestamp.type": "LogAppendTime"})]
for future in admin.create_topics(topics).values():
    future.result()

def records(number):
    key = None if number % 3 == 0 else b"key-%d" % number
    value = None if number % 7 == 0 else b"\\xffvalue \\xc3\\xa9 %d " % number * (number % 40)
    headers = [("trace", b"%d" % number), ("empty", None), ("trace", b"")] if number % 2 else None
    return {"key": key, "value": value, "headers": headers, "timestamp": 1_700_000_000_000 + number}

def produce(topic, extra):
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5, **extra})
    if "transactional.id" in extra:
        producer.init_transactions()
        for commit in (True, False, True):
            producer.begin_transaction()
            for number in range(50):
                producer.produce(topic, partition=0, **records(number))
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        return
    for number in range(int(sys.argv[2])):
        producer.produce(topic, partition=number % 2 if topic == "mixed" else 0, **records(number))
        producer.poll(0)
    assert producer.flush(30) == 0

for codec in sys.argv[3:]:
    produce("mixed", {"compression.type": codec, "enable.idempotence": codec in ("none", "zstd")})
produce("stamped", {"enable.idempotence": True})
produce("mixed", {"transactional.id": "t"})
"""


@pytest.fixture(scope="module", autouse=True)
def oracle():
    kafka.libs()


@pytest.fixture(scope="module", params=["ours", "kafkas"])
def data(request, tmp_path_factory):
    """A data directory of a broker that ran the workload and was stopped."""
    place = tmp_path_factory.mktemp(request.param)
    if request.param == "ours":
        broker = broker_on(place, SETTINGS)
    else:
        broker = KafkaNode(place, settings=SETTINGS)
    broker.start()
    try:
        command = [sys.executable, "-c", WORKLOAD, broker.address, str(RECORDS)]
        subprocess.run([*command, *CODECS], check=True, timeout=120)
    finally:
        broker.stop()
    return broker.data


def ours(*arguments):
    """Return the lines of `barnabas dump`; it must find no error."""
    done = subprocess.run(
        [sys.executable, "-m", "client.cli", "dump", *arguments],
        cwd=ROOT, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def kafkas(*arguments):
    """Return the lines of Kafka's tool on standard output."""
    done = kafka.tool(DUMP, *arguments)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode().splitlines()


def files_of(directory):
    return [str(path) for path in sorted(directory.iterdir()) if path.suffix in KINDS]


@pytest.mark.parametrize("topic", ["mixed-0", "mixed-1", "stamped-0"])
def test_every_file_of_a_partition_is_shown_alike(data, topic):
    files = files_of(data / topic)
    if topic.startswith("mixed"):
        assert sum(file.endswith(".log") for file in files) > 1, "expected several segments"
    theirs = kafkas("--print-data-log", "--deep-iteration", "--files", ",".join(files))
    assert len(theirs) > RECORDS
    assert ours(*files) == theirs


def test_batches_alone_and_records_without_values_too(data):
    files = files_of(data / "mixed-0")
    assert ours("--no-records", *files) == kafkas("--files", ",".join(files))
    assert ours("--no-values", *files) == kafkas("--deep-iteration", "--files", ",".join(files))


def test_the_metadata_log_is_shown_alike(data):
    files = files_of(data / "__cluster_metadata-0")
    files = [file for file in files if not file.endswith((".index", ".timeindex"))]
    if (data / "bootstrap.checkpoint").exists():
        files.append(str(data / "bootstrap.checkpoint"))
    theirs = kafkas("--cluster-metadata-decoder", "--deep-iteration", "--files", ",".join(files))
    assert any("TOPIC_RECORD" in line for line in theirs)
    assert ours(*files) == theirs


def test_the_states_of_transactional_ids_are_shown_alike(data):
    files = [str(path) for path in data.glob("__transaction_state-*/*.log") if path.stat().st_size]
    arguments = ("--transaction-log-decoder", "--deep-iteration", "--files", ",".join(files))
    theirs = kafkas(*arguments)
    assert any('"transactionStatus":4' in line for line in theirs)
    assert ours(*files) == theirs


def legacy(path, magic, codec):
    """A segment of messages as kafka-python wrote them for old brokers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record.legacy_records import LegacyRecordBatchBuilder
    data = bytearray()
    for base in range(0, 60, 20):
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
        for number in range(20):
            key = None if number % 2 else b"key"
            offset = base + number if magic == 0 or not codec else number
            builder.append(offset, 1_000 + base + number, key, b"value %d" % number)
        written = builder.build()
        if codec:
            struct.pack_into(">q", written, 0, base + 19)  # as a broker does
        data += written
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
)
def test_old_messages_are_shown_alike(tmp_path, magic, codec):
    file = legacy(tmp_path / "00000000000000000000.log", magic, codec)
    assert ours(file) == kafkas("--print-data-log", "--files", file)


def test_old_lz4_with_its_wrong_header_checksum_is_shown_alike(tmp_path):
    import lz4.frame

    frame = bytearray(
        lz4.frame.compress(message(5, 0, b"value"), block_linked=False, store_size=False)
    )
    frame[6] ^= 0xFF  # Kafka ignores it in magic 0
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(message(5, 3, bytes(frame)))
    assert ours(str(path)) == kafkas("--print-data-log", "--files", str(path))


def message(offset, attributes, value):
    body = struct.pack(">bbii", 0, attributes, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def test_a_damaged_batch_is_shown_as_kafka_shows_it(data, tmp_path):
    path = max((data / "mixed-0").glob("*.log"), key=os.path.getsize)
    copy = tmp_path / path.name
    content = bytearray(Path(path).read_bytes())
    content[22] ^= 0x40  # in the attributes of the first batch: its checksum is wrong
    copy.write_bytes(content)
    arguments = [sys.executable, "-m", "client.cli", "dump", "--no-records", str(copy)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, timeout=60, check=False)
    lines = done.stdout.decode().splitlines()
    assert "isvalid: false" in lines[2]
    assert lines == kafkas("--files", str(copy))


def test_verify_calls_either_directory_sound(data):
    arguments = [sys.executable, "-m", "client.cli", "verify", "--records", str(data)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout.decode()
    assert done.stdout.startswith(b"Sound: ")
