"""A Kafka cluster that questions are put to: finds leaders, and retries.

Owns one rule of retrying: after a lost connection or a retriable error code, ask for the metadata
again and repeat, with a pause that doubles up to one second, until `timeout_ms` have passed since
the call began. Then raise BrokerUnreachable with the last reason. An error code that no retry
clears raises BrokerRefused at once.

Does not remember offsets, decode records, or run in more than one thread. The functions below the
class, about topics themselves, serve pipelines only: a broker may lack those APIs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, TypeVar

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.brokers import Brokers, ClusterOptions
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.error_codes import (
    COORDINATOR_PASSING,
    NOT_LEADER,
    Retriable,
    check,
    check_partition,
    error_name,
)
from pyspark_barnabas.wire.errors import BrokerUnreachable
from pyspark_barnabas.wire.primitives import Reader, array, parse, string
from pyspark_barnabas.wire.protocol import TopicPartition

T = TypeVar("T")

_UNKNOWN_TOPIC_TRIES = 3  # a new topic may not have reached every broker
_CREATED_TOPIC_TRIES = 15  # auto.create.topics.enable: some ten seconds
_PAUSE_MS_FIRST, _PAUSE_MS_MAX = 20, 1000
_TOPIC: Final = 2  # of Kafka's ConfigResource.Type
_BROKERS_DEFAULT: Final = -1  # as replication factor, KIP-464
_CREATE_TIMEOUT_MS: Final = 30_000


class Cluster:
    """A cluster, by the brokers at `options.bootstrap`. Nothing is opened before the first call."""

    def __init__(self, options: ClusterOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._brokers = Brokers(options)
        self.clock = clock or Clock()

    def __enter__(self) -> Cluster:
        """Nothing is opened until something is asked."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close every connection; the next call opens them again."""
        self._brokers.close()

    def leader(self, topic: str, partition: int) -> Connection:
        """Return a connection to a partition's leader; Retriable if it has none now."""
        return self._brokers.leader(topic, partition)

    def any(self) -> Connection:
        """Return a connection to some broker. Raises OSError."""
        return self._brokers.any()

    def at(self, host: str, port: int) -> Connection:
        """Return a connection to the broker at an address. Raises OSError."""
        return self._brokers.connection((host, port))

    def every(self) -> list[Connection]:
        """Return a connection to each broker. Raises OSError, Retriable."""
        self._brokers.refresh([])
        return [self._brokers.connection(address) for address in self._brokers.addresses()]

    # -- retrying --------------------------------------------------------------------------------

    def persist(self, what: str, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; repeat it after Retriable and network failures."""
        deadline = self.clock.elapsed_ms() + self._options.timeout_ms
        pause_ms = _PAUSE_MS_FIRST
        while True:
            try:
                return attempt()
            except OSError as error:
                self.close()
                reason = str(error) or type(error).__name__
            except Retriable as error:
                reason = str(error)
            self._brokers.topics.clear()
            if self.clock.elapsed_ms() + pause_ms >= deadline:
                raise BrokerUnreachable(self._gave_up(what, reason))
            self.clock.wait_ms(pause_ms)
            pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)

    def _gave_up(self, what: str, reason: str) -> str:
        options = self._options
        servers = ",".join(f"{host}:{port}" for host, port in options.bootstrap)
        return (
            f"{what} did not succeed within {options.timeout_ms} ms ({options.timeout_name}): "
            f"{reason}. Is a broker running at kafka.bootstrap.servers={servers}, and are the "
            "addresses that it advertises reachable from every Spark executor?"
        )

    def ask(self, what: str, api_key: int, body: bytes, read: Callable[[Reader], T]) -> T:
        """Return what `read` makes of some broker's answer; `read` may raise Retriable."""
        return self.persist(what, lambda: parse(read, self._brokers.any().call(api_key, body)))

    # -- metadata --------------------------------------------------------------------------------

    def topics(self, names: Sequence[str], *, create: bool = False) -> dict[str, list[int]]:
        """Return the partitions of topics. Raises UnknownTopic."""
        tries = 0

        def attempt() -> dict[str, list[int]]:
            nonlocal tries
            tries += 1
            self._brokers.refresh(names, create=create)
            missing = [name for name in names if name not in self._brokers.topics]
            if missing and tries < (_CREATED_TOPIC_TRIES if create else _UNKNOWN_TOPIC_TRIES):
                raise Retriable(f"no topic {', '.join(missing)}")
            if missing:
                raise self._brokers.unknown(", ".join(missing))
            return {name: sorted(self._brokers.topics[name].leaders) for name in names}

        return self.persist(f"finding the topics {', '.join(names)}", attempt)

    def all_topics(self) -> dict[str, list[int]]:
        """Return the partitions of every topic that is not internal to Kafka."""

        def attempt() -> dict[str, list[int]]:
            self._brokers.refresh(None)
            return {
                name: sorted(found.leaders)
                for name, found in self._brokers.topics.items()
                if not found.internal
            }

        return self.persist("listing the topics", attempt)

    def topic_ids(self, names: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
        """Return the ids of topics by name, without topics that are gone or have no id.

        They come from the last Metadata response, unless `fresh` asks for a new one.
        """
        wanted = list(dict.fromkeys(names))
        if wanted and (fresh or any(name not in self._brokers.topics for name in wanted)):
            self.persist("asking for topic ids", lambda: self._brokers.refresh(wanted))
        found = {
            name: self._brokers.topics[name].topic_id
            for name in wanted
            if name in self._brokers.topics
        }
        return {name: topic_id for name, topic_id in found.items() if topic_id}

    # -- offsets and producers -------------------------------------------------------------------

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: int = 0
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time for each partition, -1 for none.

        Times are milliseconds since 1970, or protocol.EARLIEST or LATEST; LATEST is the last
        stable offset for isolation 1 (read_committed).
        """

        def ask(connection: Connection, part: Sequence[TopicPartition]) -> None:
            body = protocol.list_offsets_request({at: times[at] for at in part}, isolation)
            answer = parse(protocol.read_list_offsets, connection.call(protocol.LIST_OFFSETS, body))
            for at in part:
                if at not in answer:
                    raise Retriable(f"no answer for {at[0]}-{at[1]}")
                check_partition(answer[at].error, f"offsets of {at[0]}-{at[1]}")
                found[at] = answer[at].offset

        found: dict[TopicPartition, int] = {}
        self._of_leaders("asking for offsets", times, found, ask)
        return found

    def producer_states(
        self, partitions: Iterable[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, protocol.ProducerState | None]:
        """Return the brokers' state of a producer in each partition, None for none."""

        def ask(connection: Connection, part: Sequence[TopicPartition]) -> None:
            body = protocol.describe_producers_request(part)
            answer = parse(
                protocol.read_describe_producers,
                connection.call(protocol.DESCRIBE_PRODUCERS, body),
            )
            for at in part:
                error, producers = answer.get(at, (NOT_LEADER, {}))
                check_partition(error, f"producers of {at[0]}-{at[1]}")
                found[at] = producers.get(producer_id)

        found: dict[TopicPartition, protocol.ProducerState | None] = {}
        self._of_leaders("asking for producers", list(partitions), found, ask)
        return found

    def _of_leaders(
        self,
        what: str,
        partitions: Iterable[TopicPartition],
        found: Mapping[TopicPartition, object],
        ask: Callable[[Connection, Sequence[TopicPartition]], None],
    ) -> None:
        """Call `ask` for every leader with its partitions, until all are in `found`."""
        wanted = list(partitions)

        def attempt() -> None:
            parts: dict[Connection, list[TopicPartition]] = {}
            for topic, partition in wanted:
                if (topic, partition) not in found:
                    leader = self.leader(topic, partition)
                    parts.setdefault(leader, []).append((topic, partition))
            for connection, part in parts.items():
                ask(connection, part)

        self.persist(what, attempt)

    def new_producer_id(self) -> tuple[int, int]:
        """Return a new (producer id, epoch)."""

        def attempt() -> tuple[int, int]:
            body = protocol.init_producer_id_request()
            error, producer_id, epoch = parse(
                protocol.read_init_producer_id,
                self._brokers.any().call(protocol.INIT_PRODUCER_ID, body),
            )
            if error in COORDINATOR_PASSING:
                raise Retriable(f"no producer id yet: {error_name(error)}")
            check(error, "a producer id")
            return producer_id, epoch

        return self.persist("asking for a producer id", attempt)


# -- topics themselves ---------------------------------------------------------------------------


def cluster_id(cluster: Cluster) -> str:
    """Return the cluster's id, which never changes; "" if it has none."""
    # No topic, rather than all.
    body = protocol.metadata_request([])
    return cluster.ask(
        "asking for the cluster's id", protocol.METADATA, body, protocol.read_metadata
    ).cluster_id


def topic_configs(cluster: Cluster, topic: str, names: list[str]) -> dict[str, str]:
    """Return a topic's values of these configs, with defaults, without unknown ones."""

    def read(reader: Reader) -> dict[str, str]:
        found: dict[str, str] = {}

        def synonym() -> None:
            reader.string()
            reader.string()
            reader.int8()

        def config() -> None:
            name, value = reader.string(), reader.string()
            for _ in range(3):
                reader.int8()
            reader.array(synonym)
            found[name] = value

        def result() -> None:
            error, said = reader.int16(), reader.string()
            reader.int8()
            reader.string()
            check(error, f"the configs of topic {topic}", said)
            reader.array(config)

        reader.int32()
        reader.array(result)
        return found

    resource = struct.pack(">b", _TOPIC) + string(topic) + array(string(name) for name in names)
    body = array([resource]) + b"\0"  # no synonyms
    return cluster.ask(f"asking for the configs of {topic}", protocol.DESCRIBE_CONFIGS, body, read)


def create_topic(
    cluster: Cluster, topic: str, partitions_count: int, configs: Mapping[str, str]
) -> None:
    """Create a topic with the default replication factor. Raises BrokerRefused."""

    def read(reader: Reader) -> None:
        def result() -> None:
            reader.string()
            error, said = reader.int16(), reader.string()
            check(error, f"creating the topic {topic}", said)

        reader.int32()
        reader.array(result)

    head = string(topic) + struct.pack(">ih", partitions_count, _BROKERS_DEFAULT) + array([])
    pairs = array(string(name) + string(value) for name, value in configs.items())
    body = array([head + pairs]) + struct.pack(">ib", _CREATE_TIMEOUT_MS, 0)
    cluster.ask(f"creating the topic {topic}", protocol.CREATE_TOPICS, body, read)
