"""The broker's keys for metrics that clients push (KIP-714), after config/log_line_keys.py.

Subscriptions are no keys: they are recorded with the metadata (config/resources.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.checks import at_least
from config.keys import Importance, key
from config.log_line_keys import LogLineKeys
from config.values import Kind

# Prefixes of names that Java's and librdkafka's clients know: some 20 series a client.
DEFAULT_METRICS: Final = (
    "org.apache.kafka.consumer.coordinator.assigned.partitions",
    "org.apache.kafka.consumer.coordinator.commit.latency.",
    "org.apache.kafka.consumer.coordinator.rebalance.latency.",
    "org.apache.kafka.consumer.fetch.manager.fetch.latency.",
    "org.apache.kafka.consumer.fetch.manager.records.lag.max",
    "org.apache.kafka.consumer.poll.idle.ratio.avg",
    "org.apache.kafka.producer.node.request.latency.",
    "org.apache.kafka.producer.produce.throttle.time.",
    "org.apache.kafka.producer.record.error.total",
    "org.apache.kafka.producer.record.queue.time.",
)


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class TelemetryKeys(LogLineKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    telemetry_max_bytes: int = key(
        "telemetry.max.bytes",
        1024 * 1024,
        Kind.INT,
        unit="bytes",
        importance=Importance.LOW,
        check=at_least(1),
        doc="The largest push of metrics that the broker accepts from a client, and the largest"
        " that a compressed one may become.",
    )
    barnabas_client_metrics_default: tuple[str, ...] = key(
        "barnabas.client.metrics.default",
        DEFAULT_METRICS,
        Kind.LIST,
        importance=Importance.LOW,
        doc="Prefixes of the metrics that clients push each minute if no subscription matches them."
        " An empty value asks for none, as Apache Kafka does.",
    )
