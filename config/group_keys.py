"""The broker's keys for groups and their offsets, after those of config/broker_keys.py.

Names, kinds, defaults and bounds are those of Kafka's GroupCoordinatorConfig; where a default
differs, the key says what Kafka's is.
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
        doc="The shortest session that a member of a classic group may ask for.",
    )
    group_max_session_timeout_ms: int = key(
        "group.max.session.timeout.ms",
        30 * MINUTE_MS,
        Kind.INT,
        unit="ms",
        doc="The longest session that a member of a classic group may ask for.",
    )
    group_initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms",
        0,
        Kind.INT,
        unit="ms",
        kafka_default="3000",
        doc="How long an empty classic group waits for more members after the first one; each that"
        " comes prolongs it, up to the rebalance timeout. Here a first consumer does not wait.",
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
        doc="A member of a consumer group that is not heard of for so long is out.",
    )
    group_consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms",
        5 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        doc="How often members of consumer groups are told to send heartbeats.",
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
        doc="Who may assign partitions in consumer groups; the first does where no member asks for"
        " one by name.",
    )
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy",
        "bidirectional",
        Kind.STRING,
        check=one_of("disabled", "upgrade", "downgrade", "bidirectional"),
        doc="Which groups may change their kind while members are in them: to consumer groups,"
        " back to classic ones, both or none.",
    )

    # -- offsets -----------------------------------------------------------------------------------
    offset_metadata_max_bytes: int = key(
        "offset.metadata.max.bytes",
        4 * KiB,
        Kind.INT,
        unit="bytes",
        importance=HIGH,
        doc="The longest text that a client may store beside a committed offset, in characters, as"
        " Kafka counts them.",
    )
    offsets_commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms",
        5 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="How long a write of a group may take to become durable before its client is told so.",
    )
    offsets_load_buffer_size: int = key(
        "offsets.load.buffer.size",
        5 * MiB,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many bytes of __consumer_offsets are read at a time when groups are loaded.",
    )
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes",
        7 * 24 * 60,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many minutes offsets are kept after their group has lost its last member, and"
        " those of clients without a group after their commit.",
    )
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms",
        10 * MINUTE_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="How often offsets are looked at for their retention.",
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
        doc="The segment size that __consumer_offsets gets when it is created.",
    )
    offsets_topic_compression_codec: int = key(
        "offsets.topic.compression.codec",
        0,
        Kind.INT,
        check=between(0, CODEC_MAX),
        importance=HIGH,
        doc="How batches of __consumer_offsets are compressed: 0 not at all, 1 gzip, 2 snappy,"
        " 3 lz4, 4 zstd.",
    )
