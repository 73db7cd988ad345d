"""The broker's keys for groups and their offsets, after those of config/broker_keys.py.

Names, kinds, defaults and bounds are those of Kafka's GroupCoordinatorConfig; where a default
differs, the key names Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import assignors, at_least, between, one_of
from config.cleaner_keys import CleanerKeys
from config.keys import INT_MAX, MINUTE_MS, SECOND_MS, Importance, KiB, MiB, key
from config.values import Kind

HIGH = Importance.HIGH
CODEC_MAX = 4  # zstd, the last of Kafka's CompressionType


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class GroupKeys(CleanerKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    # -- classic groups --------------------------------------------------------------------------
    group_min_session_timeout_ms: int = key(
        "group.min.session.timeout.ms",
        6 * SECOND_MS,
        Kind.INT,
        unit="ms",
        doc="The shortest session timeout that a member of a classic group may ask for.",
    )
    group_max_session_timeout_ms: int = key(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        Kind.INT,
        unit="ms",
        doc="The longest session timeout that a member of a classic group may ask for.",
    )
    group_initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms",
        0,
        Kind.INT,
        unit="ms",
        kafka_default="3000",
        doc="How long an empty classic group waits for more members after the first joins. Each"
        " new member extends the wait, up to the rebalance timeout. Here the first member"
        " does not wait.",
    )
    group_max_size: int = key(
        "group.max.size",
        INT_MAX,
        Kind.INT,
        check=at_least(1),
        doc="How many members a classic group may have.",
    )

    # -- consumer groups (KIP-848) ---------------------------------------------------------------
    group_consumer_session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms",
        45 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        doc="A member of a consumer group that sends no heartbeat for this long is removed.",
    )
    group_consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        doc="The heartbeat interval that members of consumer groups are given.",
    )
    group_consumer_max_size: int = key(
        "group.consumer.max.size",
        INT_MAX,
        Kind.INT,
        check=at_least(1),
        doc="How many members a consumer group may have.",
    )
    group_consumer_assignors: tuple[str, ...] = key(
        "group.consumer.assignors",
        ("uniform", "range"),
        Kind.LIST,
        check=assignors(),
        doc="The assignors that consumer groups may use. The first is used if no member names one.",
    )
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy",
        "bidirectional",
        Kind.STRING,
        check=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
        doc="Which groups may change their type while they have members: to consumer groups,"
        " back to classic groups, both or none.",
    )

    # -- offsets -----------------------------------------------------------------------------------
    offset_metadata_max_bytes: int = key(
        "offset.metadata.max.bytes",
        4 * KiB,
        Kind.INT,
        unit="bytes",
        importance=HIGH,
        doc="The longest metadata text of a committed offset, in characters, as Kafka counts them.",
    )
    offsets_commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="How long a write of a group may take to become durable before its client gets an"
        " error.",
    )
    offsets_load_buffer_size: int = key(
        "offsets.load.buffer.size",
        5 * MiB,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many bytes of __consumer_offsets are read at a time while groups are loaded.",
    )
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes",
        7 * 24 * 60,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many minutes offsets are kept after their group loses its last member. Offsets"
        " of clients without a group are kept this long after their commit.",
    )
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="How often the broker looks for offsets to expire.",
    )
    offsets_topic_num_partitions: int = key(
        "offsets.topic.num.partitions",
        50,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many partitions __consumer_offsets gets when it is created.",
    )
    offsets_topic_segment_bytes: int = key(
        "offsets.topic.segment.bytes",
        100 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1),
        importance=HIGH,
        doc="The segment size that __consumer_offsets gets when it is created: at least 1 MiB, as"
        " for every topic.",
    )
    offsets_topic_compression_codec: int = key(
        "offsets.topic.compression.codec",
        0,
        Kind.INT,
        check=between(0, CODEC_MAX),
        importance=HIGH,
        doc="The codec of batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
