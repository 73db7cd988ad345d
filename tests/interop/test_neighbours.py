"""What people run beside Kafka, in Java: MirrorMaker 2, Connect, Debezium's engine, Flink.

Each is the original, from Maven (`oracle/*/pom.xml`); what cannot be had skips its test with the
reason. With BARNABAS_TEST_AGAINST=kafka the broker of Debezium and Flink is an Apache Kafka.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.interop.committed_reader import read_all
from tests.interop.connect_worker import Worker
from tests.interop.first_commit import commit
from tests.interop.java_process import JavaProcess, compiled
from tests.interop.oracle.kafka import KafkaNode, java, need_javac, neighbour
from tests.support.broker_process import BrokerProcess
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

PARTITIONS = 3
COUNT = 3_000
PATIENCE_S = 240.0
# Flink's classes for old collections reach into the JDK's.
FLINK_FLAGS = (
    "-Xmx700m", "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.time=ALL-UNNAMED",
)  # fmt: skip


def until(done: Callable[[], bool], what: str) -> None:
    """Wait until `done`; AssertionError when it takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.2)


def filled(address: str, topic: str, settings: Mapping[str, str] | None = None) -> None:
    """Create a topic with records in each partition."""
    admin = AdminClient({"bootstrap.servers": address})
    made = NewTopic(topic, PARTITIONS, 1, config=dict(settings or {}))
    admin.create_topics([made])[topic].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, f"v{number}", f"k{number}", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def end_of(address: str, topic: str) -> int:
    """Return how many offsets a topic has, 0 before it exists."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    if topic not in admin.list_topics(timeout=PATIENCE_S).topics:
        return 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = sum(consumer.get_watermark_offsets(one, timeout=PATIENCE_S)[1] for one in places)
    consumer.close()
    return found


def offsets_of(address: str, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group."""
    admin = AdminClient({"bootstrap.servers": address})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(PATIENCE_S).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found}


# -- MirrorMaker 2 ---------------------------------------------------------------------------------

MIRRORED = {"kafka": "from-kafka", "barnabas": "from-barnabas"}  # a cluster, its topic
# The group of each topic has read all. A commit before that has no counterpart on the other side if
# MirrorMaker's task for offsets starts late: it knows the last pair of offsets, then.
READ = COUNT // PARTITIONS
MIRROR_MAKER = {
    "clusters": "kafka, barnabas",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.topic.acls.enabled": "false",
    "offset.lag.max": "0",
}


def commit_all(address: str, topic: str) -> None:
    """Commit as a group that has read a topic and left."""
    places = [TopicPartition(topic, partition, READ) for partition in range(PARTITIONS)]
    commit(address, f"readers-of-{topic}", places)


