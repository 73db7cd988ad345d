"""Third-party clients and ours, behind one interface: produce lines, consume topics, print digests.

    python -m tests.interop.clients create  ADDRESS PARTITIONS TOPIC...
    python -m tests.interop.clients produce CLIENT ADDRESS PARTITIONS FILE TOPIC=CODEC...
    python -m tests.interop.clients consume CLIENT ADDRESS COUNTS TOPIC...

Line n of the file (from 0, without its newline) goes to partition n modulo PARTITIONS. COUNTS is a
JSON list, records wanted of each partition from its first offset on; `consume` prints JSON,
topic -> [digest a partition]. A digest covers size and bytes of every value in order; a missing
record ends in an error after SECONDS_WITHOUT_RECORDS, a surplus one in another digest.

Each runs in its own process, so that clients' threads, loops and warnings do not interfere.
Consuming is by assignment, without groups. For the client "barnabas", which speaks the msgpack
dialect, ADDRESS is that listener's.
"""

import asyncio
import functools
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.interop.oracle import kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_WITHOUT_RECORDS = 30.0
LINGER_MS = 20
BATCH_BYTES = 64 << 10


class ShortError(Exception):
    """A consumer got fewer records than expected."""


class Digest:
    """Count and digest of the values of one partition."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, value: bytes) -> None:
        """Add the next value."""
        self.count += 1
        self._hash.update(len(value).to_bytes(4, "big"))
        self._hash.update(value)

    def text(self) -> str:
        """The digest so far with its count."""
        return f"{self.count}:{self._hash.hexdigest()[:32]}"


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their newlines."""
    with path.open("rb") as file:
        for line in file:
            yield line.rstrip(b"\n")


def expected(path: Path, partitions: int, times: int = 1) -> tuple[list[int], list[str]]:
    """Return counts and digests of each partition after the file was produced `times`."""
    digests = [Digest() for _ in range(partitions)]
    for _ in range(times):
        for number, line in enumerate(lines_of(path)):
            digests[number % partitions].add(line)
    return [one.count for one in digests], [one.text() for one in digests]


class Progress:
    """The digests of one topic while it is consumed."""

    def __init__(self, counts: list[int]) -> None:
        self.digests = [Digest() for _ in counts]
        self._left = sum(counts)
        self._last = time.monotonic()

    @property
    def done(self) -> bool:
        """Whether all expected records have arrived."""
        return self._left <= 0

    def add(self, partition: int, values: Iterable[bytes]) -> None:
        """Add values of one partition, in order."""
        digest = self.digests[partition]
        before = digest.count
        for value in values:
            digest.add(value)
        if digest.count > before:
            self._left -= digest.count - before
            self._last = time.monotonic()
        elif time.monotonic() - self._last > SECONDS_WITHOUT_RECORDS:
            raise ShortError(f"{self._left} records short: {[one.count for one in self.digests]}")


Produce = Callable[[str, int, Path, str, str], None]
Consume = Callable[[str, str, list[int]], list[str]]


# -- kcat --


def kcat_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """Run one kcat a partition, each with its lines in a file: kcat cannot spread lines itself."""
    with tempfile.TemporaryDirectory() as place:
        parts = [Path(place) / str(number) for number in range(partitions)]
        files = [part.open("wb") for part in parts]
        for number, line in enumerate(lines_of(path)):
            files[number % partitions].write(line + b"\n")
        for file in files:
            file.close()
        for number, part in enumerate(parts):
            command = ["kcat", "-P", "-b", address, "-t", topic, "-p", str(number)]
            options = ["-z", codec, "-X", f"linger.ms={LINGER_MS}", "-X", "acks=all"]
            subprocess.run([*command, *options, "-l", str(part)], check=True)


