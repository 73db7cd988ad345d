"""A controller on a disk in memory, assembled as at a broker start."""

from __future__ import annotations

import random
from pathlib import Path

from broker.metadata.controller import Controller
from broker.metadata.metadata_log import METADATA_TOPIC_ID, open_metadata_log
from broker.metadata.topic_life import TopicEvent, TopicState
from broker.metadata.topic_rules import NewTopic, Placement, TopicError
from config.topic import TopicConfig
from storage.files.filenames import log_name
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.plain_logs import PlainLogs

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka_metadata"
DATA = "/data"
DIRECTORY = f"{DATA}/__cluster_metadata-0"
LOG = f"{DIRECTORY}/{log_name(0)}"
NOW_MS = 1_700_000_000_000
OUR_DIRECTORY = b"our directory id"


class Node:
    """A started controller and its disk."""

    def __init__(self, filesystem=None, *, unclean=False, **placement):
        if filesystem is None:
            filesystem = MemoryFileSystem()
            filesystem.mkdir(DATA)
            filesystem.sync_directory("/")
        self.filesystem = filesystem
        self.logs = PlainLogs(filesystem, DATA)
        values = {
            "node_id": 1,
            "default_partition_count": 1,
            "default_replication_factor": 1,
            "clamp": False,
        }
        self.controller = Controller(
            open_metadata_log(filesystem, DATA, self._open_metadata, 1, NOW_MS),
            placement=Placement(**(values | placement)),
            topic_defaults=TopicConfig(retention_ms=5),
            directory_id=OUR_DIRECTORY,
            has_directory=self.logs.has_directory,
            is_blocked=lambda _topic: False,
            random_bytes=random.Random(7).randbytes,
        )
        self.image = self.controller.image
        self.leadership = self.controller.take_leadership(NOW_MS, unclean=unclean)
        self.controller.metadata_log.flush()

    def _open_metadata(self, config, leader_epoch):
        return self.logs.open_log(
            "__cluster_metadata", 0, METADATA_TOPIC_ID, config, leader_epoch, create=True
        )

    def open_all(self):
        return [log for life in self.controller.lives for log in self.open_logs(life.topic)]

    def open_logs(self, topic):
        return open_logs(self.controller, self.logs, topic)

    def drop_logs(self, topic):
        drop_logs(self.controller, self.logs.delete_log, topic)

    def create(self, name="orders", count=2, **configs):
        topic, _end_offset = create_topic(
            self.controller, name, partition_count=count, configs=configs
        )
        self.controller.metadata_log.flush()
        self.open_logs(topic)
        return topic

    def restart(self, *, unclean=False, power_cut="lost"):
        self.filesystem.crash(power_cut)
        return Node(self.filesystem, unclean=unclean)

    def directories(self):
        return sorted(name for name in self.filesystem.list(DATA) if name != "__cluster_metadata-0")


def create_topics(controller, asked, now_ms=NOW_MS):
    """Plan and record new topics, in one turn; `broker.topics` plans many of them in threads."""
    return controller.record(controller.planner.plan_topics(asked), now_ms)


def create_topic(controller, name, now_ms=NOW_MS, *, partition_count=-1, configs=None):
    """Create one topic; return it and the end offset to wait for. Raises TopicError."""
    asked = NewTopic(name=name, partition_count=partition_count, configs=configs or {})
    created = create_topics(controller, [asked], now_ms)
    result = created.results[name]
    if isinstance(result, TopicError):
        raise result
    return result, created.end_offset


def create_partitions(controller, asked, now_ms=NOW_MS):
    """Plan and record more partitions, in one turn."""
    return controller.record(controller.planner.plan_partitions(asked), now_ms)


def open_logs(controller, logs, topic):
    """Open those logs of a topic that are not open, as the broker does once it is durable."""
    life = controller.lives.of(topic)
    opened = []
    for info in topic.partitions:
        if controller.leads(topic, info.partition) and info.partition not in life.opened:
            opened.append(
                logs.open_log(
                    topic.name,
                    info.partition,
                    topic.topic_id,
                    controller.topic_configs.of(topic),
                    info.leader_epoch,
                    create=True,
                )
            )
            life.opened.add(info.partition)
    if life.state is not TopicState.ONLINE:
        life.move(TopicEvent.OPENED)
    return opened


def drop_logs(controller, delete_log, topic):
    """Drop the logs of a removed topic, as the broker does once the removal is durable."""
    life = controller.lives.of(topic)
    life.move(TopicEvent.GONE)
    for number in life.opened:
        delete_log(topic.name, number)
    life.move(TopicEvent.DROPPED)
    controller.forget(life)


def kafka_disk(directories=("plain-0", "plain-1", "conf-0")):
    """Return the disk of a Kafka 4.3.0 that was stopped cleanly, with empty logs."""
    filesystem = MemoryFileSystem()
    for path in (DATA, DIRECTORY, *(f"{DATA}/{name}" for name in directories)):
        filesystem.mkdir(path)
    file = filesystem.open(LOG, create=True)
    file.pwrite((GOLDEN / "clean_stop.log").read_bytes(), 0)
    file.fdatasync()
    file.close()
    return filesystem
