"""The image, built and run, and started as third-party test containers start Kafka's.

What each module of Testcontainers does between `docker run` and its first client is restated here
as data: the environment, the command, the script that it copies in, and the words it waits for.
"""

import functools
import json
import signal
import socket
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.image import NEWEST, OLDEST, ROOT, Container, Image, ImageNotMade, missing

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RUNNING = ".*Transitioning from RECOVERY to RUNNING.*"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CLIENT_SECONDS = 20
MiB = 1024 * 1024
ADDED_BYTES_MAX = 66 * MiB  # what the image adds to its base
PACKAGES = {"barnabas"}


def made(storage: Path, python: str) -> Iterator[Image]:
    reason = missing()
    if reason:
        pytest.skip(f"the image was not tried: {reason}")
    built = Image(storage, python)
    try:
        built.make_base()
    except ImageNotMade as failed:
        pytest.skip(f"the image with Python {python} was not tried, it has no base: {failed}")
    try:
        yield built.build()
    finally:
        built.remove()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image of this tree, on the base that its Dockerfile names."""
    yield from made(tmp_path_factory.mktemp("image"), NEWEST)


@pytest.fixture(scope="module")
def oldest_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The same image on the oldest supported Python."""
    yield from made(tmp_path_factory.mktemp("image"), OLDEST)


