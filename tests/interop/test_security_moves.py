"""Users, ACLs and quotas that one broker has recorded are used by the other, snapshots included.

A directory with ours goes to Kafka, which obeys them and is given more, and back. On each broker
the same clients do the same: what they may and may not do, and how long they are throttled.
"""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from client.kafka import acl_requests
from client.kafka.acl_requests import AclCodes
from client.kafka.connection import Connection
from config.authorizer_keys import STANDARD_AUTHORIZER
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.interop.test_quotas import P, alter
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

pytestmark = pytest.mark.interop

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "barnabas.recovery.point.interval.ms": "100",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PATIENCE_S = 60


def add_user(address: str, name: str) -> None:
    done = subprocess.run(
        [*BARNABAS, "users", "add", name, "--password-file", "-", "--bootstrap", address],
        input=f"{name}-secret".encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def allow(address: str, user: str, operation: int, topic: str) -> None:
    creation = AclCreation(
        resource_type=2,
        resource_name=topic,
        resource_pattern_type=3,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=3,
    )
    with Connection(address, PATIENCE_S) as connection:
        request = CreateAclsRequest(creations=[creation])
        assert connection.call(request, CreateAclsResponse).results[0].error_code == 0


def limit(address: str, user: str) -> None:
    with Connection(address, PATIENCE_S) as connection:
        alter(connection, [((("user", user),), {P: 2_000.0})])


class Outcome:
    """What a producer has been told."""

    def __init__(self) -> None:
        self.codes: list[str] = []
        self.throttled_ms = 0.0

    def delivered(self, error: Any, _: Any) -> None:
        self.codes.append("" if error is None else error.name())

    def failed(self, error: Any) -> None:
        self.codes.append(error.name())

    def throttled(self, event: Any) -> None:
        self.throttled_ms = max(self.throttled_ms, event.throttle_time * 1000)


def produced(address: str, user: str, topic: str, password: str = "") -> Outcome:
    """Send some large records one by one, as a user."""
    from confluent_kafka import Producer

    outcome = Outcome()
    producer = Producer(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password or f"{user}-secret",
            "error_cb": outcome.failed,
            "throttle_cb": outcome.throttled,
            "message.timeout.ms": 20_000,
        }
    )
    for _ in range(3):
        producer.produce(topic, os.urandom(20_000), on_delivery=outcome.delivered)
        deadline = time.monotonic() + 30
        begun = len(outcome.codes)
        while len(outcome.codes) == begun and time.monotonic() < deadline:
            producer.poll(0.1)
        if outcome.codes != [""] * len(outcome.codes) or outcome.throttled_ms:
            break
    producer.purge()
    producer.flush(1)
    return outcome


def check(address: str, open_to: dict[str, str], limited: str) -> None:
    """Have each user write where it may, and where it may not."""
    for user, topic in open_to.items():
        assert set(produced(address, user, topic).codes) == {""}, user
        others = set(produced(address, user, "closed").codes)
        assert others == {"TOPIC_AUTHORIZATION_FAILED"}, user
    assert "_AUTHENTICATION" in produced(address, limited, "t", "wrong").codes
    assert produced(address, limited, open_to[limited]).throttled_ms > 0


def until_settled(address: str, count: int) -> None:
    """Wait until the broker shows `count` ACLs: Kafka's follow the controller a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    with Connection(address, PATIENCE_S) as connection:
        while len(acl_requests.describe(connection, AclCodes())) != count:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def our_broker(data: Path) -> tuple[BrokerProcess, str]:
    broker = BrokerProcess(data, SETTINGS)
    address = f"127.0.0.1:{free_port()}"
    broker.settings["listeners"] += f",SASL_PLAINTEXT://{address}"
    return broker, address


def kafka_node(directory: Path) -> tuple[KafkaNode, str]:
    (port,) = kafka.free_ports(1)
    node = KafkaNode(directory)
    node._settings |= {
        **SETTINGS,
        "listeners": f"PLAINTEXT://{node.address},SASL_PLAINTEXT://127.0.0.1:{port},"
        f"CONTROLLER://127.0.0.1:{node._controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": MODULE,
    }
    return node, f"127.0.0.1:{port}"


def until_snapshot(data: Path, before: int) -> int:
    """Wait until one more snapshot of the metadata has been written."""
    deadline = time.monotonic() + PATIENCE_S
    while (count := len(list(data.glob("__cluster_metadata-0/*.checkpoint")))) <= before:
        assert time.monotonic() < deadline, "no snapshot"
        time.sleep(0.1)
    return count


def test_each_broker_uses_what_the_other_has_recorded(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    kafka.libs()
    data = tmp_path / "kafka" / "data"
    data.parent.mkdir()
    ours, address = our_broker(data)
    open_to = {"alice": "t", "bob": "u"}
    with ours:
        admin = AdminClient({"bootstrap.servers": ours.address})
        topics = [NewTopic(name, 1, 1) for name in ("t", "u", "v", "closed")]
        for future in admin.create_topics(topics).values():
            future.result(PATIENCE_S)
        for user, topic in open_to.items():
            add_user(ours.address, user)
            allow(ours.address, user, 4, topic)
        limit(ours.address, "alice")
        check(address, open_to, "alice")
        count = until_snapshot(data, 0)
    node, address = kafka_node(data.parent)
    node.start()
    try:
        until_settled(node.address, 2)
        check(address, open_to, "alice")
        add_user(node.address, "carol")
        allow(node.address, "carol", 4, "v")
        limit(node.address, "carol")
        until_settled(node.address, 3)
        open_to["carol"] = "v"
        check(address, open_to, "carol")
        until_snapshot(data, count)
    finally:
        node.end()
    ours, address = our_broker(data)
    with ours:
        until_settled(ours.address, 3)
        check(address, open_to, "carol")
        assert produced(address, "alice", "t").throttled_ms > 0
