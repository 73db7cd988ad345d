"""A Kafka cluster as one thing to ask: finds brokers and leaders, and tries again what may pass.

Owns: connections by node, the leaders last heard of, and the one rule of trying again: a lost
connection or a retriable error code makes it ask for the metadata anew and repeat, with a pause
that doubles to one second, until `timeout_ms` have gone by since the call began. Then it raises
BrokerUnreachable or BrokerRefused with the last thing that happened.

Does not: remember offsets, decode records, or run in more than one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, TypeVar

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.options import ClusterOptions
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.errors import BrokerRefused, BrokerUnreachable, UnknownTopic
from pyspark_barnabas.wire.protocol import TopicMetadata, TopicPartition, parse

T = TypeVar("T")

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER = 1, 3, 6
ERRORS: Final = {
    -1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT", 9: "REPLICA_NOT_AVAILABLE", 10: "MESSAGE_TOO_LARGE",
    13: "NETWORK_EXCEPTION", 17: "INVALID_TOPIC_EXCEPTION", 18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS", 20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    29: "TOPIC_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 35: "UNSUPPORTED_VERSION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH", 56: "KAFKA_STORAGE_ERROR", 74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH", 78: "OFFSET_NOT_AVAILABLE", 87: "INVALID_RECORD",
    89: "THROTTLING_QUOTA_EXCEEDED",
}  # fmt: skip
RETRIABLE: Final = frozenset({5, 6, 7, 9, 13, 19, 20, 56, 74, 75, 78, 89})
_UNKNOWN_TOPIC_TRIES = 3  # a topic just made may not have reached every broker
_CREATED_TOPIC_TRIES = 15  # auto.create.topics.enable: some ten seconds
_PAUSE_MS_FIRST, _PAUSE_MS_MAX = 20, 1000


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return ERRORS.get(code, f"error code {code}")


class Retriable(Exception):
    """Something that may pass; the text says what."""


class Cluster:
    """A way to the brokers at `bootstrap`, a list of (host, port)."""

    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        *,
        client_id: str,
        request_timeout_ms: int,
        timeout_ms: int,
        timeout_name: str = "kafka.default.api.timeout.ms",
        topic_names: str = "assign, subscribe",
        clock: Clock | None = None,
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._timeout_ms = timeout_ms
        self._timeout_name = timeout_name
        self._topic_names = topic_names
        self.clock = clock or Clock()
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self._topics: dict[str, TopicMetadata] = {}

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
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- trying again ----------------------------------------------------------------------------

    def persist(self, what: str, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; repeat it while it is Retriable or the network fails."""
        deadline = self.clock.elapsed_ms() + self._timeout_ms
        pause_ms = _PAUSE_MS_FIRST
        while True:
            try:
                return attempt()
            except OSError as error:
                self.close()
                reason = str(error) or type(error).__name__
            except Retriable as error:
                reason = str(error)
            self._topics.clear()
            if self.clock.elapsed_ms() + pause_ms >= deadline:
                raise BrokerUnreachable(self._gave_up(what, reason))
            self.clock.wait_ms(pause_ms)
            pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)

    def _gave_up(self, what: str, reason: str) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in self._bootstrap)
        return (
            f"{what} did not succeed within {self._timeout_ms} ms ({self._timeout_name}): "
            f"{reason}. Is a broker running at kafka.bootstrap.servers={servers}, and are the "
            "addresses that it advertises reachable from every Spark executor?"
        )

    def _unknown(self, name: str) -> UnknownTopic:
        return UnknownTopic(
            f"there is no {name} on this cluster. Check the options {self._topic_names} and "
            "kafka.bootstrap.servers, or make the topic first"
        )

    def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            host, port = address
            try:
                connection = Connection(host, port, self._client_id, self._request_timeout_ms)
            except OSError as error:
                raise OSError(f"{host}:{port}: {error}") from None
            self._connections[address] = connection
        return connection

    def _any_broker(self) -> Connection:
        """Return a connection to the first broker that answers: one known, or one of bootstrap."""
        failed: OSError | None = None
        for address in [*self._connections, *self._addresses.values(), *self._bootstrap]:
            try:
                return self._connection(address)
            except OSError as error:
                failed = error
        assert failed is not None, "bootstrap is never empty"
        raise failed

    def leader(self, topic: str, partition: int) -> Connection:
        """Return a connection to the leader of a partition; Retriable if there is none now."""
        if topic not in self._topics:
            self._refresh([topic], create=False)
        metadata = self._topics.get(topic)
        if metadata is None or partition not in metadata.leaders:
            raise self._unknown(f"{topic}-{partition}")
        address = self._addresses.get(metadata.leaders[partition])
        if address is None:
            raise Retriable(f"{topic}-{partition} has no leader")
        return self._connection(address)

    def forget(self, topic: str) -> None:
        """Ask anew who leads this topic's partitions."""
        self._topics.pop(topic, None)

    def ask(self, what: str, api_key: int, body: bytes, read: Callable[[protocol.Reader], T]) -> T:
        """Return what `read` makes of any broker's answer; `read` may raise Retriable."""
        return self.persist(what, lambda: parse(read, self._any_broker().call(api_key, body)))

    # -- metadata --------------------------------------------------------------------------------

    def topics(self, names: Sequence[str], *, create: bool = False) -> dict[str, list[int]]:
        """Return the partitions of topics; UnknownTopic if one is not there."""
        tries = 0

        def attempt() -> dict[str, list[int]]:
            nonlocal tries
            tries += 1
            self._refresh(names, create=create)
            missing = [name for name in names if name not in self._topics]
            if missing and tries < (_CREATED_TOPIC_TRIES if create else _UNKNOWN_TOPIC_TRIES):
                raise Retriable(f"no topic {', '.join(missing)}")
            if missing:
                raise self._unknown(", ".join(missing))
            return {name: sorted(self._topics[name].leaders) for name in names}

        return self.persist(f"finding the topics {', '.join(names)}", attempt)

    def all_topics(self) -> dict[str, list[int]]:
        """Return the partitions of every topic that is not Kafka's own."""

        def attempt() -> dict[str, list[int]]:
            self._refresh(None, create=False)
            return {
                name: sorted(found.leaders)
                for name, found in self._topics.items()
                if not found.internal
            }

        return self.persist("listing the topics", attempt)

    def topic_ids(self, names: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
        """Return the ids of topics by name, without topics that are gone or have no id.

        They are those that the last answer had, unless it is lost or `fresh` ones are asked for.
        """
        wanted = list(dict.fromkeys(names))
        if wanted and (fresh or any(name not in self._topics for name in wanted)):
            self.persist("asking for topic ids", lambda: self._refresh(wanted, create=False))
        found = {name: self._topics[name].topic_id for name in wanted if name in self._topics}
        return {name: topic_id for name, topic_id in found.items() if topic_id}

    def _refresh(self, names: Sequence[str] | None, *, create: bool) -> None:
        connection = self._any_broker()
        body = protocol.metadata_request(names, create=create)
        answer = parse(protocol.read_metadata, connection.call(protocol.METADATA, body))
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for name, found in answer.topics.items():
            # 5 with partitions: one of them has no leader now, the others have theirs.
            if found.error == 0 or (found.error == 5 and found.leaders):
                self._topics[name] = found
                continue
            self._topics.pop(name, None)
            if found.error not in (UNKNOWN_TOPIC, 5):
                self.check(found.error, f"the metadata of topic {name}")

    def check(self, code: int, what: str, said: str = "") -> None:
        """Return for 0; Retriable for what may pass; BrokerRefused for the rest."""
        if code == 0:
            return
        text = f"{what}: the broker answers {error_name(code)}{f' ({said})' if said else ''}"
        if code in RETRIABLE:
            raise Retriable(text)
        raise BrokerRefused(code, text)

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
                if answer[at].error == UNKNOWN_TOPIC:
                    raise self._unknown(f"{at[0]}-{at[1]}")
                self.check(answer[at].error, f"offsets of {at[0]}-{at[1]}")
                found[at] = answer[at].offset

        found: dict[TopicPartition, int] = {}
        self._of_leaders("asking for offsets", times, found, ask)
        return found

    def producer_states(
        self, partitions: Iterable[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, protocol.ProducerState | None]:
        """Return what the brokers remember of a producer in each partition."""

        def ask(connection: Connection, part: Sequence[TopicPartition]) -> None:
            body = protocol.describe_producers_request(part)
            answer = parse(
                protocol.read_describe_producers,
                connection.call(protocol.DESCRIBE_PRODUCERS, body),
            )
            for at in part:
                error, producers = answer.get(at, (NOT_LEADER, {}))
                self.check(error, f"producers of {at[0]}-{at[1]}")
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
        """Return (producer id, epoch) that nobody else has."""

        def attempt() -> tuple[int, int]:
            body = protocol.init_producer_id_request()
            error, producer_id, epoch = parse(
                protocol.read_init_producer_id,
                self._any_broker().call(protocol.INIT_PRODUCER_ID, body),
            )
            if error in (14, 15, 16, 51):  # the coordinator is being loaded or found
                raise Retriable(f"no producer id yet: {error_name(error)}")
            self.check(error, "a producer id")
            return producer_id, epoch

        return self.persist("asking for a producer id", attempt)


def connect(options: ClusterOptions) -> Cluster:
    """Return a way to the cluster that the options name; nothing is opened yet."""
    return Cluster(
        options.bootstrap,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        timeout_ms=options.timeout_ms,
        timeout_name=options.timeout_name,
        topic_names=options.topic_names,
    )
