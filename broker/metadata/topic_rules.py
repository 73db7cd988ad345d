"""The names, partition counts and replicas that a topic may have: Kafka's rules and codes.

Pure checks of one request to create topics, in the order in which Kafka 4.3 makes them
(ControllerApis.createTopics, ReplicationControlManager.createTopics, Topic.validate), because the
order decides which of two errors a client sees. Texts stay close to Kafka's, because people search
for them; where they differ, ours adds what to do.

    whole request   more than 10,000 partitions            POLICY_VIOLATION, every topic
    each topic      the name twice in the request          INVALID_REQUEST
                    __cluster_metadata                     INVALID_REQUEST
                    characters, length, `.`, `..`          INVALID_TOPIC_EXCEPTION
                    `a.b` beside an existing `a_b`         INVALID_TOPIC_EXCEPTION
                    exists                                 TOPIC_ALREADY_EXISTS
                    configs (the controller's)             INVALID_CONFIG
                    assignment and counts, …               `partition_replicas` below
    whole request   more than 10,000 records               POLICY_VIOLATION, every topic

Two names that collide within one request are both accepted, as in Kafka (tried).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.metadata.image import ClusterImage
from protocol.errors import ErrorCode
from storage.files.filenames import METADATA_TOPIC, TOPIC_NAME_MAX

PARTITIONS_PER_REQUEST_MAX: Final = 10_000  # Kafka's ReplicationControlManager
RECORDS_PER_REQUEST_MAX: Final = 10_000  # QuorumController.MAX_RECORDS_PER_USER_OP
BATCH_BYTES_MAX: Final = 8 << 20  # of records: KafkaRaftClient.MAX_BATCH_SIZE_BYTES
BROKER_DEFAULT: Final = -1

# Kafka's own topics (Topic.isInternal), which belong to its coordinators.
GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset((GROUP_TOPIC, TRANSACTION_TOPIC, "__share_group_state"))

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicError(Exception):
    """A topic cannot be created, changed or found as requested; `code` is what the client sees."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def kept(self) -> TopicError:
        """Return the same error to keep, as an outcome among others.

        A caught one refers to the frames that it has passed, and those to the outcomes: a circle,
        and for each of very many outcomes some ten objects more.
        """
        return TopicError(self.code, self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic as a client requests it; -1 means the broker's default."""

    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()  # (partition, broker ids)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The replication rules of this broker, the only one."""

    node_id: int
    default_partition_count: int
    default_replication_factor: int
    clamp: bool  # barnabas.replication.factor.clamp: a factor above 1 becomes 1


def check_name(name: str) -> None:
    """Raise TopicError for a name that Kafka's Topic.validate refuses."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    else:
        return
    raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_new_name(name: str, image: ClusterImage) -> None:
    """Raise TopicError when no topic of that name may be created beside those of `image`."""
    if name == METADATA_TOPIC:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    check_name(name)
    if name in image.topics:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if other := image.topic_colliding_with(name):
        raise TopicError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def duplicate_names(topics: Sequence[NewTopic]) -> list[str]:
    """Return the names that a request repeats, each once, in its order."""
    counts: dict[str, int] = {}
    for topic in topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def check_partition_total(topics: Sequence[NewTopic], default_partition_count: int) -> None:
    """Raise TopicError, meant for every topic, when a request asks for too many partitions."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.partition_count == BROKER_DEFAULT:
            total += default_partition_count
        else:
            total += max(topic.partition_count, 0)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise TopicError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )


def check_record_total(record_count: int) -> None:
    """Raise TopicError, meant for every topic, when a request makes too many records."""
    if record_count > RECORDS_PER_REQUEST_MAX:
        raise TopicError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )


def check_batch_size(batch_bytes: int) -> None:
    """Raise TopicError when the records of a request are larger than one batch may be."""
    if batch_bytes > BATCH_BYTES_MAX:
        raise TopicError(
            ErrorCode.POLICY_VIOLATION,
            f"The records of this request take {batch_bytes} bytes; at most {BATCH_BYTES_MAX} are "
            "written at once: send several requests.",
        )


def partition_replicas(topic: NewTopic, placement: Placement) -> list[list[int]]:
    """Return the replicas of each partition of a new topic, or raise TopicError."""
    if topic.assignments:
        return _assigned_replicas(topic, placement.node_id)
    factor, count = topic.replication_factor, topic.partition_count
    if factor < BROKER_DEFAULT or factor == 0:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < BROKER_DEFAULT or count == 0:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor == BROKER_DEFAULT:
        factor = placement.default_replication_factor
    if count == BROKER_DEFAULT:
        count = placement.default_partition_count
    if factor > 1 and not placement.clamp:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only 1 broker(s) are registered. Ask for 1, "
            "or set barnabas.replication.factor.clamp=true on the broker.",
        )
    return [[placement.node_id] for _ in range(count)]


def _assigned_replicas(topic: NewTopic, node_id: int) -> list[list[int]]:
    for value, what in (
        (topic.replication_factor, "replication factor"),
        (topic.partition_count, "numPartitions"),
    ):
        if value != BROKER_DEFAULT:
            raise TopicError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    by_partition: dict[int, list[int]] = {}
    for partition, brokers in topic.assignments:
        if partition in by_partition:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {partition}"
            )
        check_assigned_brokers(brokers, node_id)
        by_partition[partition] = list(brokers)
    if sorted(by_partition) != list(range(len(by_partition))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_partition[partition] for partition in range(len(by_partition))]


def check_assigned_brokers(brokers: Sequence[int], node_id: int) -> None:
    """Raise TopicError unless `brokers` is [node_id]: with one broker nothing else is valid."""
    if not brokers:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    strangers = sorted(broker for broker in brokers if broker != node_id)
    if strangers and (strangers[0] < node_id or brokers.count(node_id) < 2):
        raise _bad_assignment(
            f"The manual partition assignment includes broker {strangers[0]}, but no such broker "
            "is registered."
        )
    if len(brokers) > 1:
        raise _bad_assignment(
            f"The manual partition assignment includes the broker {node_id} more than once."
        )


def _bad_assignment(message: str) -> TopicError:
    return TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
