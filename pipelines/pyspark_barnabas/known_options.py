"""Every option name, and which of them have no effect where they are given.

An unknown name is a mistake and is refused with the nearest known one. A name that Spark's Kafka
source or the Java client knows, but that has no effect here, is accepted, so that a program changes
only the format's name; a warning names it, once a process. Options that would change what is read
or written are not among those: `pyspark_barnabas.options` reads or refuses them.

The Java client's names are those of ConsumerConfig and ProducerConfig in Apache Kafka 4.3. Names
with `ssl.` and `sasl.` are not in this list: `pyspark_barnabas.security_options` refuses those that
would have no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from pyspark_barnabas.wire.errors import BadOption

_log = logging.getLogger(__name__)

_PLACES: Final = (
    "assign", "subscribe", "subscribePattern", "startingOffsets", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "startingTimestamp", "failOnDataLoss", "includeHeaders",
    "minPartitions", "maxRecordsPerPartition", "batchBytesMax", "batchHeadersMax",
)  # fmt: skip
_ENDINGS: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_LIMITS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ADDED_BY_SPARK: Final = ("checkpointLocation", "queryName", "path", "paths")
_SPARKS_ONLY: Final = (
    "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
_CONNECTION: Final = (
    "kafka.bootstrap.servers", "kafka.client.id", "kafka.request.timeout.ms",
    "kafka.security.protocol",
)  # fmt: skip
_READING: Final = (
    "kafka.default.api.timeout.ms", "kafka.fetch.max.wait.ms", "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
)  # fmt: skip
_WRITING: Final = (
    "kafka.acks", "kafka.batch.size", "kafka.compression.type", "kafka.delivery.timeout.ms",
)  # fmt: skip
_TRANSACTIONS: Final = ("exactlyOnce", "decisionTopic", "kafka.transaction.timeout.ms")
_JAVA_NAMES: Final = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter
    auto.offset.reset batch.size bootstrap.servers buffer.memory check.crcs client.dns.lookup
    client.id client.rack compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers connections.max.idle.ms default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes isolation.level key.deserializer key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries
    retry.backoff.max.ms retry.backoff.ms security.protocol security.providers send.buffer.bytes
    session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    transaction.timeout.ms transaction.two.phase.commit.enable transactional.id value.deserializer
    value.serializer
"""
_JAVA_CLIENT: Final = tuple(f"kafka.{name}" for name in _JAVA_NAMES.split())
# The options with an effect, by use. Options that a use refuses count as having one.
_EFFECTIVE: Final = {
    "a batch read": (*_PLACES, *_ENDINGS, *_CONNECTION, *_READING),
    "a stream": (*_PLACES, *_ENDINGS, *_LIMITS, *_CONNECTION, *_READING),
    "a batch write": ("topic", *_CONNECTION, *_WRITING),
    "a streaming write": ("topic", "deduplicate", *_TRANSACTIONS, *_CONNECTION, *_WRITING),
}
_KNOWN: Final = {
    name.lower(): name
    for names in (*_EFFECTIVE.values(), _LIMITS, _ADDED_BY_SPARK, _SPARKS_ONLY, _JAVA_CLIENT)
    for name in names
}
_SECURITY: Final = ("kafka.ssl.", "kafka.sasl.")
_MATCH_CUTOFF: Final = 0.75  # of difflib; "startingOffset" and "kafka.bootstap.servers" pass

_warned: set[tuple[str, str]] = set()


def require_known(names: Iterable[str]) -> None:
    """Raise BadOption for the first unknown name, with the nearest known one."""
    for name in names:
        lower = name.lower()
        if lower in _KNOWN or lower.startswith(_SECURITY):
            continue
        meant = _KNOWN.get(f"kafka.{lower}")
        if meant is None:
            near = get_close_matches(lower, _KNOWN, n=1, cutoff=_MATCH_CUTOFF)
            meant = _KNOWN[near[0]] if near else None
        hint = f"did you mean {meant}?" if meant else "docs/pyspark.md lists them all"
        raise BadOption(f"there is no option {name}: {hint}")


def without_effect(names: Iterable[str], use: str) -> list[str]:
    """Return the names without effect in `use`, a key of `_EFFECTIVE`, as they are spelled."""
    effective = {name.lower() for name in (*_EFFECTIVE[use], *_ADDED_BY_SPARK)}
    found = {name.lower() for name in names if not name.lower().startswith(_SECURITY)} - effective
    return sorted(_KNOWN.get(name, name) for name in found)


def warn_without_effect(names: Iterable[str], use: str) -> None:
    """Log a warning that names the options without effect in `use`, once a process."""
    ignored = ", ".join(without_effect(names, use))
    if ignored and (use, ignored) not in _warned:
        _warned.add((use, ignored))
        _log.warning('format("barnabas"): without effect in %s: %s', use, ignored)
