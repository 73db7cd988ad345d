"""The names of a data directory: all that may occur in it, made and parsed here.

The directory and its names are Kafka's (LogFileUtils, LogLoader, Snapshots), except for three names
of our own, which Kafka ignores: `<base>.producers` beside a `.snapshot`,
`<base>.log.<position>.<ms>.quarantine` for bytes that recovery cut, and `.mock_salt_secret`.

    meta.properties  .lock  .kafka_cleanshutdown  bootstrap.checkpoint  .mock_salt_secret
    recovery-point-offset-checkpoint  log-start-offset-checkpoint
    replication-offset-checkpoint  cleaner-offset-checkpoint             Kafka's; left alone
    <topic>-<partition>/                                                 one log
    <topic>-<partition>.<32 hex>-delete|-future|-stray/                  being deleted or moved
        partition.metadata  leader-epoch-checkpoint  quorum-state
        <20 digits>.log|index|timeindex|txnindex|snapshot|producers      a segment
        <the same>.deleted|cleaned|swap                                  a segment in transit
        <20 digits>.log.<position>.<unix ms>.quarantine                  bytes cut by recovery
        <20 digits>-<10 digits>.checkpoint[.part|.deleted]               a metadata snapshot

A small file that is being replaced has `.tmp` behind its name. The broker leaves alone and reports
a name that `parse` does not know (design.md, I11). Nothing in this module does I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

META_PROPERTIES = "meta.properties"
LOCK = ".lock"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MOCK_SALT_SECRET = ".mock_salt_secret"  # noqa: S105 - a name
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
QUORUM_STATE = "quorum-state"
METADATA_TOPIC = "__cluster_metadata"
METADATA_DIRECTORY = f"{METADATA_TOPIC}-0"

LOG = "log"
OFFSET_INDEX = "index"
TIME_INDEX = "timeindex"
TRANSACTION_INDEX = "txnindex"
SNAPSHOT = "snapshot"
PRODUCERS = "producers"
SEGMENT_FILES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT, PRODUCERS)

DELETED = "deleted"
CLEANED = "cleaned"
SWAP = "swap"

TOPIC_NAME_MAX = 249  # Kafka's Topic.MAX_NAME_LENGTH
DIRECTORY_NAME_MAX = 255  # the limit of file systems; Kafka cuts the topic to fit
PARTITION_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1

_FILES = frozenset(
    (META_PROPERTIES, LOCK, CLEAN_SHUTDOWN, BOOTSTRAP_CHECKPOINT, RECOVERY_POINT_CHECKPOINT,
     LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT, CLEANER_CHECKPOINT, PARTITION_METADATA,
     LEADER_EPOCH_CHECKPOINT, QUORUM_STATE, MOCK_SALT_SECRET)
)  # fmt: skip
_SEGMENT = re.compile(
    rf"(?P<base>\d{{20}})\.(?P<file>{'|'.join(SEGMENT_FILES)})"
    rf"(?:\.(?P<transit>{DELETED}|{CLEANED}|{SWAP}))?",
    re.ASCII,
)
_QUARANTINE = re.compile(
    r"(?P<base>\d{20})\.log\.(?P<position>\d{1,19})\.(?P<time>\d{1,19})\.quarantine", re.ASCII
)
_METADATA_SNAPSHOT = re.compile(
    r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint(?:\.(?P<transit>part|deleted))?", re.ASCII
)
_PARTITION = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9]\d{0,9})", re.ASCII)
_MOVED_PARTITION = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>0|[1-9]\d{0,9})"
    r"\.(?P<unique>[0-9a-f]{32})-(?P<transit>delete|future|stray)",
    re.ASCII,
)


class Kind(Enum):
    """What a name means."""

    FILE = "file"  # one of the fixed names; `file` is that name
    SEGMENT = "segment"  # base_offset, file (log, index, …), transit
    QUARANTINE = "quarantine"  # base_offset, position, time_ms
    METADATA_SNAPSHOT = "metadata snapshot"  # base_offset = end offset, epoch, transit
    PARTITION = "partition"  # topic, partition: a directory
    MOVED_PARTITION = "moved partition"  # topic (perhaps cut), partition, transit: a directory
    TEMPORARY = "temporary"  # a replacement that was not finished; `file` is the name without .tmp


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A parsed name. Fields that its kind does not have are "" or -1."""

    kind: Kind
    file: str = ""
    transit: str = ""  # "", deleted, cleaned, swap, part, delete, future, stray
    base_offset: int = -1
    epoch: int = -1
    position: int = -1
    time_ms: int = -1
    topic: str = ""
    partition: int = -1


