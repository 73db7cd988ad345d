"""A topic's configuration: Kafka 4.3's topic keys, and `write.caching`.

Names, kinds, defaults and bounds are those of Kafka's LogConfig and TopicConfig. The synonyms are
the broker's keys that give a topic its default, best first (Kafka's ServerTopicConfigSynonyms).
Every key can be changed while the broker runs. `__post_init__` checks the rules that span keys, so
every TopicConfig object is valid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.checks import at_least, between, between_or, one_of, replica_list, some_of
from config.errors import ConfigError
from config.keys import (
    DAY_MS,
    HOUR_MS,
    LONG_MAX,
    MINUTE_MS,
    GiB,
    Importance,
    Key,
    KiB,
    MiB,
    Synonym,
    Update,
    key,
    keys_of,
    read_value,
)
from config.values import Kind, text_of

HIGH = Importance.HIGH
READ_ONLY = Update.READ_ONLY
NO_FOLLOWERS = "there are no follower replicas"
SEGMENT_BYTES_MIN = MiB  # Kafka's floor since 4.0
NO_TIERS = "there is no remote storage"
BATCH_OVERHEAD = 12  # base offset and length stand before what max.message.bytes once counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The configuration of one topic; the attribute of a key is its name with underscores."""

    cleanup_policy: tuple[str, ...] = key(
        "cleanup.policy",
        ("delete",),
        Kind.LIST,
        check=some_of("compact", "delete"),
        update=Update.TOPIC,
        synonyms=(Synonym("log.cleanup.policy"),),
        doc="What happens to old segments: delete removes them by age or size, compact keeps"
        " the newest record of each key. Both may be set.",
    )
    compression_type: str = key(
        "compression.type",
        "producer",
        Kind.STRING,
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=Update.TOPIC,
        synonyms=(Synonym("compression.type", importance=HIGH),),
        doc="The codec that batches are stored with. producer stores each batch as it was sent.",
    )
    compression_gzip_level: int = key(
        "compression.gzip.level",
        -1,
        Kind.INT,
        check=between_or(1, 9, -1),
        update=Update.TOPIC,
        synonyms=(Synonym("compression.gzip.level"),),
        doc="The gzip level if the broker compresses; -1 is gzip's default.",
    )
    compression_lz4_level: int = key(
        "compression.lz4.level",
        9,
        Kind.INT,
        check=between(1, 17),
        update=Update.TOPIC,
        synonyms=(Synonym("compression.lz4.level"),),
        no_effect="the lz4 library here has one level",
        doc="The lz4 level if the broker compresses.",
    )
    compression_zstd_level: int = key(
        "compression.zstd.level",
        3,
        Kind.INT,
        check=between(-131072, 22),
        update=Update.TOPIC,
        synonyms=(Synonym("compression.zstd.level"),),
        doc="The zstd level if the broker compresses.",
    )
    delete_retention_ms: int = key(
        "delete.retention.ms",
        DAY_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
        doc="How long compaction keeps the marker of a deleted key.",
    )
    file_delete_delay_ms: int = key(
        "file.delete.delay.ms",
        MINUTE_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.segment.delete.delay.ms", importance=HIGH),),
        doc="How long a deleted segment's files stay, renamed, before they leave the disk.",
    )
    flush_messages: int = key(
        "flush.messages",
        LONG_MAX,
        Kind.LONG,
        check=at_least(1),
        update=Update.TOPIC,
        synonyms=(Synonym("log.flush.interval.messages", importance=HIGH),),
        doc="With write.caching: fsync after this many records. Without it, every acknowledged"
        " record is already fsynced.",
    )
    flush_ms: int = key(
        "flush.ms",
        LONG_MAX,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(
            Synonym("log.flush.interval.ms", importance=HIGH),
            Synonym(
                "log.flush.scheduler.interval.ms",
                importance=HIGH,
                update=READ_ONLY,
                default=LONG_MAX,
            ),
        ),
        doc="With write.caching: fsync records that have waited this long. Without it, every"
        " acknowledged record is already fsynced.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = key(
        "follower.replication.throttled.replicas",
        (),
        Kind.LIST,
        check=replica_list(),
        update=Update.TOPIC,
        no_effect=NO_FOLLOWERS,
        doc="Which follower replicas are throttled.",
    )
    index_interval_bytes: int = key(
        "index.interval.bytes",
        4 * KiB,
        Kind.INT,
        unit="bytes",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.index.interval.bytes"),),
        doc="The least bytes of log between two index entries. A smaller value makes look-ups"
        " faster and indexes larger.",
    )
    internal_segment_bytes: int | None = key(
        "internal.segment.bytes",
        None,
        Kind.INT,
        unit="bytes",
        check=at_least(1),
        update=Update.TOPIC,
        internal=True,
        synonyms=(Synonym("internal.segment.bytes", update=READ_ONLY),),
        doc="For tests: the segment size, without the floor of segment.bytes.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = key(
        "leader.replication.throttled.replicas",
        (),
        Kind.LIST,
        check=replica_list(),
        update=Update.TOPIC,
        no_effect=NO_FOLLOWERS,
        doc="Which leader replicas are throttled.",
    )
    local_retention_bytes: int = key(
        "local.retention.bytes",
        -2,
        Kind.LONG,
        unit="bytes",
        check=at_least(-2),
        update=Update.TOPIC,
        synonyms=(Synonym("log.local.retention.bytes"),),
        no_effect=NO_TIERS,
        doc="How much of a tiered partition stays on this disk; -2 means retention.bytes.",
    )
    local_retention_ms: int = key(
        "local.retention.ms",
        -2,
        Kind.LONG,
        unit="ms",
        check=at_least(-2),
        update=Update.TOPIC,
        synonyms=(Synonym("log.local.retention.ms"),),
        no_effect=NO_TIERS,
        doc="How long a tiered partition's segment stays on this disk; -2 means retention.ms.",
    )
    max_compaction_lag_ms: int = key(
        "max.compaction.lag.ms",
        LONG_MAX,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        update=Update.TOPIC,
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
        doc="The longest time that a record may stay uncompacted.",
    )
    max_message_bytes: int = key(
        "max.message.bytes",
        MiB + BATCH_OVERHEAD,
        Kind.INT,
        unit="bytes",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("message.max.bytes", importance=HIGH),),
        doc="The largest record batch that is accepted, in its compressed size.",
    )
    message_timestamp_after_max_ms: int = key(
        "message.timestamp.after.max.ms",
        HOUR_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
        doc="How far a producer's timestamp may be ahead of the broker's clock. A batch beyond"
        " it is refused. Ignored with LogAppendTime.",
    )
    message_timestamp_before_max_ms: int = key(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
        doc="How far a producer's timestamp may be behind the broker's clock. A batch beyond it"
        " is refused. Ignored with LogAppendTime.",
    )
    message_timestamp_type: str = key(
        "message.timestamp.type",
        "CreateTime",
        Kind.STRING,
        check=one_of("CreateTime", "LogAppendTime"),
        update=Update.TOPIC,
        synonyms=(Synonym("log.message.timestamp.type"),),
        doc="Whether records carry the producer's time or the time of the append.",
    )
    min_cleanable_dirty_ratio: float = key(
        "min.cleanable.dirty.ratio",
        0.5,
        Kind.DOUBLE,
        check=between(0, 1),
        update=Update.TOPIC,
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
        doc="The least part of a log that must be uncompacted before the cleaner compacts it.",
    )
    min_compaction_lag_ms: int = key(
        "min.compaction.lag.ms",
        0,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
        doc="The shortest time that a record stays uncompacted.",
    )
    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        Kind.INT,
        check=at_least(1),
        update=Update.TOPIC,
        synonyms=(Synonym("min.insync.replicas", importance=HIGH),),
        no_effect="the one replica is always in sync, and Kafka too bounds this by their number",
        doc="How many replicas must have a record before acks=all is acknowledged.",
    )
    preallocate: bool = key(
        "preallocate",
        False,
        Kind.BOOLEAN,
        update=Update.TOPIC,
        synonyms=(Synonym("log.preallocate"),),
        no_effect="segments grow as they are written",
        doc="Whether the file of a new segment takes its full size on disk at once.",
    )
    remote_log_copy_disable: bool = key(
        "remote.log.copy.disable",
        False,
        Kind.BOOLEAN,
        update=Update.TOPIC,
        no_effect=NO_TIERS,
        doc="Whether segments are no longer copied to remote storage.",
    )
    remote_log_delete_on_disable: bool = key(
        "remote.log.delete.on.disable",
        False,
        Kind.BOOLEAN,
        update=Update.TOPIC,
        no_effect=NO_TIERS,
        doc="Whether remote segments are deleted when a topic leaves remote storage.",
    )
    remote_storage_enable: bool = key(
        "remote.storage.enable",
        False,
        Kind.BOOLEAN,
        update=Update.TOPIC,
        no_effect=NO_TIERS,
        doc="Whether old segments move to remote storage.",
    )
    retention_bytes: int = key(
        "retention.bytes",
        -1,
        Kind.LONG,
        unit="bytes",
        update=Update.TOPIC,
        synonyms=(Synonym("log.retention.bytes", importance=HIGH),),
        doc="Delete a partition's oldest segments while it is larger than this. -1 sets no limit.",
    )
    retention_ms: int = key(
        "retention.ms",
        7 * DAY_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(-1),
        update=Update.TOPIC,
        synonyms=(
            Synonym("log.retention.ms", importance=HIGH, lowest=1),
            Synonym(
                "log.retention.minutes",
                MINUTE_MS,
                Kind.INT,
                update=READ_ONLY,
                importance=HIGH,
                lowest=1,
            ),
            Synonym(
                "log.retention.hours",
                HOUR_MS,
                Kind.INT,
                update=READ_ONLY,
                importance=HIGH,
                default=168,
                lowest=1,
            ),
        ),
        doc="Delete segments whose newest record is older than this. -1 keeps them forever.",
    )
    segment_bytes: int = key(
        "segment.bytes",
        GiB,
        Kind.INT,
        unit="bytes",
        check=at_least(SEGMENT_BYTES_MIN),
        update=Update.TOPIC,
        synonyms=(Synonym("log.segment.bytes", importance=HIGH),),
        doc="The largest size of a segment. The log then rolls a new one.",
    )
    segment_index_bytes: int = key(
        "segment.index.bytes",
        10 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(4),
        update=Update.TOPIC,
        synonyms=(Synonym("log.index.size.max.bytes"),),
        doc="The largest size of a segment's index. The log rolls a new segment when it is full.",
    )
    segment_jitter_ms: int = key(
        "segment.jitter.ms",
        0,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=Update.TOPIC,
        synonyms=(
            Synonym("log.roll.jitter.ms", importance=HIGH),
            Synonym(
                "log.roll.jitter.hours",
                HOUR_MS,
                Kind.INT,
                update=READ_ONLY,
                importance=HIGH,
                default=0,
            ),
        ),
        doc="Roll segments up to this much earlier, at random, so that logs do not roll together.",
    )
    segment_ms: int = key(
        "segment.ms",
        7 * DAY_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        update=Update.TOPIC,
        synonyms=(
            Synonym("log.roll.ms", importance=HIGH),
            Synonym(
                "log.roll.hours",
                HOUR_MS,
                Kind.INT,
                update=READ_ONLY,
                importance=HIGH,
                default=168,
            ),
        ),
        doc="Roll a new segment when the active one is older than this, so that retention can"
        " delete it.",
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable",
        False,
        Kind.BOOLEAN,
        update=Update.TOPIC,
        synonyms=(Synonym("unclean.leader.election.enable", importance=HIGH),),
        no_effect="there is no other replica to elect",
        doc="Whether a replica that lags may become leader.",
    )
    write_caching: bool = key(
        "write.caching",
        False,
        Kind.BOOLEAN,
        importance=HIGH,
        update=Update.TOPIC,
        synonyms=(Synonym("write.caching", importance=HIGH),),
        doc="false: acks=all is acknowledged, and records become visible, once they are"
        " fsynced. true: from the page cache, as in Apache Kafka by default; a power failure"
        " may then lose acknowledged records.",
    )

    def __post_init__(self) -> None:
        """Check what concerns two keys at once."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"greater than max.compaction.lag.ms={self.max_compaction_lag_ms}",
                key="min.compaction.lag.ms",
                value=str(self.min_compaction_lag_ms),
            )
        if self.remote_storage_enable:
            raise ConfigError(NO_TIERS, key="remote.storage.enable", value="true", allowed="false")

    @property
    def segment_bytes_max(self) -> int:
        """The largest size of a segment; a batch must fit into one."""
        return self.internal_segment_bytes or self.segment_bytes

    def with_overrides(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Return this configuration with a topic's own values, given by key as text.

        Raises ConfigError for an unknown key (Kafka refuses these too) and for a bad value.
        """
        if not overrides:
            return self
        known = topic_keys()
        changes: dict[str, Any] = {}
        for name, text in overrides.items():
            if name not in known:
                raise ConfigError("unknown topic config name", key=name, value=text)
            changes[known[name].attribute] = read_value(known[name], text, "")
        return dataclasses.replace(self, **changes)

    def texts(self) -> dict[str, str | None]:
        """Return every key's value as text, None where it is not set."""
        return {
            name: text_of(getattr(self, described.attribute))
            for name, described in topic_keys().items()
        }


def topic_keys() -> dict[str, Key]:
    """Return the topic's keys by name."""
    return keys_of(TopicConfig)
