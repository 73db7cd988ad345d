"""Keys, nulls, headers and timestamps: a few records, written and read by every client.

    python -m tests.interop.record_fields write CLIENT ADDRESS TOPIC=CODEC... < ROWS
    python -m tests.interop.record_fields read  CLIENT ADDRESS COUNT TOPIC...

ROWS and what `read` prints (topic -> rows) are JSON; a row is [key, value, headers, timestamp],
headers are [name, value] pairs, and what is bytes stands in hexadecimal, null as null. Everything
is in partition 0. kcat and Kafka's console tools set no timestamps when writing, and cannot show
every byte when reading: rows for them are text without tabs and newlines.

Each runs in its own process, as in `tests.interop.clients` and for the same reasons.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.interop import clients
from tests.interop.oracle import kafka

SECONDS = 30.0
NULL = "NULL"  # how the tools show and read a null; no row has it as its text


class Row(NamedTuple):
    """One record; the timestamp is None if its writer did not set one."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int | None


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def to_json(rows: list[Row]) -> str:
    """Return the rows in the format described at the head of this module."""
    plain = [
        [_hex(row.key), _hex(row.value), [[k, _hex(v)] for k, v in row.headers], row.timestamp]
        for row in rows
    ]
    return json.dumps(plain)


def of_plain(plain: list) -> list[Row]:
    """Return rows from decoded JSON."""
    return [
        Row(_bytes(key), _bytes(value), tuple((k, _bytes(v)) for k, v in headers), timestamp)
        for key, value, headers, timestamp in plain
    ]


# -- ours --


def our_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """The producer under `barnabas produce`."""
    from client.msgpack.producer import Producer
    from client.msgpack.unacknowledged import ProducerSettings

    async def run() -> None:
        settings = ProducerSettings(codec=clients.CODECS.index(codec))
        async with Producer(address, settings=settings) as producer:
            for row in rows:
                await producer.send(
                    topic, row.value, key=row.key, headers=row.headers,
                    timestamp_ms=row.timestamp, partition=0,
                )  # fmt: skip
        if producer.tally.failed_count:
            raise RuntimeError(str(producer.tally.first_error))

    asyncio.run(run())


def our_read(address: str, topic: str, count: int) -> list[Row]:
    """The consumer under `barnabas consume`."""
    from client.msgpack.consumer import Consumer

    async def run() -> list[Row]:
        rows: list[Row] = []
        until = time.monotonic() + SECONDS
        async with Consumer(address, topic) as consumer:
            while len(rows) < count and time.monotonic() < until:
                for _, one in await consumer.poll():
                    rows.append(Row(one.key, one.value, one.headers, one.timestamp))
        return rows

    return asyncio.run(run())


# -- clients from PyPI --


def confluent_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """confluent-kafka's Producer."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    for row in rows:
        producer.produce(
            topic, row.value, row.key, partition=0, timestamp=row.timestamp,
            headers=list(row.headers),
        )  # fmt: skip
    if producer.flush(SECONDS):
        raise RuntimeError("not delivered")


def confluent_read(address: str, topic: str, count: int) -> list[Row]:
    """confluent-kafka's Consumer."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows = []
    for one in consumer.consume(count, SECONDS):
        if one.error():
            raise RuntimeError(str(one.error()))
        headers = tuple(one.headers() or ())
        rows.append(Row(one.key(), one.value(), headers, one.timestamp()[1]))
    consumer.close()
    return rows


def python_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """kafka-python's KafkaProducer."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    futures = [
        producer.send(
            topic, row.value, row.key, list(row.headers), partition=0, timestamp_ms=row.timestamp
        )
        for row in rows
    ]
    for future in futures:
        future.get(SECONDS)
    producer.close()


def python_read(address: str, topic: str, count: int) -> list[Row]:
    """kafka-python's KafkaConsumer."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    rows: list[Row] = []
    until = time.monotonic() + SECONDS
    while len(rows) < count and time.monotonic() < until:
        for records in consumer.poll(500).values():
            rows += [Row(one.key, one.value, tuple(one.headers), one.timestamp) for one in records]
    consumer.close()
    return rows


def aio_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """aiokafka's AIOKafkaProducer."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        await producer.start()
        try:
            for row in rows:
                await producer.send(
                    topic, row.value, row.key, partition=0, timestamp_ms=row.timestamp,
                    headers=list(row.headers),
                )  # fmt: skip
        finally:
            await producer.stop()

    asyncio.run(run())


def aio_read(address: str, topic: str, count: int) -> list[Row]:
    """aiokafka's AIOKafkaConsumer."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> list[Row]:
        consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
        await consumer.start()
        rows: list[Row] = []
        until = time.monotonic() + SECONDS
        try:
            consumer.assign([TopicPartition(topic, 0)])
            while len(rows) < count and time.monotonic() < until:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    rows += [
                        Row(one.key, one.value, tuple(one.headers), one.timestamp)
                        for one in records
                    ]
        finally:
            await consumer.stop()
        return rows

    return asyncio.run(run())


