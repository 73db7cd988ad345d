"""Directories on which a broker must not start: metadata that was lost, damaged or contradicts
itself, another identity, and another process that holds the lock.

A ruin changes the directory while the broker is down, and says what it did; "" if it cannot do it
there. The start after it must be refused and must change no file, apart from the clean mark, which
goes first. `Saved` puts the directory back as it was.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any, Final

from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
)
from protocol.record_batch import write_crc
from protocol.records import Record, build
from storage.files import filenames, meta_properties
from storage.files.filenames import Kind
from tests.simulation.bit_flip import batches_below
from tests.simulation.left_caches import bytes_of, put, remove
from tests.simulation.left_metadata import END, Tail, frame_of
from tests.support.memory_inodes import Directory, Inode

NEVER_CHANGED: Final = frozenset({filenames.LOCK, filenames.CLEAN_SHUTDOWN})
METADATA: Final = f"{filenames.METADATA_DIRECTORY}/"
ANOTHER: Final = "a meta.properties of node 9"
NO_ID: Final = bytes(15) + b"\x55"
TOPIC_ID: Final = bytes(14) + b"\x55\x55"


class Saved:
    """The files of a data directory and of its metadata log, as they were."""

    def __init__(self, home: Directory) -> None:
        self._home = home
        self._metadata = home.live.get(filenames.METADATA_DIRECTORY)
        self._files = [
            (directory, name, bytes(node.live))
            for directory in (home, self._metadata)
            if isinstance(directory, Directory)
            for name, node in directory.live.items()
            if isinstance(node, Inode) and name not in NEVER_CHANGED
        ]

    def restore(self) -> None:
        """Put them back, and the directory of the metadata log."""
        if self._metadata is not None:
            self._home.put(filenames.METADATA_DIRECTORY, self._metadata)
        kept = {(id(directory), name) for directory, name, _ in self._files}
        for directory in (self._home, self._metadata):
            if isinstance(directory, Directory):
                for name in [
                    name for name, node in directory.live.items() if isinstance(node, Inode)
                ]:
                    if (id(directory), name) not in kept and name not in NEVER_CHANGED:
                        remove(directory, name)
        for directory, name, content in self._files:
            if bytes_of(directory, name) != content or name not in directory.live:
                put(directory, name, content)


def may_change(path: str, what: str) -> bool:
    """Whether a start that is refused for a ruin may change a file.

    Another node's metadata log is recovered before the broker knows whose it is.
    """
    return path in NEVER_CHANGED or (what == ANOTHER and path.startswith(METADATA))


def ruin(home: Directory, rng: random.Random) -> str:
    """Ruin a data directory; say how, or return "" if there is nothing to ruin."""
    ways = list(RUINS)
    rng.shuffle(ways)
    for way in ways:
        said = way(home, rng)
        if said:
            return said
    return ""


# -- Identity -------------------------------------------------------------------------------------

_BAD_IDENTITIES: Final = (
    b"",
    b"version=0\nbroker.id=1\n",
    b"version=1\nnode.id=1\n",
    b"version=1\ncluster.id=c\nnode.id=one\n",
    b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n",
    b"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n",
)


def _has_logs(home: Directory) -> bool:
    found = [filenames.parse(name) for name in home.live if name != filenames.METADATA_DIRECTORY]
    return any(one is not None and one.kind is Kind.PARTITION for one in found)


def _identity(home: Directory, rng: random.Random) -> str:
    text = bytes_of(home, filenames.META_PROPERTIES)
    if not text or not _has_logs(home):
        return ""
    way = rng.randrange(len(_BAD_IDENTITIES) + 1)
    if way == len(_BAD_IDENTITIES):
        remove(home, filenames.META_PROPERTIES)
        return "no meta.properties"
    put(home, filenames.META_PROPERTIES, _BAD_IDENTITIES[way])
    return f"a meta.properties of {_BAD_IDENTITIES[way]!r}"


def _node(home: Directory, _rng: random.Random) -> str:
    text = bytes_of(home, filenames.META_PROPERTIES)
    if not text or not _is_led(home):
        return ""
    meta = meta_properties.decode(filenames.META_PROPERTIES, text)
    other = meta_properties.MetaProperties(
        cluster_id=meta.cluster_id, node_id=9, directory_id=meta.directory_id
    )
    put(home, filenames.META_PROPERTIES, meta_properties.encode(other))
    return ANOTHER


def _is_led(home: Directory) -> bool:
    """Whether a partition is here that the metadata log has, as one with records surely is."""
    points = bytes_of(home, filenames.RECOVERY_POINT_CHECKPOINT).split(b"\n")[2:]
    mine = filenames.METADATA_TOPIC.encode()
    lines = [line.split() for line in points if not line.startswith(mine)]
    return any(
        len(line) == 3 and b"%s-%s" % (line[0], line[1]) in {name.encode() for name in home.live}
        for line in lines
    )


# -- The metadata log -----------------------------------------------------------------------------


def _orphans(home: Directory, _rng: random.Random) -> str:
    if not _has_logs(home) or filenames.METADATA_DIRECTORY not in home.live:
        return ""
    remove(home, filenames.METADATA_DIRECTORY)
    return "no metadata log"


def _damage(home: Directory, rng: random.Random) -> str:
    """Flip a bit of the metadata log, of a batch that others follow."""
    node = Tail(home).inode
    if node is None:
        return ""
    batches = [one for one in batches_below(node.live, END) if one.end < len(node.live)]
    if not batches:
        return ""
    batch = rng.choice(batches)
    at = rng.randrange(batch.begin + 16, batch.end)  # from the magic on; no CRC covers the epoch
    node.live[at] ^= 1 << rng.randrange(8)
    node.harden()
    return f"a flipped bit at {at} of the metadata log"


def _epoch(home: Directory, rng: random.Random) -> str:
    tail = Tail(home)
    if tail.inode is None:
        return ""
    tail.epoch += rng.choice((-1, 1)) if tail.epoch else 1
    tail.append(tail.batch([FeatureLevelRecord(name="x", feature_level=0)]))
    return f"an epoch {tail.epoch} that no leader began"


def _contradiction(home: Directory, rng: random.Random) -> str:
    tail = Tail(home)
    if tail.inode is None or tail.in_transaction:
        return ""
    name, records = rng.choice(CONTRADICTIONS)
    tail.append(tail.batch(list(records)))
    return name


def _records(home: Directory, rng: random.Random) -> str:
    """Append records that cannot be read."""
    tail = Tail(home)
    if tail.inode is None:
        return ""
    good = frame_of(TopicRecord(name="t", topic_id=TOPIC_ID))
    frames = (None, b"", b"\x09" + good[1:], good + b"x", good[:-3], b"\x01\x02\x63", b"\xff" * 6)
    frame = rng.choice(frames)
    batch = bytearray(build([Record(0, tail.time_ms, None, frame)]))
    _stamp(batch, tail)
    tail.append(batch)
    return f"a record {frame!r}"


def _control(home: Directory, rng: random.Random) -> str:
    """Append a control batch without a type, or a batch whose records are cut."""
    tail = Tail(home)
    if tail.inode is None:
        return ""
    if rng.random() < 0.5:
        batch = bytearray(build([Record(0, tail.time_ms, b"", b"")], control=True))
    else:
        batch = tail.batch([FeatureLevelRecord(name="x", feature_level=0)])
        batch[-1:] = b""
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        write_crc(batch, 0)
    _stamp(batch, tail)
    tail.append(batch)
    return "a batch that cannot be opened"


def _stamp(batch: bytearray, tail: Tail) -> None:
    batch[0:8] = tail.next_offset.to_bytes(8, "big")
    batch[12:16] = tail.epoch.to_bytes(4, "big")


def _gap(home: Directory, _rng: random.Random) -> str:
    """Let a batch be missing before the last one."""
    tail = Tail(home)
    if tail.inode is None:
        return ""
    tail.next_offset += 1
    tail.append(tail.batch([FeatureLevelRecord(name="x", feature_level=0)]))
    return "a gap in the metadata log"


def _lost_end(home: Directory, _rng: random.Random) -> str:
    """Cut a batch that the recovery point says is durable."""
    node = Tail(home).inode
    points = bytes_of(home, filenames.RECOVERY_POINT_CHECKPOINT).split(b"\n")
    mine = f"{filenames.METADATA_TOPIC} 0 ".encode()
    point = next((int(line.split()[2]) for line in points if line.startswith(mine)), 0)
    if node is None:
        return ""
    batches = [one for one in batches_below(node.live, END) if one.next_offset <= point]
    if not batches:
        return ""
    del node.live[batches[-1].begin :]
    node.harden()
    return "a metadata log that ends below its recovery point"


def _renamed(home: Directory, _rng: random.Random) -> str:
    """Let the first segment be missing."""
    directory = home.live.get(filenames.METADATA_DIRECTORY)
    first = filenames.log_name(0)
    if not isinstance(directory, Directory) or first not in directory.live:
        return ""
    names = [name for name in directory.live if filenames.parse(name)]
    if any(name.endswith(".checkpoint") for name in names):
        return ""  # a snapshot may begin there
    content = bytes_of(directory, first)
    remove(directory, first)
    put(directory, filenames.log_name(7), content)
    return "a metadata log that begins at offset 7"


_PARTITION: Final[dict[str, Any]] = {"replicas": [1], "isr": [1], "leader": 1, "leader_epoch": 0}
_TOPIC: Final = TopicRecord(name="twice", topic_id=TOPIC_ID)
CONTRADICTIONS: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("a topic twice", (_TOPIC, TopicRecord(name="twice", topic_id=NO_ID))),
    ("a topic id twice", (_TOPIC, TopicRecord(name="other", topic_id=TOPIC_ID))),
    ("a partition of no topic", (PartitionRecord(partition_id=0, topic_id=NO_ID, **_PARTITION),)),
    (
        "a partition behind a gap",
        (_TOPIC, PartitionRecord(partition_id=5, topic_id=TOPIC_ID, **_PARTITION)),
    ),
    (
        "a change of no partition",
        (_TOPIC, PartitionChangeRecord(partition_id=5, topic_id=TOPIC_ID, isr=[1])),
    ),
    (
        "producer ids that go back",
        (
            ProducerIdsRecord(broker_id=1, next_producer_id=1 << 40),
            ProducerIdsRecord(broker_id=1, next_producer_id=0),
        ),
    ),
    ("no eligible leaders of no topic", (ClearElrRecord(topic_name="no.such.topic"),)),
    ("a transaction within another", (BeginTransactionRecord(), BeginTransactionRecord())),
    ("the end of no transaction", (EndTransactionRecord(),)),
    ("no transaction aborted", (AbortTransactionRecord(),)),
    ("a later metadata.version", (FeatureLevelRecord(name="metadata.version", feature_level=99),)),
)

RUINS: Final[tuple[Callable[[Directory, random.Random], str], ...]] = (
    _identity,
    _node,
    _orphans,
    _damage,
    _epoch,
    _contradiction,
    _contradiction,
    _contradiction,
    _records,
    _control,
    _gap,
    _lost_end,
    _renamed,
)
