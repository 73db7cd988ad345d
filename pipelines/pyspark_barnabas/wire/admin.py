"""What is asked of a cluster about topics themselves: its id, a topic's configs, a new topic.

Three requests beside those of `pyspark_barnabas.wire.protocol`, in versions that Apache Kafka 2.8
to 4.x and Barnabas serve: Metadata 10, DescribeConfigs 1, CreateTopics 4. A broker that lacks one
says so when it is asked; reading and writing need none of them but the first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.protocol import (
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    METADATA,
    Reader,
    array,
    metadata_request,
    read_metadata,
    string,
)

_TOPIC: Final = 2  # of Kafka's ConfigResource.Type
_BROKERS_DEFAULT: Final = -1  # as replication factor, KIP-464
_TIMEOUT_MS: Final = 30_000


def cluster_id(cluster: Cluster) -> str:
    """Return the id that a cluster has for life; "" for one that has none."""
    # No topic, rather than all.
    body = metadata_request([])
    return cluster.ask("asking for the cluster's id", METADATA, body, read_metadata).cluster_id


def topic_configs(cluster: Cluster, topic: str, names: list[str]) -> dict[str, str]:
    """Return what a topic has for these configs, defaults included; without those unknown."""

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
            cluster.check(error, f"the configs of topic {topic}", said)
            reader.array(config)

        reader.int32()
        reader.array(result)
        return found

    resource = struct.pack(">b", _TOPIC) + string(topic) + array(string(name) for name in names)
    body = array([resource]) + b"\0"  # no synonyms
    return cluster.ask(f"asking for the configs of {topic}", DESCRIBE_CONFIGS, body, read)


def create_topic(
    cluster: Cluster, topic: str, partitions_count: int, configs: Mapping[str, str]
) -> None:
    """Make a topic, with the brokers' replication factor. Raises BrokerRefused."""

    def read(reader: Reader) -> None:
        def result() -> None:
            reader.string()
            error, said = reader.int16(), reader.string()
            cluster.check(error, f"making the topic {topic}", said)

        reader.int32()
        reader.array(result)

    head = string(topic) + struct.pack(">ih", partitions_count, _BROKERS_DEFAULT) + array([])
    pairs = array(string(name) + string(value) for name, value in configs.items())
    body = array([head + pairs]) + struct.pack(">ib", _TIMEOUT_MS, 0)
    cluster.ask(f"making the topic {topic}", CREATE_TOPICS, body, read)
