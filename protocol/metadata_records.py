"""The records of the cluster's metadata log (KIP-500), and the bodies of its control records.

A metadata record is `kind="data"` with its record type for an API key; the types, on disk, are
never renumbered. Its value in the log is a frame: the version of frames (1), the type and the
version of the record as unsigned varints, then the fields (Kafka's MetadataRecordSerde). The frame
is read and written where the log is. Every version is flexible, so later fields can be tags that
older readers skip. `METADATA_RECORDS` finds a class by type; types not in it have a module of
their own (users in `scram_records`), or are for the reader to keep and pass over (delegation
tokens, migration from ZooKeeper).

A control record is in a control batch. Its key is the control version and the control type,
int16 each; its value is one of `CONTROL_RECORDS`, which have no record type (api_key -1).

Sources: the metadata directory of messages in Apache Kafka 4.3 (RegisterBrokerRecord.json and so
on), MetadataRecordType, ControlRecordType, LeaderChangeMessage.json, SnapshotHeaderRecord.json,
SnapshotFooterRecord.json, KRaftVersionRecord.json and VotersRecord.json.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.quota_records import ClientQuotaRecord
from protocol.wire import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Nullable,
    Since,
    String,
    Tag,
    Uint16,
    Uuid,
    message,
    message_spec,
    structure,
)

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2


class ControlRecordType(IntEnum):
    """What a control record says. On disk: never renumber (Kafka's ControlRecordType)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


# --- brokers and controllers ----------------------------------------------------------------


@structure
class RegisteredEndpoint:
    """A listener of a node. `security_protocol` is Kafka's id: 0 PLAINTEXT, 1 SSL, 2, 3 SASL."""

    name: String
    host: String
    port: Uint16
    security_protocol: Int16


@structure
class RegisteredFeature:
    """A feature and the levels a node supports, both ends inclusive."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@message(api_key=0, kind="data", versions=(0, 4), flexible_since=0)
@structure
class RegisterBrokerRecord:
    """A broker has registered. Its epoch is the offset of this record.

    1: controlled shutdown. 2: migration from ZooKeeper (KIP-866). 3: its directories (KIP-858).
    4: directories that take no new partitions.
    """

    broker_id: Int32
    is_migrating_zk_broker: Annotated[Bool, Since(2)] = False
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: list[RegisteredEndpoint] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)
    rack: Annotated[String | None, Nullable()] = ""
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Tag(0, since=3)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Nullable(since=4), Tag(1, since=4)] = None


@message(api_key=1, kind="data", versions=(0, 0), flexible_since=0)
@structure
class UnregisterBrokerRecord:
    """A broker has left for good."""

    broker_id: Int32
    broker_epoch: Int64


@message(api_key=7, kind="data", versions=(0, 0), flexible_since=0)
@structure
class FenceBrokerRecord:
    """A broker may not lead; logs before metadata version 3.3 have it."""

    id: Int32
    epoch: Int64


@message(api_key=8, kind="data", versions=(0, 0), flexible_since=0)
@structure
class UnfenceBrokerRecord:
    """A broker may lead again; logs before metadata version 3.3 have it."""

    id: Int32
    epoch: Int64


@message(api_key=17, kind="data", versions=(0, 3), flexible_since=0)
@structure
class BrokerRegistrationChangeRecord:
    """A registered broker has changed.

    `fenced`: -1 no longer, 1 from now on, 0 unchanged. `in_controlled_shutdown`: 1 or unchanged.
    An empty `log_dirs` and a null `cordoned_log_dirs` mean unchanged.
    """

    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, Tag(1, since=1)] = 0
    log_dirs: Annotated[list[Uuid], Tag(2, since=2)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Nullable(since=3), Tag(3, since=3)] = None


@message(api_key=27, kind="data", versions=(0, 0), flexible_since=0)
@structure
class RegisterControllerRecord:
    """A controller has registered (KIP-919)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool = False
    end_points: list[RegisteredEndpoint] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)


