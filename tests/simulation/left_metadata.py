"""What Kafka has written to the metadata log while the broker was down.

A directory that another Kafka has used holds records that this broker never writes: registrations,
topics of other nodes and other directories, reassignments under way, transactions of records that
its controller has left open, configs that nobody here knows. The log may end with the beginning of
a write. Each leaving appends one batch, or a part of one, to a log that is whole.

The topics are named after Kafka, and no client keeps records in them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from broker.metadata.records_io import FRAME_VERSION, RECORDS, decode_record, encode_record
from protocol.kafka.codec import encode_message
from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from protocol.record_batch import read_header
from protocol.records import Record, build, read_records
from protocol.wire import message_spec
from storage.files import filenames
from tests.simulation.bit_flip import batches_below
from tests.support.memory_inodes import Directory, Inode

END: Final = 1 << 62
US, OTHER, THIRD = 1, 2, 3  # ids of nodes
MIGRATING: Final = bytes(16)
ELSEWHERE: Final = bytes(14) + b"\x09\x09"
SECTOR_BYTES: Final = 512

Frames = list[Any]


def frame_of(record: Any) -> bytes:
    """Return a record as Kafka writes it, also one that the broker only reads."""
    if type(record) in RECORDS:
        return encode_record(record)
    spec = message_spec(type(record))
    head = bytes((FRAME_VERSION, spec.api_key, spec.version_max))
    return head + encode_message(record, spec.version_max)


class Tail:
    """The end of the metadata log: its file, the next offset, and the epoch and time of its end."""

    def __init__(self, home: Directory) -> None:
        self.inode: Inode | None = None
        self._home = home
        directory = home.live.get(filenames.METADATA_DIRECTORY)
        if not isinstance(directory, Directory):
            return
        names = [name for name in sorted(directory.live) if name.endswith(".log")]
        node = directory.live[names[-1]] if names else None
        if not isinstance(node, Inode):
            return
        batches = list(batches_below(node.live, END))
        if batches and batches[-1].end == len(node.live):
            header = read_header(bytes(node.live), batches[-1].begin)
            self.inode, self.next_offset = node, batches[-1].next_offset
            self._name, self._directory = names[-1], directory
            self.epoch, self.time_ms = header.leader_epoch, header.max_timestamp

    @property
    def in_transaction(self) -> bool:
        """Whether records at the end count only if a transaction of records is ended."""
        assert self.inode is not None
        content, is_open = bytes(self.inode.live), False
        for one in batches_below(self.inode.live, END):
            if read_header(content, one.begin).is_control:
                continue
            for record in read_records(memoryview(content)[one.begin : one.end], size_max=END):
                decoded = decode_record(record.value or b"")
                if isinstance(decoded, BeginTransactionRecord):
                    is_open = True
                elif isinstance(decoded, EndTransactionRecord | AbortTransactionRecord):
                    is_open = False
        return is_open

    def batch(self, records: Frames) -> bytearray:
        """Return the batch of records that would follow."""
        made = [Record(0, self.time_ms, None, frame_of(record)) for record in records]
        batch = bytearray(build(made))
        batch[0:8] = self.next_offset.to_bytes(8, "big")
        batch[12:16] = self.epoch.to_bytes(4, "big")
        return batch

    def append(self, batch: bytes) -> None:
        """Append bytes, durably."""
        assert self.inode is not None
        self.inode.live += batch
        self.inode.harden()
        self._directory.put(self._name, self.inode)
        self._home.put(filenames.METADATA_DIRECTORY, self._directory)


def leave_metadata(home: Directory, rng: random.Random) -> str:
    """Leave records, or a part of a write, at the end of the metadata log; say which."""
    tail = Tail(home)
    if tail.inode is None:
        return "finds no end of the metadata log"
    if rng.random() < 0.3:
        return _interrupt(tail, rng)
    name, make = rng.choice(LEFT)
    records = make(rng)
    if tail.in_transaction:  # whoever writes next aborts it first, as a new controller does
        records = [AbortTransactionRecord(), *records]
    tail.append(tail.batch(records))
    return f"leaves {name} in the metadata log"


def _interrupt(tail: Tail, rng: random.Random) -> str:
    """Append what a crash leaves of a write that was not synced."""
    batch = tail.batch([*_topic(rng, [US]), *[NoOpRecord()] * rng.choice((0, 100))])
    way = rng.randrange(3)
    if way == 0:
        del batch[rng.randrange(1, len(batch)) :]
    elif way == 1:
        batch[:] = bytes(len(batch))
    else:  # a sector has not arrived
        assert tail.inode is not None
        end = len(tail.inode.live)
        first = -end % SECTOR_BYTES
        starts = [0, *range(first, len(batch), SECTOR_BYTES)]
        start = rng.choice(starts)
        stop = min(first if start == 0 and first else start + SECTOR_BYTES, len(batch))
        batch[start:stop] = bytes(stop - start)
    tail.append(batch)
    return f"leaves {len(batch)} bytes of a write to the metadata log"


# -- Records ------------------------------------------------------------------------------------


def _topic(
    rng: random.Random, replicas: list[int], *, directory: bytes = MIGRATING, **more: Any
) -> Frames:
    """Return a topic of Kafka with one partition, which no node leads."""
    topic_id = rng.randbytes(16)
    fields: dict[str, Any] = {
        "partition_id": 0,
        "topic_id": topic_id,
        "replicas": replicas,
        "isr": [],
        "leader": -1,
        "leader_epoch": 3,
        "partition_epoch": 4,
        "directories": [directory] * len(replicas),
        **more,
    }
    name = f"kafka.{topic_id.hex()[:6]}"
    return [TopicRecord(name=name, topic_id=topic_id), PartitionRecord(**fields)]


def _with_changes(rng: random.Random) -> Frames:
    topic, partition = _topic(rng, [US])
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic.topic_id,
        isr=[US],
        leader=US,
        leader_recovery_state=1,
        eligible_leader_replicas=[US],
        last_known_elr=[US],
    )
    again = PartitionRecord(
        partition_id=0,
        topic_id=topic.topic_id,
        replicas=[US],
        isr=[US],
        leader=US,
        leader_epoch=5,
        partition_epoch=9,
        directories=[MIGRATING],
    )
    clear = ClearElrRecord(topic_name=rng.choice(("", topic.name)))
    return [topic, partition, change, clear, again]


def _removed(rng: random.Random) -> Frames:
    topic, partition = _topic(rng, [US])
    return [topic, partition, RemoveTopicRecord(topic_id=topic.topic_id)]


def _configs(rng: random.Random) -> Frames:
    topic, partition = _topic(rng, [US])
    values = (
        (CONFIG_TOPIC, topic.name, "retention.ms", "soon"),
        (CONFIG_TOPIC, topic.name, "cleanup.policy", "burn"),
        (CONFIG_TOPIC, topic.name, "later.key", "1"),
        (CONFIG_BROKER, "", "later.key", "1"),
        (CONFIG_BROKER, "", "log.cleaner.backoff.ms", "soon"),
        (CONFIG_BROKER, "7", "log.cleaner.threads", "2"),
    )
    configs = [
        ConfigRecord(resource_type=kind, resource_name=of, name=name, value=value)
        for kind, of, name, value in rng.sample(values, rng.randint(1, 3))
    ]
    return [topic, partition, *configs]


def _registrations(rng: random.Random) -> Frames:
    register = RegisterBrokerRecord(
        broker_id=rng.choice((US, OTHER)), incarnation_id=rng.randbytes(16), broker_epoch=77
    )
    return [
        register,
        FenceBrokerRecord(id=OTHER, epoch=77),
        UnregisterBrokerRecord(broker_id=OTHER, broker_epoch=77),
        NoOpRecord(),
    ]


def _feature(_rng: random.Random) -> Frames:
    return [
        FeatureLevelRecord(name="later.version", feature_level=1),
        FeatureLevelRecord(name="later.version", feature_level=0),
    ]


LEFT: Final[tuple[tuple[str, Callable[[random.Random], Frames]], ...]] = (
    ("a topic", lambda rng: _topic(rng, [US])),
    # Beside one of ours: where all topics are another node's, verify takes node.id for damaged.
    ("a topic of another node", lambda rng: [*_topic(rng, [US]), *_topic(rng, [OTHER])]),
    ("a topic of another directory", lambda rng: _topic(rng, [US], directory=ELSEWHERE)),
    ("a topic that moves away", lambda rng: _topic(rng, [US, OTHER], adding_replicas=[OTHER])),
    ("a topic that moves here", lambda rng: _topic(rng, [OTHER, US], adding_replicas=[US])),
    ("a topic that is led", lambda rng: _topic(rng, [US, THIRD], isr=[US, THIRD], leader=THIRD)),
    ("changes of a topic", _with_changes),
    ("a topic that is gone", _removed),
    ("configs", _configs),
    ("registrations", _registrations),
    ("a feature that is gone", _feature),
    (
        "a transaction",
        lambda rng: [BeginTransactionRecord(name="t"), *_topic(rng, [US]), EndTransactionRecord()],
    ),
    (
        "an aborted transaction",
        lambda rng: [BeginTransactionRecord(), *_topic(rng, [US]), AbortTransactionRecord()],
    ),
    ("an open transaction", lambda rng: [BeginTransactionRecord(), *_topic(rng, [US])]),
)
