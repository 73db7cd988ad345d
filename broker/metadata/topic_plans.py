"""Plan a request that creates or enlarges topics: check it, and make its records.

A plan changes nothing. So a request can be validated without being carried out, and a thread can
plan a large one. A plan stays valid while no topic is created or removed; `Controller.record`
carries it out. `broker.metadata.topic_rules` checks one topic, `broker.metadata.growth` its new
partitions; this module applies both to the topics that exist and turns the result into records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from broker.metadata.growth import MorePartitions, added_replicas
from broker.metadata.image import CONFIG_TOPIC, ClusterImage, PartitionInfo, TopicInfo
from broker.metadata.topic_config import TopicConfigs
from broker.metadata.topic_life import TopicLives, TopicState
from broker.metadata.topic_rules import (
    NewTopic,
    Placement,
    TopicError,
    check_new_name,
    check_partition_total,
    check_record_total,
    duplicate_names,
    partition_replicas,
)
from protocol.errors import ErrorCode
from protocol.metadata_records import ConfigRecord, PartitionRecord, TopicRecord

_RESERVED_TOPIC_IDS: Final = (bytes(16), bytes(15) + b"\x01")  # ZERO_UUID, METADATA_TOPIC_ID


class Plan(NamedTuple):
    """The outcome of a request to create or enlarge topics, and its records."""

    results: dict[str, TopicInfo | TopicError]
    records: Sequence[Any]  # which say what `results` and `added` have: tested by applying them
    added: Mapping[str, Sequence[PartitionInfo]] | None = None  # to topics that exist


class Charge(Protocol):
    """What counts the partitions of a request against a quota of its client."""

    def begin(self) -> None:
        """Note what is left. Called on the loop, while no other request is planned."""

    def charge(self, partition_count: int) -> None:
        """Count a change that could be made. Raises TopicError if it must not be."""

    def settle(self) -> None:
        """Keep what was counted."""


class TopicPlanner:
    """Plans for the topics of `image`."""

    def __init__(
        self,
        image: ClusterImage,
        lives: TopicLives,
        configs: TopicConfigs,
        placement: Placement,
        directory_id: bytes,
        random_bytes: Callable[[int], bytes],
        is_blocked: Callable[[str], bool],
    ) -> None:
        """`is_blocked(topic)`: directories of an older topic have names of its partitions."""
        self._image = image
        self._lives = lives
        self._configs = configs
        self._placement = placement
        self._directory_id = directory_id
        self._random_bytes = random_bytes
        self._is_blocked = is_blocked

    def plan_topics(self, topics: Sequence[NewTopic], charge: Charge | None = None) -> Plan:
        """Check new topics, each by itself, and change nothing.

        A topic that cannot be created has a TopicError in the results and blocks no other,
        unless the request is too large as a whole.
        """
        results: dict[str, TopicInfo | TopicError] = {}
        records: list[Any] = []
        duplicates = duplicate_names(topics)
        single = [topic for topic in topics if topic.name not in duplicates]
        try:
            check_partition_total(single, self._placement.default_partition_count)
            for topic in single:
                try:
                    info, new_records = self._plan(topic)
                    if charge is not None:
                        charge.charge(len(info.partitions))
                except TopicError as error:
                    results[topic.name] = error.kept()
                else:
                    results[topic.name] = info
                    records += new_records
            check_record_total(len(records))
        except TopicError as error:  # of the whole request
            results = dict.fromkeys((topic.name for topic in single), error.kept())
            records = []
        for name in duplicates:
            results[name] = TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        return Plan(results, records)

    def _plan(self, topic: NewTopic) -> tuple[TopicInfo, list[Any]]:
        """Check one topic and return it with the records that make it."""
        life = self._lives.of_name(topic.name)
        if life is not None and life.is_in_doubt:
            raise TopicError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata log failed before topic '{topic.name}' was durable.",
            )
        check_new_name(topic.name, self._image)
        if life is not None:
            raise TopicError(
                ErrorCode.KAFKA_STORAGE_ERROR
                if life.state is TopicState.UNDECIDED
                else ErrorCode.REQUEST_TIMED_OUT,
                f"The removal of an older topic '{topic.name}' is not finished.",
            )
        self._check_free(topic.name)
        configs = self._configs.checked(topic.configs)
        replicas = partition_replicas(topic, self._placement)
        topic_id = self._new_topic_id()
        records: list[Any] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += [
            ConfigRecord(
                resource_type=CONFIG_TOPIC, resource_name=topic.name, name=name, value=value
            )
            for name, value in sorted(configs.items())
        ]
        info = TopicInfo(topic.name, topic_id, configs=configs)
        info.partitions = self._new_partitions(0, replicas)
        records += _partition_records(topic_id, info.partitions)
        return info, records

    def _new_partitions(self, first: int, replicas: Iterable[list[int]]) -> list[PartitionInfo]:
        return [
            PartitionInfo(number, nodes, nodes, nodes[0], 0, 0, [self._directory_id] * len(nodes))
            for number, nodes in enumerate(replicas, first)
        ]

    def plan_partitions(
        self, topics: Sequence[MorePartitions], charge: Charge | None = None
    ) -> Plan:
        """Check which partitions can be added to topics, and change nothing.

        A topic that cannot grow has a TopicError in the results and hinders no other.
        """
        counts = Counter(asked.name for asked in topics)
        results: dict[str, TopicInfo | TopicError] = {
            name: TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name, count in counts.items()
            if count > 1
        }
        records: list[PartitionRecord] = []
        partitions: dict[str, Sequence[PartitionInfo]] = {}
        for asked in topics:
            if counts[asked.name] > 1:
                continue
            topic = self._image.topics.get(asked.name)
            if topic is None:
                results[asked.name] = no_such_topic()
                continue
            try:
                added = added_replicas(topic, asked, self._placement, record_count=len(records))
                self._check_free(topic.name)
                if charge is not None:
                    charge.charge(len(added))
            except TopicError as error:
                results[asked.name] = error.kept()
                continue
            results[asked.name] = topic
            new = partitions[asked.name] = self._new_partitions(len(topic.partitions), added)
            records += _partition_records(topic.topic_id, new)
        return Plan(results, records, partitions)

    def _check_free(self, name: str) -> None:
        """Raise TopicError if a new partition might find the directory of another topic."""
        if self._is_blocked(name):
            raise TopicError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"A directory of an older topic '{name}' cannot be renamed.",
            )

    def _new_topic_id(self) -> bytes:
        """A random UUID (RFC 9562, version 4) that Kafka could generate too.

        Kafka gives none whose Base64 form begins with a dash, which tools take for an option.
        """
        while True:
            raw = bytearray(self._random_bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            topic_id = bytes(raw)
            begins_with_dash = topic_id[0] >> 2 == 62  # `-` is digit 62 of base64url
            if topic_id in _RESERVED_TOPIC_IDS or begins_with_dash:
                continue
            if topic_id not in self._image.topics_by_id:
                return topic_id


def _partition_records(
    topic_id: bytes, partitions: Iterable[PartitionInfo]
) -> Iterator[PartitionRecord]:
    for info in partitions:
        yield PartitionRecord(
            partition_id=info.partition,
            topic_id=topic_id,
            replicas=info.replicas,
            isr=info.isr,
            leader=info.leader,
            leader_epoch=info.leader_epoch,
            partition_epoch=info.partition_epoch,
            directories=info.directories,
        )


def no_such_topic() -> TopicError:
    """Return Kafka's error for a topic that does not exist."""
    return TopicError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
