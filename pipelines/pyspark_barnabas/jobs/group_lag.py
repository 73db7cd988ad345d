"""How far consumer groups are behind the topics they read.

`lag_of_cluster` asks the brokers, with ListGroups 2, FindCoordinator 2 and OffsetFetch 5, which
Apache Kafka 2.8 to 4.x and Barnabas serve. `ends` are the end offsets of the partitions of
interest; a group that has committed no offset for any of them does not appear.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.brokers import ClusterOptions
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.error_codes import COORDINATOR_PASSING, Retriable, check
from pyspark_barnabas.wire.primitives import Reader, string
from pyspark_barnabas.wire.protocol import (
    FIND_COORDINATOR,
    GROUP,
    LIST_GROUPS,
    METADATA,
    OFFSET_FETCH,
    TopicPartition,
)


@dataclass(slots=True)
class GroupLag:
    """One group and one topic; `lags` are records by partition."""

    group: str
    topic: str
    lags: dict[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many records the group has not read."""
        return sum(self.lags.values())


def lags_of(
    committed: Mapping[tuple[str, str, int], int], ends: Mapping[TopicPartition, int]
) -> list[GroupLag]:
    """Return the lags for offsets by (group, topic, partition), sorted by group and topic."""
    found: dict[tuple[str, str], GroupLag] = {}
    for (group, topic, partition), offset in sorted(committed.items()):
        end = ends.get((topic, partition))
        if end is not None and offset >= 0:
            one = found.setdefault((group, topic), GroupLag(group, topic))
            one.lags[partition] = max(0, end - offset)
    return list(found.values())


def lag_of_cluster(options: ClusterOptions, ends: Mapping[TopicPartition, int]) -> list[GroupLag]:
    """Ask every broker for its groups, and each group's coordinator for its offsets."""
    committed: dict[tuple[str, str, int], int] = {}
    with Cluster(options) as cluster:
        what = "asking for the brokers"
        body = protocol.metadata_request([])
        brokers = cluster.ask(what, METADATA, body, protocol.read_metadata).brokers
        groups: set[str] = set()
        for broker in brokers:
            with _at(options, broker.host, broker.port) as one:
                groups.update(one.ask("listing groups", LIST_GROUPS, b"", _read_groups))
        for group in sorted(groups):
            what = f"finding the coordinator of group {group}"
            body = protocol.find_coordinator_request(GROUP, group)
            host, port = cluster.ask(what, FIND_COORDINATOR, body, _read_coordinator)
            with _at(options, host, port) as one:
                what = f"asking for the offsets of group {group}"
                body = string(group) + struct.pack(">i", -1)  # of all topics
                offsets = one.ask(what, OFFSET_FETCH, body, _read_offsets)
            for (topic, partition), offset in offsets.items():
                committed[group, topic, partition] = offset
    return lags_of(committed, ends)


def _at(options: ClusterOptions, host: str, port: int) -> Cluster:
    return Cluster(replace(options, bootstrap=((host, port),)))


def _check(error: int, what: str) -> None:
    if error in COORDINATOR_PASSING:
        raise Retriable(f"{what}: the coordinator is not ready")
    check(error, what)


def _read_groups(reader: Reader) -> list[str]:
    reader.int32()
    _check(reader.int16(), "listing groups")
    return [name for name, _ in reader.array(lambda: (reader.string(), reader.string()))]


def _read_coordinator(reader: Reader) -> tuple[str, int]:
    error, host, port = protocol.read_coordinator(reader)
    _check(error, "finding a coordinator")
    return host, port


def _read_offsets(reader: Reader) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}

    def topic() -> None:
        name = reader.string()

        def partition() -> None:
            index, offset = reader.int32(), reader.int64()
            reader.int32()
            reader.string()
            error = reader.int16()
            if not error:
                found[name, index] = offset

        reader.array(partition)

    reader.int32()
    reader.array(topic)
    _check(reader.int16(), "asking for offsets")
    return found
