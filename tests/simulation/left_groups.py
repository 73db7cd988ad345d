"""What Kafka has written to the logs of groups while the broker was down.

Offsets that a transaction commits, with its marker: a commit, an abort, or none yet. Offsets in
values of older versions. Records that this broker passes over: of an unknown type, without a type,
with a value that nobody can read, and of a group that belongs to another partition.

The offsets go to groups whose clients are no members (`SIMPLE_GROUPS`), so the judge of groups
learns of those that count, and the clients read them.
"""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker.groups.group_log import partition_of
from protocol.group_records import OffsetCommitKey, OffsetCommitValue, encode_key
from protocol.kafka.codec import encode_message
from protocol.record_batch import read_header
from protocol.records import Record, build
from storage.files import filenames
from storage.files.filenames import Kind
from tests.simulation.clients.groups import SIMPLE_GROUPS
from tests.simulation.clients.topics import KINDS_OF_TOPIC
from tests.simulation.emptied_marker import OFFSETS, end_of, last_segments
from tests.simulation.group_events import Commit
from tests.support.memory_inodes import Directory, Inode

PRODUCERS_FROM: Final = 1 << 40  # ids that the broker never gives
ABORT, COMMIT = 0, 1
_MARKER: Final = struct.Struct(">hi")  # version, epoch of the coordinator
_INT16: Final = struct.Struct(">h")
OLD_VERSIONS: Final = (0, 1, 2, 3, 4)
WHO: Final = "kafka"


class End(NamedTuple):
    """Where a log of groups ends."""

    inode: Inode
    offset: int
    epoch: int
    time_ms: int

    def append(self, batch: bytearray) -> End:
        """Append a batch, durably; return the end behind it."""
        batch[0:8] = self.offset.to_bytes(8, "big")
        batch[12:16] = self.epoch.to_bytes(4, "big")
        self.inode.live += batch
        self.inode.harden()
        return self._replace(offset=read_header(bytes(batch)).next_offset)


def leave_offsets(home: Directory, rng: random.Random, now_ns: int) -> tuple[str, Commit | None]:
    """Leave records of groups; say what, and which commit of an offset counts from now on."""
    count = sum(1 for name in home.live if name.rpartition("-")[0] == OFFSETS)
    topics = _topics(home)
    group = rng.choice(SIMPLE_GROUPS)
    end = _end_of(home, f"{OFFSETS}-{partition_of(group, count)}") if count else None
    if end is None or not topics:
        return "finds no log of groups", None
    topic, partition = rng.choice(topics)
    event = Commit(
        who=WHO,
        group=group,
        began_ns=now_ns,
        ended_ns=now_ns,
        code=0,
        topic=topic,
        partition=partition,
        offset=rng.getrandbits(40),
        metadata="left",
    )
    name, leave = rng.choice(LEFT)
    counts = leave(end, event, rng, count)
    return f"leaves {name} of {group} in {OFFSETS}", event if counts else None


def _topics(home: Directory) -> list[tuple[str, int]]:
    """Return the partitions of clients' topics that nobody deletes."""
    found = [filenames.parse(name) for name in sorted(home.live)]
    return [
        (one.topic, one.partition)
        for one in found
        if one is not None
        and one.kind is Kind.PARTITION
        and one.topic in KINDS_OF_TOPIC
        and "may_be_gone" not in KINDS_OF_TOPIC[one.topic][1]
    ]


def _end_of(home: Directory, name: str) -> End | None:
    for path, inode in last_segments(home):
        if path.startswith(f"{name}/") and (end := end_of(inode)) is not None:
            directory = home.live[name]
            assert isinstance(directory, Directory)
            directory.put(path.rpartition("/")[2], inode)  # durably, as what will be in it
            home.put(name, directory)
            header = read_header(bytes(inode.live), end[0])
            return End(inode, end[1], header.leader_epoch, header.max_timestamp)
    return None


# -- Records ------------------------------------------------------------------------------------


def _record(end: End, event: Commit, version: int = 4) -> Record:
    key = OffsetCommitKey(group=event.group, topic=event.topic, partition=event.partition)
    value = OffsetCommitValue(
        offset=event.offset, metadata=event.metadata, commit_timestamp=end.time_ms
    )
    data = _INT16.pack(version) + encode_message(value, version)
    return Record(0, end.time_ms, encode_key(key), data)


def _marker(end: End, outcome: int) -> Record:
    return Record(0, end.time_ms, struct.pack(">hh", 0, outcome), _MARKER.pack(0, 3))


def _old(end: End, event: Commit, rng: random.Random, _count: int) -> bool:
    end.append(build([_record(end, event, rng.choice(OLD_VERSIONS))]))
    return True


def _transaction(outcome: int | None) -> Leave:
    """Return the leaving of an offset within a transaction, which ends so, or not yet."""

    def leave(end: End, event: Commit, rng: random.Random, _count: int) -> bool:
        producer: dict[str, Any] = {
            "producer_id": PRODUCERS_FROM + rng.getrandbits(40),
            "producer_epoch": 0,
            "transactional": True,
        }
        end = end.append(build([_record(end, event)], base_sequence=0, **producer))
        if outcome is not None:
            marker = _marker(end, outcome)
            end.append(build([marker], control=True, base_sequence=-1, **producer))
        return outcome == COMMIT

    return leave


def _overtaken(end: End, event: Commit, rng: random.Random, _count: int) -> bool:
    """Leave an offset of a transaction that ends only after a later commit without one."""
    producer: dict[str, Any] = {
        "producer_id": PRODUCERS_FROM + rng.getrandbits(40),
        "producer_epoch": 0,
        "transactional": True,
    }
    first = dataclasses.replace(event, offset=rng.getrandbits(40))
    end = end.append(build([_record(end, first)], base_sequence=0, **producer))
    end = end.append(build([_record(end, event)]))
    end.append(build([_marker(end, COMMIT)], control=True, base_sequence=-1, **producer))
    return True


def _passed_over(end: End, event: Commit, rng: random.Random, count: int) -> bool:
    """Leave records that nobody reads."""
    here = partition_of(event.group, count)
    others = [group for group in SIMPLE_GROUPS if partition_of(group, count) != here]
    key = encode_key(OffsetCommitKey(group=event.group, topic=event.topic, partition=0))
    choices = [
        Record(0, end.time_ms, _INT16.pack(99) + b"later", b"\0\0"),
        Record(0, end.time_ms, b"\0", b""),
        Record(0, end.time_ms, key, _INT16.pack(99)),
        Record(0, end.time_ms, key, _INT16.pack(1) + b"\0"),
    ]
    if others:
        event.group = rng.choice(others)
        choices.append(_record(end, event))
    end.append(build([rng.choice(choices)]))
    return False


Leave = Callable[[End, Commit, random.Random, int], bool]
LEFT: Final[tuple[tuple[str, Leave], ...]] = (
    ("an offset", _old),
    ("a committed offset", _transaction(COMMIT)),
    ("an aborted offset", _transaction(ABORT)),
    ("an undecided offset", _transaction(None)),
    ("an overtaken offset", _overtaken),
    ("what nobody reads", _passed_over),
)
