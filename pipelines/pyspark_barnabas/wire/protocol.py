"""Kafka's messages that a source and a sink need: requests to bytes, responses from bytes.

Each has one version, which both Apache Kafka 2.8 to 4.x and Barnabas serve;
`pyspark_barnabas.wire.connection` asks a broker for its versions first and names one it lacks.

    Produce 8 · Fetch 11 · ListOffsets 5 · Metadata 10 · ApiVersions 0 · InitProducerId 1 ·
    DescribeProducers 0 (this and Metadata in the flexible encoding of KIP-482)

Reading and writing need no others. Pipelines and the option exactlyOnce send more, which a broker
may lack: DescribeConfigs 1, CreateTopics 4, ListGroups 2, FindCoordinator 2, OffsetFetch 5,
AddPartitionsToTxn 1, EndTxn 1, DescribeTransactions 0, ListTransactions 0.

The schemas are Kafka's (ProduceRequest.json and its neighbours); their fields are read and written
by `pyspark_barnabas.wire.primitives`. Nothing here waits or owns a socket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark_barnabas.wire.error_codes import LEADER_NOT_AVAILABLE
from pyspark_barnabas.wire.primitives import (
    UUID_BYTES,
    Reader,
    array,
    compact_array,
    compact_string,
    string,
    uvarint,
)

TopicPartition = tuple[str, int]

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
INIT_PRODUCER_ID, DESCRIBE_PRODUCERS = 22, 61
CREATE_TOPICS, DESCRIBE_CONFIGS = 19, 32
ADD_PARTITIONS_TO_TXN, END_TXN, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 24, 26, 65, 66
OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS = 9, 10, 16
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_NO_LEADER: Final = -1
VERSIONS: Final = {
    PRODUCE: 8,
    FETCH: 11,
    LIST_OFFSETS: 5,
    METADATA: 10,
    API_VERSIONS: 0,
    INIT_PRODUCER_ID: 1,
    DESCRIBE_PRODUCERS: 0,
}
ADMIN_VERSIONS: Final = {
    OFFSET_FETCH: 5,
    FIND_COORDINATOR: 2,
    LIST_GROUPS: 2,
    CREATE_TOPICS: 4,
    DESCRIBE_CONFIGS: 1,
    ADD_PARTITIONS_TO_TXN: 1,
    END_TXN: 1,
    DESCRIBE_TRANSACTIONS: 0,
    LIST_TRANSACTIONS: 0,
    SASL_HANDSHAKE: 1,
    SASL_AUTHENTICATE: 1,
}
FLEXIBLE: Final = frozenset(
    {METADATA, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS}
)
API_NAMES: Final = {
    PRODUCE: "Produce",
    FETCH: "Fetch",
    LIST_OFFSETS: "ListOffsets",
    METADATA: "Metadata",
    API_VERSIONS: "ApiVersions",
    INIT_PRODUCER_ID: "InitProducerId",
    DESCRIBE_PRODUCERS: "DescribeProducers",
    OFFSET_FETCH: "OffsetFetch",
    FIND_COORDINATOR: "FindCoordinator",
    LIST_GROUPS: "ListGroups",
    CREATE_TOPICS: "CreateTopics",
    DESCRIBE_CONFIGS: "DescribeConfigs",
    ADD_PARTITIONS_TO_TXN: "AddPartitionsToTxn",
    END_TXN: "EndTxn",
    DESCRIBE_TRANSACTIONS: "DescribeTransactions",
    LIST_TRANSACTIONS: "ListTransactions",
    SASL_HANDSHAKE: "SaslHandshake",
    SASL_AUTHENTICATE: "SaslAuthenticate",
}

GROUP, TRANSACTION = 0, 1  # what a coordinator's key is
EARLIEST, LATEST = -2, -1  # timestamps of ListOffsets that mean the ends of the log


class Broker(NamedTuple):
    """A broker and the address that it advertises."""

    node_id: int
    host: str
    port: int


class TopicMetadata(NamedTuple):
    """A topic's error code, whether it is internal to Kafka, and the leader of each partition.

    `topic_id` tells two topics of one name apart, in the form that Kafka's tools print; it is ""
    if the cluster gives its topics no ids.
    """

    error: int
    internal: bool
    leaders: dict[int, int]
    topic_id: str = ""


class Fetched(NamedTuple):
    """The response to a Fetch of one partition: record batches in `data`, from `position` on."""

    error: int
    high_watermark: int
    log_start: int
    aborted: list[tuple[int, int]]  # (producer id, first offset)
    data: bytearray
    position: int


class Listed(NamedTuple):
    """The offset that ListOffsets found, -1 for none."""

    error: int
    offset: int


class ProducerState(NamedTuple):
    """A broker's state of one producer in one partition."""

    epoch: int
    last_sequence: int


