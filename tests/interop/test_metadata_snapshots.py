"""Snapshots of the metadata log: Apache Kafka 4.3 starts on ours, and Barnabas continues from both.

A Kafka creates a directory with a user, so that there are records that only Kafka understands.
Barnabas writes snapshots there, after every 500 bytes, and trims the log; it is stopped or killed.
Kafka opens every file with its tool and starts on a copy: the topics, their configs and
the user are there, and it makes another topic. Barnabas then starts on what Kafka left.
"""

import functools
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "1",
    "barnabas.recovery.point.interval.ms": "100",
}
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPICS = 30


@functools.cache
def admin(address: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": address})


def create(address: str, first: int, count: int) -> None:
    from confluent_kafka.admin import NewTopic

    for number in range(first, first + count):
        config = {"retention.ms": str(1_000_000 + number)}
        topic = NewTopic(f"topic-{number}", 2, 1, config=config)
        for future in admin(address).create_topics([topic]).values():
            future.result()


def add_user(address: str) -> None:
    from confluent_kafka.admin import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("somebody", info, b"secret", b"salt")
    for future in admin(address).alter_user_scram_credentials([change]).values():
        future.result()


def users(address: str) -> set[str]:
    return set(admin(address).describe_user_scram_credentials().result())


def topics(address: str) -> dict[str, tuple[int, str]]:
    from confluent_kafka.admin import ConfigResource

    names = [name for name in admin(address).list_topics(timeout=10).topics if name[:6] == "topic-"]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = admin(address).describe_configs(resources)
    listed = admin(address).list_topics(timeout=10).topics
    return {
        resource.name: (
            len(listed[resource.name].partitions), future.result()["retention.ms"].value
        )
        for resource, future in configs.items()
    }  # fmt: skip


def snapshots(data: Path) -> list[str]:
    found = (path.name for path in (data / "__cluster_metadata-0").glob("*.checkpoint"))
    return sorted(name for name in found if int(name[:20]))


def wait_for_trimming(data: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        logs = sorted(path.name for path in (data / "__cluster_metadata-0").glob("*.log"))
        if int(logs[0][:20]) > 0 and len(snapshots(data)) == 2:
            return
        time.sleep(0.2)
    raise AssertionError((logs, snapshots(data)))


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_kafka_goes_on_from_our_snapshots(tmp_path: Path, ending: str) -> None:
    kafka.libs()
    node = KafkaNode(tmp_path / "kafka")
    node.start()
    try:
        add_user(node.address)
        create(node.address, 0, 1)
    finally:
        node.stop()
    data = node.data
    ours = BrokerProcess(data, SETTINGS)
    ours.start()
    try:
        for number in range(1, TOPICS):
            create(ours.address, number, 1)
            if number % 5 == 0:
                time.sleep(1.1)  # snapshots are written once a second
        wait_for_trimming(data)
        create(ours.address, TOPICS, 1)
    finally:
        getattr(ours, ending)()
    files = [str(path) for path in sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))]
    done = kafka.tool(DUMP, "--cluster-metadata-decoder", "--files", ",".join(files))
    assert b"SnapshotFooter" in done.stdout, done.stdout
    assert not re.search(rb"isvalid: false|Error|Could not", done.stdout + done.stderr)
    shutil.copytree(data, tmp_path / "again" / "data")
    again = KafkaNode(tmp_path / "again")
    again.start()
    try:
        wanted = {f"topic-{n}": (2, str(1_000_000 + n)) for n in range(TOPICS + 1)}
        assert topics(again.address) == wanted
        assert users(again.address) == {"somebody"}
        create(again.address, TOPICS + 1, 1)
    finally:
        getattr(again, ending)()
    wanted |= {f"topic-{TOPICS + 1}": (2, str(1_000_000 + TOPICS + 1))}
    for directory in (again.data, again.data):  # twice: again on the result of ours
        with BrokerProcess(directory, SETTINGS) as last:
            assert topics(last.address) == wanted
            create(last.address, 0, 0)
            getattr(last, ending)()
