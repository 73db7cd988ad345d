"""Clients of other projects over TLS: each creates, produces and reads, and is told why not.

Each client runs against a listener that asks for no certificate and one that requires it. Kafka's
own tools also replace the certificate of a running broker.
"""

import asyncio
import ssl
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.oracle import kafka
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.certificates import Authority, Issued

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the libraries' own
]

VALUES = [f"value {number}".encode() * 200 for number in range(300)]
PATIENCE_S = 60


class Files(NamedTuple):
    """What a client needs to reach a listener."""

    address: str
    trusted: str
    own: Issued | None


class House(NamedTuple):
    """One broker with two listeners over TLS, and those who issue certificates."""

    broker: BrokerProcess
    authority: Authority
    stranger: Authority
    own: Issued
    ports: dict[str, int]

    def files(self, listener: str, *, trusted: str = "") -> Files:
        own = self.authority.issue("alice") if listener == "MUTUAL" else None
        address = f"localhost:{self.ports[listener]}"
        return Files(address, trusted or self.authority.file, own)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    directory = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(directory / "ours"), Authority(directory / "theirs")
    own = authority.issue("broker", rsa_bits=2048)
    ports = {name: free_port() for name in ("TLS", "MUTUAL")}
    broker = BrokerProcess(
        directory / "data",
        {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own.store_file,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.file,
            "listener.name.mutual.ssl.client.auth": "required",
            "group.initial.rebalance.delay.ms": "0",
        },
    )
    named = [f"{name}://localhost:{port}" for name, port in ports.items()]
    broker.settings["listeners"] = ",".join([f"PLAINTEXT://127.0.0.1:{broker.port}", *named])
    with broker:
        yield House(broker, authority, stranger, own, ports)


def context_of(files: Files) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.trusted)
    if files.own is not None:
        context.load_cert_chain(files.own.chain_file, files.own.key_file)
    return context


def librdkafka_settings(files: Files) -> dict[str, str]:
    settings = {
        "bootstrap.servers": files.address,
        "security.protocol": "SSL",
        "ssl.ca.location": files.trusted,
    }
    if files.own is not None:
        settings["ssl.certificate.location"] = files.own.chain_file
        settings["ssl.key.location"] = files.own.key_file
    return settings