def kcat_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """Run one kcat for all partitions, to their ends; it prints partition, size and bytes."""
    digests = [Digest() for _ in counts]
    command = ["kcat", "-C", "-q", "-b", address, "-t", topic, "-o", "beginning", "-e"]
    with subprocess.Popen([*command, "-f", "%p\n%R%s"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while partition := process.stdout.readline():
            size = int.from_bytes(process.stdout.read(4), "big")
            digests[int(partition)].add(process.stdout.read(size))
    if process.returncode:
        raise ShortError(f"kcat ended with {process.returncode} on {topic}")
    return [one.text() for one in digests]


# -- Kafka's console tools --


def console_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """Kafka's ConsoleProducer: it cannot choose a partition, so the topic must have one."""
    assert partitions == 1, "ConsoleProducer chooses partitions itself"
    arguments = ["--bootstrap-server", address, "--topic", topic, "--compression-codec", codec]
    arguments += ["--request-required-acks", "all", "--batch-size", "2000"]
    done = kafka.tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *arguments,
        stdin=path.read_bytes(),
        timeout_seconds=1200,
    )
    if done.returncode or done.stderr:
        raise RuntimeError(f"ConsoleProducer: {done.returncode} {done.stderr.decode()[-2000:]}")


def console_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """Kafka's ConsoleConsumer with --partition, one after the other; values hold no newline."""
    out = []
    for number, count in enumerate(counts):
        arguments = ["--bootstrap-server", address, "--topic", topic]
        arguments += ["--partition", str(number), "--offset", "earliest"]
        arguments += ["--max-messages", str(count), "--timeout-ms", "30000"]
        command = kafka.java("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
        digest = Digest()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            for line in process.stdout:
                digest.add(line.rstrip(b"\n"))
        if digest.count != count:
            raise ShortError(f"ConsoleConsumer read {digest.count} of {count} of {topic}-{number}")
        out.append(digest.text())
    return out


# -- confluent-kafka --


def confluent_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """librdkafka through confluent-kafka, as an idempotent producer (so acks all)."""
    from confluent_kafka import Producer

    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": address,
            "compression.type": codec,
            "linger.ms": LINGER_MS,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number, line in enumerate(lines_of(path)):
        while True:
            try:
                producer.produce(topic, line, partition=number % partitions, callback=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or failures:
        raise RuntimeError(f"{left} records not delivered, failures {failures[:3]}")


def confluent_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """confluent-kafka's Consumer with assign()."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(len(counts))])
    progress = Progress(counts)
    try:
        while not progress.done:
            messages = consumer.consume(5000, 0.5)
            if not messages:
                progress.add(0, ())
            for message in messages:
                if message.error():
                    raise RuntimeError(f"{topic}: {message.error()}")
                progress.add(message.partition(), (message.value(),))
    finally:
        consumer.close()
    return [one.text() for one in progress.digests]


# -- kafka-python --


def python_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """kafka-python's KafkaProducer."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        acks="all",
    )
    futures = [
        producer.send(topic, line, partition=number % partitions)
        for number, line in enumerate(lines_of(path))
    ]
    producer.flush(120)
    for future in futures:
        future.get(30)
    producer.close(10)


def python_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """kafka-python's KafkaConsumer with assign()."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([TopicPartition(topic, number) for number in range(len(counts))])
    progress = Progress(counts)
    while not progress.done:
        found = consumer.poll(timeout_ms=500, max_records=5000)
        if not found:
            progress.add(0, ())
        for partition, records in found.items():
            progress.add(partition.partition, (record.value for record in records))
    consumer.close()
    return [one.text() for one in progress.digests]


# -- aiokafka --


def aio_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """aiokafka's AIOKafkaProducer."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            acks="all",
        )
        await producer.start()
        try:
            pending = []
            for number, line in enumerate(lines_of(path)):
                pending.append(await producer.send(topic, line, partition=number % partitions))
                if len(pending) >= 20_000:
                    await asyncio.gather(*pending)
                    pending.clear()
            await asyncio.gather(*pending)
        finally:
            await producer.stop()

    asyncio.run(run())


def aio_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """aiokafka's AIOKafkaConsumer with assign()."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> list[str]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, number) for number in range(len(counts))])
            progress = Progress(counts)
            while not progress.done:
                found = await consumer.getmany(timeout_ms=500, max_records=5000)
                if not found:
                    progress.add(0, ())
                for partition, records in found.items():
                    progress.add(partition.partition, (record.value for record in records))
            return [one.text() for one in progress.digests]
        finally:
            await consumer.stop()

    return asyncio.run(run())


# -- ours, in the msgpack dialect --


def our_produce(address: str, partitions: int, path: Path, topic: str, codec: str) -> None:
    """The producer under `barnabas produce`."""
    from client.msgpack.producer import Producer
    from client.msgpack.unacknowledged import ProducerSettings

    async def run() -> None:
        settings = ProducerSettings(
            codec=CODECS.index(codec), linger_ms=LINGER_MS, batch_bytes=BATCH_BYTES
        )
        async with Producer(address, settings=settings) as producer:
            for number, line in enumerate(lines_of(path)):
                await producer.send(topic, line, partition=number % partitions)
        tally = producer.tally
        if tally.failed_count:
            raise RuntimeError(f"{tally.failed_count} failures: {tally.first_error}")

    asyncio.run(run())


def our_consume(address: str, topic: str, counts: list[int]) -> list[str]:
    """The consumer under `barnabas consume`."""
    from client.msgpack.consumer import Consumer

    async def run() -> list[str]:
        progress = Progress(counts)
        async with Consumer(address, topic) as consumer:
            while not progress.done:
                found = await consumer.poll()
                if not found:
                    progress.add(0, ())
                for partition, record in found:
                    progress.add(partition, (record.value,))
        return [one.text() for one in progress.digests]

    return asyncio.run(run())


PRODUCERS: dict[str, Produce] = {
    "barnabas": our_produce,
    "kcat": kcat_produce,
    "confluent-kafka": confluent_produce,
    "kafka-python": python_produce,
    "aiokafka": aio_produce,
    "ConsoleProducer": console_produce,
}
CONSUMERS: dict[str, Consume] = {
    "barnabas": our_consume,
    "kcat": kcat_consume,
    "confluent-kafka": confluent_consume,
    "kafka-python": python_consume,
    "aiokafka": aio_consume,
    "ConsoleConsumer": console_consume,
}


def create(address: str, partitions: int, topics: list[str]) -> None:
    """Create topics and wait until they exist."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    for future in made.values():
        future.result(30)


# -- for the tests: the same in a process of its own --


def run(*arguments: str, timeout_seconds: float) -> str:
    """Run this module with `arguments` and return its standard output. Raises with its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.clients", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
        cwd=kafka.CHECKOUT,
    )
    if done.returncode:
        raise AssertionError(f"{arguments[:2]}: {done.stderr[-3000:]}")
    return done.stdout


def main(arguments: list[str]) -> None:
    """Run one of the module's three commands; times go to standard error."""
    command, *rest = arguments
    if command == "create":
        address, partitions, *topics = rest
        create(address, int(partitions), topics)
        return
    client, address, number, *rest = rest
    begun = time.monotonic()
    if command == "produce":
        path, *topics = rest
        produce = functools.partial(PRODUCERS[client], address, int(number), Path(path))
        for topic in topics:
            produce(*topic.split("="))
    else:
        consume = functools.partial(CONSUMERS[client], address)
        found = {topic: consume(topic, json.loads(number)) for topic in rest}
        sys.stdout.write(json.dumps(found))
    sys.stderr.write(f"{client} {command}: {time.monotonic() - begun:.1f} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
