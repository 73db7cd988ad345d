"""The brokers of one cluster: open connections, known addresses, and who leads each partition.

What is known comes from the last Metadata response. Nothing here retries: an OSError or Retriable
goes up to `pyspark_barnabas.wire.cluster`, which decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC, Retriable, check
from pyspark_barnabas.wire.errors import UnknownTopic
from pyspark_barnabas.wire.primitives import parse
from pyspark_barnabas.wire.protocol import TopicMetadata
from pyspark_barnabas.wire.security import PLAINTEXT, Security


@dataclass(frozen=True)
class ClusterOptions:
    """How to reach a cluster; `bootstrap` holds (host, port) of one or more brokers."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str
    request_timeout_ms: int
    timeout_ms: int
    timeout_name: str = "kafka.default.api.timeout.ms"  # the option, for errors
    topic_names: str = "assign, subscribe"  # the options that name topics, for errors
    security: Security = PLAINTEXT


class Brokers:
    """Connections by address, addresses by node id, and `topics`, the metadata by name."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}
        self.topics: dict[str, TopicMetadata] = {}

    def close(self) -> None:
        """Close every connection; the next use opens them again."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def addresses(self) -> list[tuple[str, int]]:
        """Return the address of every broker in the last Metadata response."""
        return list(self._addresses.values())

    def any(self) -> Connection:
        """Return a connection to the first broker that answers: a known one, or a bootstrap one.

        Raises OSError if none does.
        """
        failed: OSError | None = None
        bootstrap = self._options.bootstrap
        for address in [*self._connections, *self._addresses.values(), *bootstrap]:
            try:
                return self.connection(address)
            except OSError as error:
                failed = error
        assert failed is not None, "bootstrap is never empty"
        raise failed

    def leader(self, topic: str, partition: int) -> Connection:
        """Return a connection to a partition's leader.

        Raises OSError, UnknownTopic, and Retriable if the partition has no leader now.
        """
        if topic not in self.topics:
            self.refresh([topic])
        metadata = self.topics.get(topic)
        if metadata is None or partition not in metadata.leaders:
            raise self.unknown(f"{topic}-{partition}")
        address = self._addresses.get(metadata.leaders[partition])
        if address is None:
            raise Retriable(f"{topic}-{partition} has no leader")
        return self.connection(address)

    def refresh(self, names: Sequence[str] | None, *, create: bool = False) -> None:
        """Ask for the metadata of these topics, or of all (None). Raises OSError, Retriable."""
        body = protocol.metadata_request(names, create=create)
        answer = parse(protocol.read_metadata, self.any().call(protocol.METADATA, body))
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        for name, found in answer.topics.items():
            # With partitions, this code means that one of them has no leader; the others do.
            has_leaders = found.error == LEADER_NOT_AVAILABLE and found.leaders
            if found.error == 0 or has_leaders:
                self.topics[name] = found
                continue
            self.topics.pop(name, None)
            if found.error not in (UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE):
                check(found.error, f"the metadata of topic {name}")

    def unknown(self, name: str) -> UnknownTopic:
        """Return the error for a topic or partition that the cluster does not have."""
        return UnknownTopic(
            f"there is no {name} on this cluster. Check the options {self._options.topic_names} "
            "and kafka.bootstrap.servers, or create the topic first"
        )

    def connection(self, address: tuple[str, int]) -> Connection:
        """Return an open connection to an address. Raises OSError."""
        connection = self._connections.get(address)
        if connection is None:
            host, port = address
            try:
                options = self._options
                connection = Connection(
                    host, port, options.client_id, options.request_timeout_ms, options.security
                )
            except OSError as error:
                raise OSError(f"{host}:{port}: {error}") from None
            self._connections[address] = connection
        return connection