# -- programs --


def kcat_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Run one kcat a record: its headers apply to all that it sends. A null has a key."""
    command = ["kcat", "-P", "-b", address, "-t", topic, "-p", "0", "-z", codec]
    for row in rows:
        more = [] if row.key is None else ["-K", r"\x01"]
        more += ["-Z"] if row.value is None else []
        for name, value in row.headers:
            more += ["-H", name if value is None else f"{name}={value.decode()}"]
        line = (b"" if row.key is None else row.key + b"\1") + (row.value or b"") + b"\n"
        subprocess.run([*command, *more], input=line, check=True, timeout=SECONDS)


def kcat_read(address: str, topic: str, count: int) -> list[Row]:
    """kcat's JSON, which shows a null header value as null."""
    command = ["kcat", "-C", "-q", "-J", "-b", address, "-t", topic, "-o", "beginning"]
    done = subprocess.run([*command, "-c", str(count)], check=True, capture_output=True)
    rows = []
    for line in done.stdout.splitlines():
        found = json.loads(line)
        flat = found.get("headers", [])
        headers = tuple(
            (name, _encoded(value)) for name, value in zip(flat[::2], flat[1::2], strict=True)
        )
        key, value = _encoded(found["key"]), _encoded(found["payload"])
        rows.append(Row(key, value, headers, found["ts"]))
    return rows


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def console_write(address: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Kafka's ConsoleProducer: headers, key and value separated by tabs."""
    arguments = ["--bootstrap-server", address, "--topic", topic, "--compression-codec", codec]
    for name in ("parse.key=true", "parse.headers=true", f"null.marker={NULL}"):
        arguments += ["--reader-property", name]
    lines = b""
    for row in rows:
        pairs = [name.encode() + b":" + _shown(value) for name, value in row.headers]
        lines += b"\t".join([b",".join(pairs) or NULL.encode(), _shown(row.key), _shown(row.value)])
        lines += b"\n"
    done = kafka.tool("org.apache.kafka.tools.ConsoleProducer", *arguments, stdin=lines)
    if done.returncode or done.stderr:
        raise RuntimeError(f"ConsoleProducer: {done.returncode} {done.stderr.decode()[-2000:]}")


def _shown(data: bytes | None) -> bytes:
    return NULL.encode() if data is None else data


def console_read(address: str, topic: str, count: int) -> list[Row]:
    """Kafka's ConsoleConsumer: time, headers, key and value separated by tabs."""
    arguments = ["--bootstrap-server", address, "--topic", topic, "--partition", "0"]
    arguments += ["--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000"]
    for name in ("timestamp=true", "headers=true", "key=true"):
        arguments += ["--formatter-property", f"print.{name}"]
    arguments += ["--formatter-property", f"null.literal={NULL}"]
    done = kafka.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    rows = []
    for line in done.stdout.splitlines():
        told, pairs, key, value = line.split(b"\t")
        rows.append(
            Row(_read(key), _read(value), tuple(_pairs(pairs)), int(told.rpartition(b":")[2]))
        )
    return rows


def _read(shown: bytes) -> bytes | None:
    return None if shown == NULL.encode() else shown


def _pairs(shown: bytes) -> Iterator[tuple[str, bytes | None]]:
    if shown == b"NO_HEADERS":
        return
    for pair in shown.split(b","):
        name, _, value = pair.partition(b":")
        yield name.decode(), _read(value)


WRITERS: dict[str, Callable[[str, str, str, list[Row]], None]] = {
    "barnabas": our_write,
    "confluent-kafka": confluent_write,
    "kafka-python": python_write,
    "aiokafka": aio_write,
    "kcat": kcat_write,
    "ConsoleProducer": console_write,
}
READERS: dict[str, Callable[[str, str, int], list[Row]]] = {
    "barnabas": our_read,
    "confluent-kafka": confluent_read,
    "kafka-python": python_read,
    "aiokafka": aio_read,
    "kcat": kcat_read,
    "ConsoleConsumer": console_read,
}


def run(*arguments: str, stdin: str = "") -> str:
    """Run this module in its own process and return its output."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.record_fields", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=kafka.CHECKOUT,
    )
    if done.returncode:
        raise AssertionError(f"{arguments[:2]}: {done.stderr[-3000:]}")
    return done.stdout


def main(arguments: list[str]) -> None:
    """Run one of the module's two commands."""
    command, client, address, *rest = arguments
    if command == "write":
        rows = of_plain(json.load(sys.stdin))
        for pair in rest:
            WRITERS[client](address, *pair.split("="), rows)
        return
    count, *topics = rest
    found = {topic: READERS[client](address, topic, int(count)) for topic in topics}
    sys.stdout.write(
        json.dumps({topic: json.loads(to_json(rows)) for topic, rows in found.items()})
    )


if __name__ == "__main__":
    main(sys.argv[1:])
