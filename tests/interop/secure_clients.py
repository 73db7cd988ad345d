"""Python's clients over a locked listener: each creates a topic, writes, reads in a group, deletes.

`CLIENTS` do that over a right way, and return what they read. `SAYING` try a wrong one, and return
what they say of it.
"""

import asyncio
import logging
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from client.cli import main
from tests.interop.secure_house import OAUTHBEARER, USER, Way
from tests.support.broker_process import BARNABAS, ROOT

VALUES = [f"value {number}".encode() for number in range(20)]
PATIENCE_S = 30


# -- librdkafka ------------------------------------------------------------------------------------


def librdkafka(way: Way) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": way.address,
        "security.protocol": way.protocol,
        "ssl.ca.location": way.trusted,
    }
    if way.own is not None:
        found["ssl.certificate.location"] = way.own.chain_file
        found["ssl.key.location"] = way.own.key_file
    if way.mechanism:
        found["sasl.mechanism"] = way.mechanism
    if way.mechanism == OAUTHBEARER:
        token = Path(way.secret).read_text()
        found["oauth_cb"] = lambda _: (token, time.time() + 3600)
    elif way.mechanism:
        found |= {"sasl.username": USER, "sasl.password": way.secret}
    return found


def confluent(way: Way, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = librdkafka(way)
    admin = AdminClient(settings)
    admin.poll(0)  # asks for the token
    for future in admin.create_topics([NewTopic(topic, 1)]).values():
        future.result(PATIENCE_S)
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES):
        messages = consumer.consume(len(VALUES) - len(found), PATIENCE_S)
        assert messages, f"{len(found)} of {len(VALUES)}"
        found += [message.value() for message in messages]
    consumer.close()
    for future in admin.delete_topics([topic]).values():
        future.result(PATIENCE_S)
    return found


def confluent_says(way: Way) -> str:
    from confluent_kafka import Producer

    said: list[str] = []
    producer = Producer({**librdkafka(way), "error_cb": lambda error: said.append(str(error))})
    deadline = time.monotonic() + PATIENCE_S
    while not said and time.monotonic() < deadline:
        producer.poll(0.1)
    return " / ".join(said)


# -- kafka-python and aiokafka ---------------------------------------------------------------------


def python_settings(way: Way, provider: type[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap_servers": way.address, "security_protocol": way.protocol}
    if way.has_tls:
        context = ssl.create_default_context(cafile=way.trusted)
        if way.own is not None:
            context.load_cert_chain(way.own.chain_file, way.own.key_file)
        found["ssl_context"] = context
    if way.mechanism:
        found["sasl_mechanism"] = way.mechanism
    if way.mechanism == OAUTHBEARER:
        made = provider()
        made.value = Path(way.secret).read_text()
        found["sasl_oauth_token_provider"] = made
    elif way.mechanism:
        found |= {"sasl_plain_username": USER, "sasl_plain_password": way.secret}
    return found


def kafka_python_settings(way: Way) -> dict[str, Any]:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        value = ""

        def token(self) -> str:
            return self.value

    return python_settings(way, Provider)


def kafka_python(way: Way, topic: str) -> list[bytes]:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic

    settings = kafka_python_settings(way)
    admin = KafkaAdminClient(**settings)
    admin.create_topics([NewTopic(topic, 1, 1)])
    producer = KafkaProducer(**settings)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == len(VALUES):
            break
    consumer.close()
    admin.delete_topics([topic])
    admin.close()
    return found


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """Collect what a library logs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def kafka_python_says(way: Way) -> str:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    with logged("kafka") as lines:
        try:
            KafkaAdminClient(**kafka_python_settings(way), bootstrap_timeout_ms=3000)
        except KafkaError as error:
            lines.append(str(error))
    return " / ".join(lines)


def aiokafka_settings(way: Way) -> dict[str, Any]:
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        value = ""

        async def token(self) -> str:
            return self.value

    return python_settings(way, Provider)


def aiokafka(way: Way, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    settings = aiokafka_settings(way)

    async def run() -> list[bytes]:
        admin = AIOKafkaAdminClient(**settings)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 1, 1)])
            async with AIOKafkaProducer(**settings) as producer:
                for value in VALUES:
                    await producer.send_and_wait(topic, value)
            found: list[bytes] = []
            async with AIOKafkaConsumer(
                topic, group_id=topic, auto_offset_reset="earliest", **settings
            ) as consumer:
                async with asyncio.timeout(PATIENCE_S):
                    async for record in consumer:
                        found.append(record.value)
                        if len(found) == len(VALUES):
                            break
            await admin.delete_topics([topic])
        finally:
            await admin.close()
        return found

    return asyncio.run(run())


def aiokafka_says(way: Way) -> str:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def run() -> None:
        producer = AIOKafkaProducer(**aiokafka_settings(way))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with logged("aiokafka") as lines:
        try:
            asyncio.run(run())
        except KafkaError as error:
            lines.append(str(error))
    return " / ".join(lines)


# -- ours: administration in Kafka's protocol, records in msgpack ----------------------------------


def ours(way: Way, topic: str) -> list[bytes]:
    for result in (
        barnabas(way, way.address, "topics", "create", topic),
        barnabas(way, way.msgpack_address, "produce", topic, given=b"\n".join(VALUES)),
    ):
        assert result.exit_code == 0, result.output
    words = ("consume", topic, "--group", topic, *reaching(way, way.msgpack_address))
    read = subprocess.run([*BARNABAS, *words], capture_output=True, cwd=ROOT, check=False)
    assert read.returncode == 0, read.stderr
    deleted = barnabas(way, way.address, "topics", "delete", topic, "--yes")
    assert deleted.exit_code == 0, deleted.output
    return read.stdout.splitlines()


def reaching(way: Way, address: str) -> list[str]:
    path = Path(way.trusted).parent / f"{way.name}.properties"
    return ["--bootstrap", address, "--command-config", str(way.properties(path))]


def barnabas(way: Way, address: str, *words: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, [*words, *reaching(way, address)], input=given)


def ours_says(way: Way) -> str:
    listed = barnabas(way, way.address, "topics", "list")
    read = barnabas(way, way.msgpack_address, "consume", "t")
    assert (listed.exit_code, read.exit_code) == (1, 1)
    return f"{listed.output} / {read.output}"


CLIENTS: list[Callable[[Way, str], list[bytes]]] = [confluent, kafka_python, aiokafka, ours]
SAYING: list[Callable[[Way], str]] = [
    confluent_says,
    kafka_python_says,
    aiokafka_says,
    ours_says,
]