def produce(address: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(CLIENT_SECONDS) == 0


def consume(address: str, topic: str) -> list[bytes]:
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    partition = TopicPartition(topic, 0, 0)
    first, end = consumer.get_watermark_offsets(partition, timeout=CLIENT_SECONDS)
    consumer.assign([partition])
    values: list[bytes] = []
    while first + len(values) < end:
        records = consumer.consume(end - first - len(values), timeout=CLIENT_SECONDS)
        assert records, f"{len(values)} of {end - first} records came"
        values += [record.value() or b"" for record in records]
    consumer.close()
    return values


def cluster(address: str) -> tuple[str, set[str]]:
    """Return the cluster's id, and the addresses advertised to clients of `address`."""
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    told = client.list_topics(timeout=CLIENT_SECONDS)
    return told.cluster_id, {f"{one.host}:{one.port}" for one in told.brokers.values()}


def test_what_the_image_declares_and_holds(image: Image) -> None:
    assert image.user == (10001, 10001)
    assert image.config["StopSignal"] == "SIGTERM"
    assert set(image.config["ExposedPorts"]) == {"9092/tcp", "9094/tcp", "9095/tcp"}
    assert image.config["Healthcheck"]["Test"] == ["CMD", "barnabas", "health"]
    assert not image.config["Entrypoint"]

    home = image.files / "usr/local/lib/barnabas"
    (record,) = home.glob("lib/python3*/site-packages/barnabas-*.dist-info/RECORD")
    names = {line.partition("/")[0] for line in record.read_text().splitlines()}
    assert {name for name in names if not name.endswith(".dist-info")} - {".."} == PACKAGES
    added_bytes = sum(
        path.lstat().st_size for path in home.rglob("*") if path.is_file() or path.is_symlink()
    )
    assert added_bytes <= ADDED_BYTES_MAX


def test_the_dockerfile_is_built_on_the_newest_python() -> None:
    assert f"\nARG BASE=python:{NEWEST}-slim\n" in (ROOT / "Dockerfile").read_text()


def test_unit_tests_and_properties_hold_on_its_python(image: Image) -> None:
    """`make test` runs them, and the rest, on the Python of this machine."""
    told = image.test()
    assert " passed" in told
    assert " failed" not in told


def test_the_oldest_python_serves(oldest_image: Image, tmp_path: Path) -> None:
    with Container(oldest_image, tmp_path / "one") as container:
        container.wait_for(RUNNING)
        container.inside(lambda: produce("localhost:9092", "t", [b"value"]))
        assert container.inside(lambda: consume("localhost:9092", "t")) == [b"value"]
        assert container.stop() == 0


def test_records_outlive_the_container(image: Image, tmp_path: Path) -> None:
    """`docker run IMAGE` without settings; SIGTERM; another container on the same volume."""
    values = [b"record %d" % index for index in range(1000)]
    volume = tmp_path / "volume"
    first = Container(image, tmp_path / "first", volume=volume)
    with first:
        first.wait_for(RUNNING)
        assert first.inside(lambda: cluster("localhost:9092"))[1] == {"localhost:9092"}
        first.inside(lambda: produce("localhost:9092", "kept", values))
        assert first.stop() == 0
    assert "stopped; everything is on disk" in first.log()

    with Container(image, tmp_path / "second", volume=volume) as second:
        second.wait_for(RUNNING)
        assert "stopped cleanly, 1 topics" in second.log()
        assert second.inside(lambda: consume("localhost:9092", "kept")) == values
        second.inside(lambda: produce("localhost:9092", "kept", [b"one more"]))
        second.stop(signal.SIGKILL)

    with Container(image, tmp_path / "third", volume=volume) as third:
        third.wait_for(RUNNING)
        assert third.inside(lambda: consume("localhost:9092", "kept")) == [*values, b"one more"]
        assert third.stop() == 0


def test_the_msgpack_dialect_is_served_beside_kafkas(image: Image, tmp_path: Path) -> None:
    def metadata() -> Any:
        request = msgpack.packb(["metadata", 7, "test", {"topics": []}])
        with socket.create_connection(("localhost", 9094), timeout=CLIENT_SECONDS) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            stream = connection.makefile("rb")
            return msgpack.unpackb(stream.read(int.from_bytes(stream.read(4), "big")))

    with Container(image, tmp_path / "one") as container:
        container.wait_for(RUNNING)
        correlation_id, body = container.inside(metadata)
        assert correlation_id == 7
        assert [(one["host"], one["port"]) for one in body["brokers"]] == [("localhost", 9094)]


def test_our_commands_work_beside_listeners_of_ones_own(image: Image, tmp_path: Path) -> None:
    settings = {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_LOG_DIRS": "/var/lib/barnabas/logs"}
    with Container(image, tmp_path / "one", environment=settings) as container:
        container.wait_for(RUNNING)
        assert "WARN log.dirs=/var/lib/barnabas/logs is on no volume" in container.log()
        line = "echo value | barnabas produce t && barnabas consume t"
        done = container.execute("sh", "-c", line)
        assert (done.returncode, done.stdout) == (0, "value\n"), done.stderr


def test_it_has_what_tls_and_tokens_need(image: Image, tmp_path: Path) -> None:
    """Certificates that it makes are served, from a directory of the volume."""
    with Container(image, tmp_path / "first") as container:
        container.wait_for(RUNNING)
        python = "/usr/local/lib/barnabas/bin/python3"
        assert container.execute(python, "-c", "import cryptography, jwt").returncode == 0
        made = container.execute("barnabas", "certificates", "create", "--directory", "data/tls")
        assert made.returncode == 0, made.stderr
        container.stop()
    settings = {
        "KAFKA_LISTENERS": "SSL://:9093",
        "KAFKA_SSL_CERTIFICATE": "data/tls/broker.pem",
        "KAFKA_SSL_KEY": "data/tls/broker.key",
    }
    volume = tmp_path / "first" / "volume"
    with Container(image, tmp_path / "two", volume=volume, environment=settings) as container:
        container.wait_for(RUNNING)
        (volume / "tls" / "client").write_text(
            "security.protocol=SSL\nssl.truststore.location=data/tls/authority.pem\n"
        )
        asked = ["health", "--bootstrap", "localhost:9093", "--command-config", "data/tls/client"]
        done = container.execute("barnabas", *asked)
        assert done.returncode == 0, done.stderr + container.log()


def test_a_read_only_root_without_rights(image: Image, tmp_path: Path) -> None:
    with Container(image, tmp_path / "one", read_only=True) as container:
        container.wait_for(RUNNING)
        refused = container.execute("touch", "/etc/confluent/docker/ensure")
        assert "Read-only file system" in refused.stderr
        container.inside(lambda: produce("localhost:9092", "t", [b"value"]))
        assert container.inside(lambda: consume("localhost:9092", "t")) == [b"value"]
        status = container.status()
        assert set(status["Uid"]) == set(status["Gid"]) == {"10001"}
        assert int(status["CapEff"][0], 16) == int(status["CapBnd"][0], 16) == 0
        assert status["NoNewPrivs"] == ["1"]
        assert container.stop() == 0
        owners = {path.stat().st_uid for path in container.volume.rglob("*")}
        assert owners == {10001}


def test_the_health_check_tells_a_broker_from_none(image: Image, tmp_path: Path) -> None:
    check = image.config["Healthcheck"]["Test"][1:]
    with Container(image, tmp_path / "idle", command=["sleep", "60"]) as idle:
        assert idle.execute(*check).returncode == 1
    with Container(image, tmp_path / "broker") as broker:
        broker.wait_for(RUNNING)
        done = broker.execute(*check)
        assert (done.returncode, done.stderr) == (0, "")


def test_tests_of_any_language_command_it(image: Image, tmp_path: Path) -> None:
    """Topics at the start, a fault, time, a snapshot and a kill, at the port beside the others."""

    def tell(command: str, fields: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://localhost:9096/{command}",
            data=json.dumps(fields).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=CLIENT_SECONDS) as answer:
            return json.load(answer)

    def partitions() -> dict[str, int]:
        client = AdminClient({"bootstrap.servers": "localhost:9092", "log_level": 0})
        topics = client.list_topics(timeout=CLIENT_SECONDS).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}

    settings = {
        "BARNABAS_TEST_CONTROL": "true",
        "BARNABAS_CREATE_TOPICS": "orders,clicks:6,state:1:1:compact",
    }
    with Container(image, tmp_path / "one", environment=settings) as container:
        container.wait_for(RUNNING)
        inside = container.inside
        assert inside(partitions) == {"orders": 1, "clicks": 6, "state": 1}
        rule = {"api": "produce", "nth": 1, "error": "NOT_LEADER_OR_FOLLOWER"}
        inside(lambda: tell("add_rule", {"rule": rule}))
        inside(lambda: produce("localhost:9092", "orders", [b"kept"]))
        inside(lambda: tell("snapshot", {"name": "one"}))
        inside(lambda: tell("advance", {"seconds": 8 * 24 * 3600}))
        assert inside(lambda: consume("localhost:9092", "orders")) == []
        for _ in range(2):
            inside(lambda: tell("restore", {"name": "one"}))
            assert inside(lambda: consume("localhost:9092", "orders")) == [b"kept"]
        inside(lambda: tell("kill", {}))
        inside(lambda: tell("start", {}))
        assert inside(lambda: consume("localhost:9092", "orders")) == [b"kept"]
        assert container.stop() == 0


def test_settings_from_a_mounted_file_and_the_environment(image: Image, tmp_path: Path) -> None:
    """As in Apache Kafka's image: /mnt/shared/config, and the environment overrides it."""
    wait = "while [ ! -f /tmp/go ]; do sleep 0.05; done; exec /etc/kafka/docker/run"
    container = Container(
        image,
        tmp_path / "one",
        command=["sh", "-c", wait],
        environment={"KAFKA_NUM_PARTITIONS": "3"},
    )
    with container:
        container.make_directory("/mnt/shared/config")
        settings = "listeners=PLAINTEXT://127.0.0.1:9192\nnum.partitions=2\n"
        container.copy(settings, "/mnt/shared/config/server.properties", 0o644)
        container.copy("", "/tmp/go", 0o644)
        container.wait_for(RUNNING)

        def partition_count() -> int:
            produce("localhost:9192", "t", [b"value"])
            told = AdminClient({"bootstrap.servers": "localhost:9192"})
            return len(told.list_topics("t", timeout=CLIENT_SECONDS).topics["t"].partitions)

        assert container.inside(partition_count) == 3


# -- other people's start sequences ----------------------------------------------------------------


class Module(NamedTuple):
    """How one module starts its image; `advertised` is the address for its clients."""

    environment: Mapping[str, str]
    command: tuple[str, ...]
    script_path: str
    script: str
    waits_for: str
    advertised: str
    cluster_id: str | None
    marker_path: str = ""
    elsewhere: Mapping[str, str] = {}  # another listener: its advertised address


def waiting_for(path: str, then: str) -> tuple[str, ...]:
    return ("sh", "-c", f"while [ ! -f {path} ]; do sleep 0.1; done; {then}")


LONG_MAX = str(2**63 - 1)
COMMON = {
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LONG_MAX,
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
KRAFT = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
        "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
}
JAVA = {
    **COMMON,
    **KRAFT,
    "CLUSTER_ID": CLUSTER_ID,
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
}
JAVA_ADVERTISED = "PLAINTEXT://localhost:9092,BROKER://barnabas-test:9093"
JAVA_SCRIPT = "/tmp/testcontainers_start.sh"
NAMED = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"
NAMED_MAP = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"
NAMED_KRAFT = {
    **COMMON,
    **KRAFT,
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LISTENERS": f"{NAMED},CONTROLLER://0.0.0.0:9094",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}
PYTHON_END = """
export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9093,BROKER://$(hostname -i):9092
. /etc/confluent/docker/bash-config
/etc/confluent/docker/configure
/etc/confluent/docker/launch
"""
NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure"
FORMAT = "kafka-storage format --ignore-formatted -t"
FORMATTED = "-c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure"

MODULES = {
    "java, KafkaContainer": Module(
        environment=JAVA,
        command=waiting_for(f"{JAVA_SCRIPT}.ready", JAVA_SCRIPT),
        script_path=JAVA_SCRIPT,
        marker_path=f"{JAVA_SCRIPT}.ready",
        script="#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS={JAVA_ADVERTISED}\n/etc/kafka/docker/run \n",
        waits_for=RUNNING,
        advertised="localhost:9092",
        cluster_id=CLUSTER_ID,
    ),
    "java, KafkaContainer with a listener": Module(
        environment={
            **JAVA,
            "KAFKA_LISTENERS": f"TC-0://kafka:19092,{JAVA['KAFKA_LISTENERS']}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                f"{KRAFT['KAFKA_LISTENER_SECURITY_PROTOCOL_MAP']},TC-0:PLAINTEXT"
            ),
        },
        command=waiting_for(JAVA_SCRIPT, JAVA_SCRIPT),
        script_path=JAVA_SCRIPT,
        script="#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS={JAVA_ADVERTISED},TC-0://kafka:19092\n"
        "/etc/kafka/docker/run \n",
        waits_for=RUNNING,
        advertised="localhost:9092",
        cluster_id=CLUSTER_ID,
        elsewhere={"127.0.0.1:19092": "kafka:19092", "127.0.0.1:9093": "barnabas-test:9093"},
    ),
    "java, ConfluentKafkaContainer": Module(
        environment=JAVA,
        command=waiting_for(JAVA_SCRIPT, JAVA_SCRIPT),
        script_path=JAVA_SCRIPT,
        script="#!/bin/bash\n"
        f"export KAFKA_ADVERTISED_LISTENERS={JAVA_ADVERTISED}\n/etc/confluent/docker/run \n",
        waits_for=RUNNING,
        advertised="localhost:9092",
        cluster_id=CLUSTER_ID,
    ),
    "python, KafkaContainer": Module(
        environment={
            **COMMON,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LISTENERS": NAMED,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": NAMED_MAP,
        },
        command=waiting_for("/tc-start.sh", "sh /tc-start.sh"),
        script_path="/tc-start.sh",
        script="#!/bin/bash\n"
        "echo 'clientPort=2181' > zookeeper.properties\n"
        "zookeeper-server-start zookeeper.properties &\n"
        f"export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n{PYTHON_END}",
        waits_for=r".*\[KafkaServer id=\d+\] started.*",
        advertised="localhost:9093",
        cluster_id=None,
    ),
    "python, KafkaContainer with KRaft": Module(
        environment={**NAMED_KRAFT, "CLUSTER_ID": "lVq+7LslTEG0xDd/cO8zmA=="},
        command=waiting_for("/tc-start.sh", "sh /tc-start.sh"),
        script_path="/tc-start.sh",
        script=f"#!/bin/bash\n{NO_ZOOKEEPER}\n"
        f"echo '{FORMAT} lVq+7LslTEG0xDd/cO8zmA== {FORMATTED}\n{PYTHON_END}",
        waits_for=".*Kafka Server started.*",
        advertised="localhost:9093",
        cluster_id="lVq+7LslTEG0xDd/cO8zmA==",
    ),
    "go, Run": Module(
        environment={**NAMED_KRAFT, "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093"},
        command=waiting_for(
            "/usr/sbin/testcontainers_start.sh", "bash /usr/sbin/testcontainers_start.sh"
        ),
        script_path="/usr/sbin/testcontainers_start.sh",
        script="#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        'export KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://localhost:9093,BROKER://barnabas-test:9092"'
        f"\n{NO_ZOOKEEPER}\n"
        f'echo \'{FORMAT} "$(kafka-storage random-uuid)" {FORMATTED}\n'
        "echo '' > /etc/confluent/docker/ensure\n"
        "/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        waits_for=RUNNING,
        advertised="localhost:9093",
        cluster_id=None,
    ),
    "node, KafkaContainer with KRaft": Module(
        environment={**NAMED_KRAFT, "CLUSTER_ID": CLUSTER_ID},
        command=waiting_for("/testcontainers_start.sh", "/testcontainers_start.sh"),
        script_path="/testcontainers_start.sh",
        script="#!/bin/bash\n"
        "export KAFKA_ADVERTISED_LISTENERS=BROKER://barnabas-test:9092,PLAINTEXT://localhost:9093\n"
        f'{NO_ZOOKEEPER}\necho \'{FORMAT} "{CLUSTER_ID}" {FORMATTED}\n'
        "/etc/confluent/docker/run \n",
        waits_for="listening on PLAINTEXT",  # it waits for the port
        advertised="localhost:9093",
        cluster_id=CLUSTER_ID,
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_started_as_kafkas_image_by_testcontainers(image: Image, tmp_path: Path, name: str) -> None:
    module = MODULES[name]
    container = Container(
        image, tmp_path / "one", environment=module.environment, command=module.command
    )
    with container:
        container.copy(module.script, module.script_path, 0o777)
        if module.marker_path:
            container.copy("", module.marker_path, 0o644)
        container.wait_for(module.waits_for)
        cluster_id, addresses = container.inside(lambda: cluster(module.advertised))
        assert addresses == {module.advertised}
        assert module.cluster_id in (None, cluster_id)
        for asked, told in module.elsewhere.items():
            assert container.inside(functools.partial(cluster, asked))[1] == {told}
        container.inside(lambda: produce(module.advertised, "t", [b"one", b"two"]))
        assert container.inside(lambda: consume(module.advertised, "t")) == [b"one", b"two"]
        said = container.log()
    assert "Permission denied" not in said
    assert "not found" not in said