def confluent(files: Files, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = librdkafka_settings(files)
    admin = AdminClient(settings)
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
        messages = consumer.consume(500, PATIENCE_S)
        assert messages, f"{len(found)} of {len(VALUES)}"
        found += [message.value() for message in messages]
    consumer.close()
    return found


def kcat(files: Files, topic: str) -> list[bytes]:
    options = [
        word for pair in librdkafka_settings(files).items() for word in ("-X", "=".join(pair))
    ]
    lines = b"".join(value + b"\n" for value in VALUES)
    subprocess.run(["kcat", "-P", *options, "-t", topic], input=lines, check=True)
    done = subprocess.run(
        ["kcat", "-C", "-q", "-e", *options, "-t", topic], capture_output=True, check=True
    )
    return done.stdout.splitlines()


def kafka_python(files: Files, topic: str) -> list[bytes]:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
    from kafka.admin import NewTopic

    settings = {
        "bootstrap_servers": files.address,
        "security_protocol": "SSL",
        "ssl_context": context_of(files),
    }
    admin = KafkaAdminClient(**settings)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
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
    return found


def aiokafka(files: Files, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings = {
        "bootstrap_servers": files.address,
        "security_protocol": "SSL",
        "ssl_context": context_of(files),
    }

    async def run() -> list[bytes]:
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
        return found

    return asyncio.run(run())


def java_file(files: Files, directory: Path) -> str:
    """Write the properties of Kafka's own clients."""
    lines = [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={files.trusted}",
    ]
    if files.own is not None:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={files.own.store_file}"]
    path = directory / f"{uuid.uuid4()}.properties"
    path.write_text("\n".join(lines))
    return str(path)


def need_kafka() -> None:
    try:
        kafka.libs()
    except kafka.OracleMissingError as missing:
        pytest.skip(str(missing))


def until_said(broker: BrokerProcess, words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while words not in broker.output():
        assert time.monotonic() < deadline, broker.output()
        time.sleep(0.05)


CLIENTS = [confluent, kcat, kafka_python, aiokafka]


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_reads_what_it_wrote(
    house: House, client: Callable[[Files, str], list[bytes]], listener: str
) -> None:
    topic = f"{client.__name__}-{listener.lower()}"
    assert client(house.files(listener), topic) == VALUES


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL"])
def test_kafkas_own_tools_read_what_they_wrote(house: House, listener: str, tmp_path: Path) -> None:
    need_kafka()
    files = house.files(listener)
    config = java_file(files, tmp_path)
    topic = f"java-{listener.lower()}"
    server = ["--bootstrap-server", files.address]
    created = kafka.tool(
        "org.apache.kafka.tools.TopicCommand", *server, "--command-config", config,
        "--create", "--topic", topic,
    )  # fmt: skip
    assert created.returncode == 0, created.stderr
    written = kafka.tool(
        "org.apache.kafka.tools.ConsoleProducer", *server, "--command-config", config,
        "--topic", topic, stdin=b"".join(value + b"\n" for value in VALUES),
    )  # fmt: skip
    assert written.returncode == 0, written.stderr
    read = kafka.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *server, "--command-config", config,
        "--topic", topic, "--group", topic, "--from-beginning",
        "--max-messages", str(len(VALUES)), "--timeout-ms", "60000",
    )  # fmt: skip
    found = [line for line in read.stdout.splitlines() if line.startswith(b"value ")]
    assert found == VALUES, read.stderr


def test_kafkas_tool_replaces_the_certificate_of_a_running_broker(
    house: House, tmp_path: Path
) -> None:
    need_kafka()
    files = house.files("TLS")
    config = java_file(files, tmp_path)
    prefix = "listener.name.tls.ssl.keystore"

    def alter(store: str) -> subprocess.CompletedProcess[bytes]:
        return kafka.tool(
            "kafka.admin.ConfigCommand", "--bootstrap-server", files.address, "--command-config",
            config, "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config",
            f"{prefix}.type=PEM,{prefix}.location={store}",
        )  # fmt: skip

    def serial() -> int:
        pem = ssl.get_server_certificate(("localhost", house.ports["TLS"]))
        done = subprocess.run(
            ["openssl", "x509", "-noout", "-serial"], input=pem.encode(), capture_output=True,
            check=True,
        )  # fmt: skip
        return int(done.stdout.partition(b"=")[2], 16)

    renewed = house.authority.issue("renewed", [("CN", "broker")], rsa_bits=2048)
    done = alter(renewed.store_file)
    assert done.returncode == 0, done.stderr
    assert serial() == renewed.certificate.serial_number
    other = house.authority.issue("other", [("CN", "somebody else")])
    for store, reason in (
        (other.store_file, b"Keystore DistinguishedName does not match"),
        (other.chain_file, b"has no private key"),
        (str(tmp_path / "missing.pem"), b"No such file"),
    ):
        done = alter(store)
        assert reason in done.stdout + done.stderr
        assert serial() == renewed.certificate.serial_number
    described = kafka.tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", files.address, "--command-config",
        config, "--describe", "--entity-type", "brokers", "--entity-name", "1",
    )  # fmt: skip
    assert f"{prefix}.location={renewed.store_file}".encode() in described.stdout


def test_a_client_with_the_wrong_authority_is_told_so(house: House) -> None:
    from confluent_kafka import Producer

    said: list[str] = []
    settings = librdkafka_settings(house.files("TLS", trusted=house.stranger.file))
    producer = Producer({**settings, "error_cb": lambda error: said.append(str(error))})
    producer.produce("t", b"x")
    deadline = PATIENCE_S * 10
    while not said and deadline:
        producer.poll(0.1)
        deadline -= 1
    producer.purge()
    assert any("verify" in line or "SSL" in line for line in said), said
    until_said(house.broker, "refuses the broker's certificate")


def test_a_client_without_a_certificate_is_told_so(house: House) -> None:
    from confluent_kafka import Producer

    said: list[str] = []
    settings = librdkafka_settings(house.files("MUTUAL")._replace(own=None))
    producer = Producer({**settings, "error_cb": lambda error: said.append(str(error))})
    producer.produce("t", b"x")
    deadline = PATIENCE_S * 10
    while not said and deadline:
        producer.poll(0.1)
        deadline -= 1
    producer.purge()
    assert any("certificate" in line for line in said), said
    until_said(house.broker, "ssl.client.auth=required")