def retention_of(address: str, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return str(found["retention.ms"].value)


def test_mirror_maker_copies_both_ways(tmp_path: Path) -> None:
    """Records, settings and the offsets of groups, from Apache Kafka and to it, at once."""
    jars = neighbour("connect-mirror", "connect-mirror-4*.jar")
    kafka = KafkaNode(tmp_path / "kafka")
    ours = BrokerProcess(tmp_path / "data")
    with ExitStack() as stack:
        for broker in (kafka, ours):
            broker.start()
            stack.callback(broker.kill)
        addresses = {"kafka": kafka.address, "barnabas": ours.address}
        settings = dict(MIRROR_MAKER)
        for source, topic in MIRRORED.items():
            filled(addresses[source], topic, {"retention.ms": "432000000"})
            commit_all(addresses[source], topic)
            (target,) = addresses.keys() - {source}
            settings[f"{source}.bootstrap.servers"] = addresses[source]
            settings[f"{source}->{target}.enabled"] = "true"
            settings[f"{source}->{target}.topics"] = topic
            settings[f"{source}->{target}.groups"] = "readers-of-.*"
        file = tmp_path / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        name = "org.apache.kafka.connect.mirror.MirrorMaker"
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
        command = java(name, str(file), flags=flags, jars=jars)
        log = tmp_path / "mm2.out"
        with JavaProcess(command, log) as maker:
            for source, topic in MIRRORED.items():
                (target,) = addresses.keys() - {source}
                copy, there = f"{source}.{topic}", addresses[target]
                group = f"readers-of-{topic}"
                places = {(copy, partition) for partition in range(PARTITIONS)}
                until(lambda t=there, c=copy: end_of(t, c) == COUNT or not maker.running, copy)
                until(
                    lambda t=there, p=places, g=group: (
                        p <= offsets_of(t, g).keys() or not maker.running
                    ),
                    f"the offsets of {group}",
                )
                assert maker.running, log.read_text()[-3000:]
                assert read_all(there, copy, PARTITIONS) == read_all(
                    addresses[source], topic, PARTITIONS
                )
                assert retention_of(there, copy) == "432000000"
                found = offsets_of(there, group)
                assert all(0 < found[place] <= READ for place in places)
        told = log.read_text() + "\n".join(maker.lines)
        assert [line for line in told.splitlines() if "[ERROR]" in line] == []


# -- Connect ---------------------------------------------------------------------------------------


def test_connect_moves_files_through_both_brokers(tmp_path: Path) -> None:
    """A worker that keeps its state here; one pair of connectors here, one at Apache Kafka."""
    jars = neighbour("connect-mirror", "connect-file-*.jar")
    (plugin,) = jars.glob("connect-file-*.jar")
    plugins = tmp_path / "plugins" / "file"
    plugins.mkdir(parents=True)
    (plugins / plugin.name).symlink_to(plugin)
    kafka = KafkaNode(tmp_path / "kafka")
    ours = BrokerProcess(tmp_path / "data", {"group.min.session.timeout.ms": "1000"})
    lines = [f"line {number}" for number in range(1_000)]
    with ExitStack() as stack:
        for broker in (kafka, ours):
            broker.start()
            stack.callback(broker.kill)
        worker = Worker(tmp_path / "worker", tmp_path / "plugins", ours.address)
        worker.launch()
        stack.callback(worker.end)
        for name, address in (("kafka", kafka.address), ("ours", ours.address)):
            source, sink = tmp_path / f"{name}.in", tmp_path / f"{name}.out"
            source.write_text("".join(f"{line}\n" for line in lines[:500]))
            at = "override.bootstrap.servers"
            for kind, more in (
                ("Source", {"file": str(source), "topic": name, f"producer.{at}": address}),
                ("Sink", {"file": str(sink), "topics": name, f"consumer.{at}": address}),
            ):
                config = {
                    "connector.class": f"org.apache.kafka.connect.file.FileStream{kind}Connector"
                }
                worker.ask("PUT", f"/connectors/{name}-{kind}/config", config | more)
            with source.open("a") as file:
                file.write("".join(f"{line}\n" for line in lines[500:]))
            until(
                lambda s=sink: s.exists() and s.read_text().splitlines() == lines,
                f"{name}.out, in which every line is once",
            )
            kept = worker.ask("GET", f"/connectors/{name}-Source/offsets")["offsets"]
            assert [one["partition"] for one in kept] == [{"filename": str(source)}]


# -- Debezium and Flink ----------------------------------------------------------------------------


def test_debezium_keeps_its_offsets(tmp_path: Path) -> None:
    jars = neighbour("debezium", "debezium-embedded-*.jar")
    need_javac()
    broker = broker_on(tmp_path / "broker")
    command = compiled("DebeziumOffsets", tmp_path, jars)
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.kill)
        with JavaProcess([*command, broker.address, "out"], tmp_path / "errors") as engine:
            code = engine.wait()
        assert (code, engine.lines) == (0, ["run 1 changes 100", "run 2 changes 0"]), (
            engine.errors()
        )
        (found,) = read_all(broker.address, "out", 1)
    ids = [json.loads(value or b"")["payload"]["batch"] for _, value in found]
    assert len(ids) == 100


def test_flink_copies_a_topic_exactly_once(tmp_path: Path) -> None:
    jars = neighbour("flink", "flink-connector-kafka-*.jar")
    need_javac()
    broker = broker_on(tmp_path / "broker")
    command = compiled("FlinkCopy", tmp_path, jars)
    command[1:1] = FLINK_FLAGS
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.kill)
        filled(broker.address, "in")
        with JavaProcess([*command, broker.address, "in", "out"], tmp_path / "errors") as job:
            code = job.wait()
        assert (code, job.lines) == (0, ["done"]), job.errors()
        written = sorted(value for _, value in read_all(broker.address, "out", 1)[0])
        offsets = offsets_of(broker.address, "flink")
    assert written == sorted(b"V%d" % number for number in range(COUNT))
    # Flink hands the commits of a checkpoint to a task, and a job that ends does not wait for it:
    # of Apache Kafka the group often has none.
    assert all(0 < offset <= COUNT // PARTITIONS for offset in offsets.values()), offsets