def request(api_key: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """Return a whole request, size first."""
    version = VERSIONS.get(api_key, ADMIN_VERSIONS.get(api_key))
    head = struct.pack(">hhi", api_key, version, correlation_id) + string(client_id)
    if api_key in FLEXIBLE:
        head += b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


def read_api_versions(reader: Reader) -> dict[int, tuple[int, int]]:
    """Return key -> (lowest, highest version)."""
    reader.int16()
    rows = reader.array(lambda: (reader.int16(), reader.int16(), reader.int16()))
    return {key: (lowest, highest) for key, lowest, highest in rows}


def metadata_request(topics: Sequence[str] | None, *, create: bool = False) -> bytes:
    """Ask for the metadata of these topics, or of all (None)."""
    body = bytearray(uvarint(0 if topics is None else len(topics) + 1))
    for topic in topics or ():
        body += bytes(UUID_BYTES) + compact_string(topic) + b"\0"
    return bytes(body) + struct.pack(">bbbb", create, 0, 0, 0)  # no authorized operations, no tags


class Metadata(NamedTuple):
    """A cluster as a broker describes it; the id is "" if it has none."""

    brokers: list[Broker]
    cluster_id: str
    topics: dict[str, TopicMetadata]


def read_metadata(reader: Reader) -> Metadata:
    """Return the cluster's id, its brokers, and the requested topics."""

    def broker() -> Broker:
        found = Broker(reader.int32(), reader.compact_string(), reader.int32())
        reader.compact_string()
        reader.tags()
        return found

    def partition() -> tuple[int, int]:
        error = reader.int16()
        index, leader = reader.int32(), reader.int32()
        if error == LEADER_NOT_AVAILABLE:  # a broker may name the one that is to be
            leader = _NO_LEADER
        reader.int32()
        for _ in range(3):
            reader.compact_array(reader.int32)
        reader.tags()
        return index, leader

    def topic() -> tuple[str, TopicMetadata]:
        error, name = reader.int16(), reader.compact_string()
        topic_id, internal = reader.uuid(), reader.int8()
        leaders = dict(reader.compact_array(partition))
        reader.int32()
        reader.tags()
        return name, TopicMetadata(error, bool(internal), leaders, topic_id)

    reader.tags()  # of the response's header
    reader.int32()
    brokers = reader.compact_array(broker)
    cluster_id = reader.compact_string()
    reader.int32()
    return Metadata(brokers, cluster_id, dict(reader.compact_array(topic)))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def list_offsets_request(times: Mapping[TopicPartition, int], isolation: int) -> bytes:
    """Ask for the first offset of each partition at or after a time, or EARLIEST or LATEST."""
    return struct.pack(">ib", -1, isolation) + array(
        string(topic)
        + array(struct.pack(">iiq", index, -1, times[topic, index]) for index in indexes)
        for topic, indexes in by_topic(times).items()
    )


def read_list_offsets(reader: Reader) -> dict[TopicPartition, Listed]:
    """Return the answer for each partition."""
    found: dict[TopicPartition, Listed] = {}

    def topic() -> None:
        name = reader.string()

        def partition() -> None:
            index, error = reader.int32(), reader.int16()
            reader.int64()
            found[name, index] = Listed(error, reader.int64())
            reader.int32()

        reader.array(partition)

    reader.int32()
    reader.array(topic)
    return found


class FetchLimits(NamedTuple):
    """How long a Fetch may wait, for how many bytes, at which isolation level."""

    wait_ms_max: int
    bytes_max: int
    isolation: int


def fetch_request(topic: str, partition: int, offset: int, limits: FetchLimits) -> bytes:
    """Ask for batches of one partition from `offset` on, without a fetch session."""
    head = struct.pack(
        ">iiiibii", -1, limits.wait_ms_max, 1, limits.bytes_max, limits.isolation, 0, -1
    )
    one = struct.pack(">iiqqi", partition, -1, offset, -1, limits.bytes_max)
    return head + array([string(topic) + array([one])]) + array([]) + string("")


def read_fetch(reader: Reader) -> Fetched:
    """Return the one partition of the response, without copying its records."""
    reader.int32()
    error = reader.int16()
    reader.int32()
    if error or reader.int32() != 1:
        return Fetched(error or -1, -1, -1, [], bytearray(), 0)
    reader.string()
    if reader.int32() != 1:
        raise ValueError("a Fetch of one partition was answered with another number of partitions")
    reader.int32()
    error = reader.int16()
    high_watermark, _, log_start = reader.int64(), reader.int64(), reader.int64()
    aborted = reader.array(lambda: (reader.int64(), reader.int64()))
    reader.int32()
    size = reader.int32()
    data, position = reader.data, reader.position
    if size > len(data) - position:
        raise ValueError(f"{size} bytes of records in {len(data) - position}")
    return Fetched(error, high_watermark, log_start, aborted, data, position)


def produce_request(
    acks: int,
    timeout_ms: int,
    batches: Mapping[TopicPartition, bytes | bytearray],
    transactional_id: str | None = None,
) -> bytes:
    """Send one batch to each of these partitions."""
    return (
        string(transactional_id)
        + struct.pack(">hi", acks, timeout_ms)
        + array(
            string(topic)
            + array(
                struct.pack(">ii", index, len(batches[topic, index])) + batches[topic, index]
                for index in indexes
            )
            for topic, indexes in by_topic(batches).items()
        )
    )


class Produced(NamedTuple):
    """What a broker says of a batch: an error code, its message, and the batch's first offset."""

    error: int
    said: str
    offset: int


def read_produce(reader: Reader) -> dict[TopicPartition, Produced]:
    """Return the answer for each partition."""
    found: dict[TopicPartition, Produced] = {}

    def topic() -> None:
        name = reader.string()

        def partition() -> None:
            index, error = reader.int32(), reader.int16()
            offset, _, _ = reader.int64(), reader.int64(), reader.int64()
            reader.array(lambda: (reader.int32(), reader.string()))
            found[name, index] = Produced(error, reader.string(), offset)

        reader.array(partition)

    reader.array(topic)
    return found


def init_producer_id_request(transactional_id: str | None = None, timeout_ms: int = 0) -> bytes:
    """Ask for a producer id: a new one, or the next epoch of a transactional id."""
    return string(transactional_id) + struct.pack(">i", timeout_ms)


def read_init_producer_id(reader: Reader) -> tuple[int, int, int]:
    """Return (error, producer id, epoch)."""
    reader.int32()
    return reader.int16(), reader.int64(), reader.int16()


def find_coordinator_request(kind: int, key: str) -> bytes:
    """Ask which broker coordinates a group or a transactional id."""
    return string(key) + bytes([kind])


def read_coordinator(reader: Reader) -> tuple[int, str, int]:
    """Return (error, host, port)."""
    reader.int32()
    error, _ = reader.int16(), reader.string()
    reader.int32()
    return error, reader.string(), reader.int32()


def describe_producers_request(partitions: Iterable[TopicPartition]) -> bytes:
    """Ask which producers a broker remembers in these partitions."""
    topics = compact_array(
        compact_string(topic) + compact_array(struct.pack(">i", index) for index in indexes) + b"\0"
        for topic, indexes in by_topic(partitions).items()
    )
    return topics + b"\0"


def read_describe_producers(
    reader: Reader,
) -> dict[TopicPartition, tuple[int, dict[int, ProducerState]]]:
    """Return the error code and the producers by id for each partition."""
    found: dict[TopicPartition, tuple[int, dict[int, ProducerState]]] = {}

    def producer() -> tuple[int, ProducerState]:
        producer_id, epoch, last_sequence = reader.int64(), reader.int32(), reader.int32()
        reader.int64()
        reader.int32()
        reader.int64()
        reader.tags()
        return producer_id, ProducerState(epoch, last_sequence)

    def topic() -> None:
        name = reader.compact_string()

        def partition() -> None:
            index, error = reader.int32(), reader.int16()
            reader.compact_string()
            found[name, index] = (error, dict(reader.compact_array(producer)))
            reader.tags()

        reader.compact_array(partition)
        reader.tags()

    reader.tags()  # of the response's header
    reader.int32()
    reader.compact_array(topic)
    return found