def parse(name: str) -> Name | None:
    """Parse a name in a data directory or in a partition's directory; None if it is not ours.

    The caller checks whether it is a file or a directory: only the name is known here.
    """
    if name in _FILES:
        return Name(kind=Kind.FILE, file=name)
    if match := _SEGMENT.fullmatch(name):
        base = int(match["base"])
        if base > OFFSET_MAX:
            return None
        return Name(
            kind=Kind.SEGMENT,
            base_offset=base,
            file=match["file"],
            transit=match["transit"] or "",
        )
    if name.endswith(".tmp"):
        inner = parse(name[:-4])
        if inner is None or inner.kind in (Kind.PARTITION, Kind.MOVED_PARTITION, Kind.TEMPORARY):
            return None
        return Name(kind=Kind.TEMPORARY, file=name[:-4], base_offset=inner.base_offset)
    return _parse_directory(name) or _parse_rare(name)


def _parse_directory(name: str) -> Name | None:
    """Parse the directory name of a log, or of one that is being deleted or moved."""
    if len(name) > DIRECTORY_NAME_MAX:
        return None
    match = _PARTITION.fullmatch(name)
    kind, transit = Kind.PARTITION, ""
    if match is None:
        match = _MOVED_PARTITION.fullmatch(name)
        if match is None:
            return None
        kind, transit = Kind.MOVED_PARTITION, match["transit"]
    topic, partition = match["topic"], int(match["partition"])
    if partition > PARTITION_MAX or topic in (".", ".."):
        return None
    return Name(kind=kind, topic=topic, partition=partition, transit=transit)


def _parse_rare(name: str) -> Name | None:
    """Parse the name of quarantined bytes or of a metadata snapshot."""
    if match := _QUARANTINE.fullmatch(name):
        return Name(
            kind=Kind.QUARANTINE,
            base_offset=int(match["base"]),
            position=int(match["position"]),
            time_ms=int(match["time"]),
        )
    if match := _METADATA_SNAPSHOT.fullmatch(name):
        return Name(
            kind=Kind.METADATA_SNAPSHOT,
            base_offset=int(match["offset"]),
            epoch=int(match["epoch"]),
            transit=match["transit"] or "",
        )
    return None


def segment_file(base_offset: int, file: str, transit: str = "") -> str:
    """Name of a segment's file: 20 digits, its kind, and `transit` if it has any."""
    name = f"{base_offset:020d}.{file}"
    return f"{name}.{transit}" if transit else name


def log_name(base_offset: int) -> str:
    """Name of the file of batches."""
    return f"{base_offset:020d}.{LOG}"


def offset_index_name(base_offset: int) -> str:
    """Name of the sparse index from offset to position."""
    return f"{base_offset:020d}.{OFFSET_INDEX}"


def time_index_name(base_offset: int) -> str:
    """Name of the sparse index from timestamp to offset."""
    return f"{base_offset:020d}.{TIME_INDEX}"


def transaction_index_name(base_offset: int) -> str:
    """Name of the list of aborted transactions."""
    return f"{base_offset:020d}.{TRANSACTION_INDEX}"


def snapshot_name(offset: int) -> str:
    """Name of Kafka's snapshot of the producers at that end offset."""
    return f"{offset:020d}.{SNAPSHOT}"


def producers_name(offset: int) -> str:
    """Name of our own addition to the snapshot of that offset."""
    return f"{offset:020d}.{PRODUCERS}"


def deleted(name: str) -> str:
    """Name of a segment's file that waits to be unlinked."""
    return f"{name}.{DELETED}"


def quarantine_name(base_offset: int, position: int, unix_ms: int) -> str:
    """Name of the file for bytes that recovery cut off a log file at `position`."""
    return f"{base_offset:020d}.{LOG}.{position}.{unix_ms}.quarantine"


def metadata_snapshot_name(end_offset: int, epoch: int) -> str:
    """Name of a snapshot of the metadata log (Kafka's Snapshots.filenameFromSnapshotId)."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def partition_directory(topic: str, partition: int) -> str:
    """Name of the directory of one log."""
    return f"{topic}-{partition}"


def deleted_directory(topic: str, partition: int, unique_hex: str) -> str:
    """Name of a log's directory that waits to be removed; `unique_hex` is 32 hex digits.

    A topic name that is too long is cut, as in Kafka's LocalLog.logDeleteDirName.
    """
    suffix = f"-{partition}.{unique_hex}-delete"
    return topic[: DIRECTORY_NAME_MAX - len(suffix)] + suffix
