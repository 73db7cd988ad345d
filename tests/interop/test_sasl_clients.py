"""Clients of other projects log in by SASL: each writes, reads in a group, and is told why not.

Each mechanism, with and without TLS. alice is a user of the configuration for PLAIN, and a SCRAM
user that the command line has added.
"""

import asyncio
import ssl
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.broker_process import BARNABAS, BrokerProcess, free_port
from tests.support.certificates import Authority

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the libraries' own
]

VALUES = [f"value {number}".encode() for number in range(50)]
PATIENCE_S = 60
PASSWORD = "pass,=word \N{SNOWMAN}"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class House(NamedTuple):
    """One broker with a listener for each protocol, and who issued its certificate."""

    broker: BrokerProcess
    trusted: str
    ports: dict[str, int]


class Way(NamedTuple):
    """How a client logs in."""

    address: str
    protocol: str
    mechanism: str
    password: str
    trusted: str


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("sasl")
    authority = Authority(directory / "certificates")
    own = authority.issue("broker")
    ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SASL_SSL")}
    jaas = f'{MODULE} required user_alice="{PASSWORD}";'
    broker = BrokerProcess(
        directory / "data",
        {
            "ssl.certificate": own.chain_file,
            "ssl.key": own.key_file,
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    named = [f"{name}://localhost:{port}" for name, port in ports.items()]
    broker.settings["listeners"] = ",".join([f"PLAINTEXT://127.0.0.1:{broker.port}", *named])
    with broker:
        secret = directory / "password"
        secret.write_text(PASSWORD)
        subprocess.run(
            [
                *BARNABAS, "users", "add", "alice", "--mechanism", "SCRAM-SHA-256",
                "--mechanism", "SCRAM-SHA-512", "--password-file", str(secret),
                "--bootstrap", broker.address,
            ],
            check=True,
        )  # fmt: skip
        yield House(broker, authority.file, ports)


def librdkafka(way: Way) -> dict[str, Any]:
    return {
        "bootstrap.servers": way.address,
        "security.protocol": way.protocol,
        "sasl.mechanism": way.mechanism,
        "sasl.username": "alice",
        "sasl.password": way.password,
        "ssl.ca.location": way.trusted,
    }


def confluent(way: Way, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    producer = Producer(librdkafka(way))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**librdkafka(way), **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < len(VALUES):
        messages = consumer.consume(len(VALUES) - len(found), PATIENCE_S)
        assert messages, f"{len(found)} of {len(VALUES)}"
        found += [message.value() for message in messages]
    consumer.close()
    return found


def python_settings(way: Way) -> dict[str, Any]:
    return {
        "bootstrap_servers": way.address,
        "security_protocol": way.protocol,
        "sasl_mechanism": way.mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": way.password,
        "ssl_context": ssl.create_default_context(cafile=way.trusted),
    }


def kafka_python(way: Way, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    producer = KafkaProducer(**python_settings(way))
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        topic, group_id=topic, auto_offset_reset="earliest", **python_settings(way)
    )
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == len(VALUES):
            break
    consumer.close()
    return found


def aiokafka(way: Way, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run() -> list[bytes]:
        async with AIOKafkaProducer(**python_settings(way)) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        found: list[bytes] = []
        async with AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **python_settings(way)
        ) as consumer:
            async with asyncio.timeout(PATIENCE_S):
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == len(VALUES):
                        break
        return found

    return asyncio.run(run())


def way_of(house: House, protocol: str, mechanism: str, password: str = PASSWORD) -> Way:
    address = f"localhost:{house.ports[protocol]}"
    return Way(address, protocol, mechanism, password, house.trusted)


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_client_writes_and_reads_in_a_group(
    house: House, protocol: str, mechanism: str, client: Callable[[Way, str], list[bytes]]
) -> None:
    topic = f"t-{uuid.uuid4()}"
    found = client(way_of(house, protocol, mechanism), topic)
    assert sorted(found) == sorted(VALUES)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_librdkafka_shows_why_a_login_is_refused(house: House, mechanism: str, user: str) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[KafkaError] = []
    way = way_of(house, "SASL_PLAINTEXT", mechanism, "wrong")
    producer = Producer({**librdkafka(way), "sasl.username": user, "error_cb": errors.append})
    for _ in range(100):
        producer.poll(0.1)
        if errors:
            break
    assert errors[0].code() == KafkaError._AUTHENTICATION
    expected = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials"
    assert expected in errors[0].str()


def test_aiokafka_shows_why_a_login_is_refused(house: House) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def run() -> None:
        producer = AIOKafkaProducer(
            **python_settings(way_of(house, "SASL_PLAINTEXT", "PLAIN", "wrong"))
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaError):
        asyncio.run(run())
    assert "Invalid username or password (user 'alice')" in house.broker.output()


def test_a_client_without_a_login_is_named_in_the_log(house: House, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    settings = {"bootstrap.servers": f"localhost:{house.ports['SASL_PLAINTEXT']}"}
    with pytest.raises(Exception, match=r"(?i)transport|timed out"):
        AdminClient(settings).list_topics(timeout=2)
    assert "before a login: security.protocol=PLAINTEXT" in house.broker.output()