# --- topics, partitions, configuration ------------------------------------------------------


@message(api_key=2, kind="data", versions=(0, 0), flexible_since=0)
@structure
class TopicRecord:
    """A topic exists; its partitions follow as records of their own."""

    name: String
    topic_id: Uuid


@message(api_key=3, kind="data", versions=(0, 2), flexible_since=0)
@structure
class PartitionRecord:
    """The whole state of a partition. 1: `directories` (KIP-858). 2: the two ELR lists (KIP-966).

    `directories` runs beside `replicas`: the directory.id that holds each. `leader` is NO_LEADER
    without a leader. `leader_recovery_state` 1: the last leader was chosen uncleanly.
    """

    partition_id: Int32
    topic_id: Uuid
    replicas: list[Int32] = field(default_factory=list)
    isr: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    leader: Int32 = NO_LEADER
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[list[Uuid], Since(1)] = field(default_factory=list)
    eligible_leader_replicas: Annotated[list[Int32] | None, Nullable(since=2), Tag(1, since=2)] = (
        None
    )
    last_known_elr: Annotated[list[Int32] | None, Nullable(since=2), Tag(2, since=2)] = None


@message(api_key=5, kind="data", versions=(0, 2), flexible_since=0)
@structure
class PartitionChangeRecord:
    """What changed in a partition; each such record raises `partition_epoch` by one.

    Null lists, a leader of NO_LEADER_CHANGE and a recovery state of -1 mean unchanged. A leader
    other than that, even the same one, raises `leader_epoch` too. Versions as PartitionRecord.
    """

    partition_id: Int32
    topic_id: Uuid
    isr: Annotated[list[Int32] | None, Nullable(), Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = NO_LEADER_CHANGE
    replicas: Annotated[list[Int32] | None, Nullable(), Tag(2)] = None
    removing_replicas: Annotated[list[Int32] | None, Nullable(), Tag(3)] = None
    adding_replicas: Annotated[list[Int32] | None, Nullable(), Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1
    eligible_leader_replicas: Annotated[list[Int32] | None, Nullable(since=2), Tag(6, since=2)] = (
        None
    )
    last_known_elr: Annotated[list[Int32] | None, Nullable(since=2), Tag(7, since=2)] = None
    directories: Annotated[list[Uuid] | None, Nullable(since=1), Tag(8, since=1)] = None


@message(api_key=9, kind="data", versions=(0, 0), flexible_since=0)
@structure
class RemoveTopicRecord:
    """A topic is gone, with its partitions and configuration."""

    topic_id: Uuid


@message(api_key=4, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ConfigRecord:
    """A setting of a resource: `resource_type` 2 topic, 4 broker; a null value removes it.

    Types are Kafka's ConfigResource.Type. The name "" of a broker is the default for all brokers.
    """

    resource_type: Int8
    resource_name: String
    name: String
    value: Annotated[String | None, Nullable()]


# --- features, producer ids, transactions of records ----------------------------------------


@message(api_key=12, kind="data", versions=(0, 0), flexible_since=0)
@structure
class FeatureLevelRecord:
    """The level in force of a feature (KIP-584); `metadata.version` stands first in every log."""

    name: String
    feature_level: Int16


@message(api_key=15, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ProducerIdsRecord:
    """A block of producer ids was given out; `next_producer_id` begins the next one."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@message(api_key=20, kind="data", versions=(0, 0), flexible_since=0)
@structure
class NoOpRecord:
    """A heartbeat (KIP-835)."""


@message(api_key=23, kind="data", versions=(0, 0), flexible_since=0)
@structure
class BeginTransactionRecord:
    """The records that follow take effect together, at EndTransactionRecord (KIP-868)."""

    name: Annotated[String | None, Nullable(), Tag(0)] = None


@message(api_key=24, kind="data", versions=(0, 0), flexible_since=0)
@structure
class EndTransactionRecord:
    """The records since BeginTransactionRecord are in force."""


@message(api_key=25, kind="data", versions=(0, 0), flexible_since=0)
@structure
class AbortTransactionRecord:
    """The records since BeginTransactionRecord are void."""

    reason: Annotated[String | None, Nullable(), Tag(0)] = None


@message(api_key=28, kind="data", versions=(0, 0), flexible_since=0)
@structure
class ClearElrRecord:
    """The eligible leader replicas of a topic, or with "" of every topic, are void (KIP-966)."""

    topic_name: String


# --- bodies of control records --------------------------------------------------------------


@structure
class LeaderChangeVoter:
    """A voter, and from version 1 on the directory.id of its metadata log (KIP-853)."""

    voter_id: Int32
    voter_directory_id: Annotated[Uuid, Since(1)] = ZERO_UUID


@message(api_key=-1, kind="data", versions=(0, 1), flexible_since=0)
@structure
class LeaderChangeMessage:
    """The first record of a leader's epoch. `version` repeats the version it is written in."""

    version: Int16
    leader_id: Int32
    voters: list[LeaderChangeVoter] = field(default_factory=list)
    granting_voters: list[LeaderChangeVoter] = field(default_factory=list)


@message(api_key=-1, kind="data", versions=(0, 0), flexible_since=0)
@structure
class SnapshotHeaderRecord:
    """The first record of a snapshot: the append time (ms) of the last batch it contains."""

    version: Int16 = 0
    last_contained_log_timestamp: Int64


@message(api_key=-1, kind="data", versions=(0, 0), flexible_since=0)
@structure
class SnapshotFooterRecord:
    """The last record of a snapshot: without it, the snapshot is not whole."""

    version: Int16 = 0


@message(api_key=-1, kind="data", versions=(0, 0), flexible_since=0)
@structure
class KRaftVersionRecord:
    """The level of `kraft.version`: 0 with voters from configuration, 1 from records (KIP-853)."""

    version: Int16 = 0
    kraft_version: Int16


@structure
class VoterEndpoint:
    """The address of a voter's controller."""

    name: String
    host: String
    port: Uint16


@structure
class KRaftVersionFeature:
    """The levels of `kraft.version` that a voter supports, both ends inclusive."""

    min_supported_version: Int16
    max_supported_version: Int16


@structure
class Voter:
    """A voter of the quorum, and the directory.id of its metadata log."""

    voter_id: Int32
    voter_directory_id: Uuid
    endpoints: list[VoterEndpoint] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature


@message(api_key=-1, kind="data", versions=(0, 0), flexible_since=0)
@structure
class VotersRecord:
    """All voters of the quorum (KIP-853)."""

    version: Int16 = 0
    voters: list[Voter] = field(default_factory=list)


METADATA_RECORDS: Final[Mapping[int, type[Any]]] = MappingProxyType(
    {
        message_spec(record).api_key: record
        for record in (
            RegisterBrokerRecord,
            UnregisterBrokerRecord,
            TopicRecord,
            PartitionRecord,
            ConfigRecord,
            PartitionChangeRecord,
            FenceBrokerRecord,
            UnfenceBrokerRecord,
            RemoveTopicRecord,
            FeatureLevelRecord,
            ClientQuotaRecord,
            ProducerIdsRecord,
            BrokerRegistrationChangeRecord,
            NoOpRecord,
            BeginTransactionRecord,
            EndTransactionRecord,
            AbortTransactionRecord,
            RegisterControllerRecord,
            ClearElrRecord,
            AccessControlEntryRecord,
            RemoveAccessControlEntryRecord,
        )
    }
)
"""The class of each record type that is declared here."""

CONTROL_RECORDS: Final[Mapping[ControlRecordType, type[Any]]] = MappingProxyType(
    {
        ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
        ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
        ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
        ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
        ControlRecordType.KRAFT_VOTERS: VotersRecord,
    }
)
"""The class of each control record's value that is declared here (markers of transactions not)."""
