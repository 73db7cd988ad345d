"""What a data directory says about itself: its identity, how its broker ended, and its logs.

The checkpoints, `meta.properties` and the metadata log must agree with each other and with the
directories of the partitions. `Home.expected` is what they say about one log, with which
`verify_partition` compares it. Who holds the broker's lock is asked; the lock is never taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.metadata.image import ClusterImage, PartitionInfo
from broker.metadata.leadership import may_be_elsewhere
from broker.metadata.metadata_log import METADATA_TOPIC_ID
from client.files.findings import RESET, Report
from client.files.verify_expected import CLEAN, CRASHED, RUNNING, Expected
from client.files.verify_metadata import MetadataCheck
from storage.errors import CheckpointError, CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem
from storage.files.meta_properties import MetaProperties
from storage.files.text_files import Offsets, read_offsets, uuid_text

_CLEAN_MARKER = re.compile(rb'\{"version":0,"brokerEpoch":-?[0-9]{1,19}\}')
COMPACTED_ALWAYS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
# Kafka creates these empty when it starts, and fills them later.
_EMPTY_AT_FIRST = (filenames.CLEANER_CHECKPOINT, filenames.REPLICATION_CHECKPOINT)
_IDS = {filenames.METADATA_TOPIC: METADATA_TOPIC_ID}
_RESERVED_UUIDS = 100  # Kafka's: unassigned, lost, migrating and the like


@dataclass(slots=True, kw_only=True)
class Home:
    """What a data directory says about all of its logs."""

    path: str
    ending: str = CRASHED
    holder: int | None = None  # id of the broker's process; 0 if in another container
    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)
    cleaned: Offsets = field(default_factory=dict)  # which logs Kafka has compacted
    image: ClusterImage | None = None
    meta: MetaProperties | None = None
    all_compacted: bool = False

    def is_stray(self, topic: str, partition: int) -> bool:
        """Whether the metadata log has no such partition."""
        if self.image is None or topic == filenames.METADATA_TOPIC:
            return False
        known = self.image.topics.get(topic)
        return known is None or all(one.partition != partition for one in known.partitions)

    def expected(self, topic: str, partition: int) -> Expected:
        """Return what is expected of one log's directory."""
        known = self.image.topics.get(topic) if self.image else None
        configs = dict(known.configs) if known else {}
        defaults = self.image.broker_configs.get("", {}) if self.image else {}
        policy = configs.get("cleanup.policy", defaults.get("log.cleanup.policy", "delete"))
        # No broker has closed a stray: it is as a crash left it, or was put there.
        is_left = self.ending == CLEAN and self.is_stray(topic, partition)
        return Expected(
            ending=CRASHED if is_left else self.ending,
            recovery_point=self.recovery_points.get((topic, partition)),
            log_start=self.log_starts.get((topic, partition)),
            topic_id=known.topic_id if known else _IDS.get(topic),
            leader_epoch=max(
                (one.leader_epoch for one in known.partitions if one.partition == partition),
                default=-1,
            )
            if known
            else -1,
            has_points=bool(self.recovery_points) and topic != filenames.METADATA_TOPIC,
            is_compacted=self.all_compacted
            or "compact" in policy
            or (topic, partition) in self.cleaned
            or topic in COMPACTED_ALWAYS,
        )


class HomeCheck:
    """The check of one data directory, without its logs; `read` comes first."""

    def __init__(
        self, report: Report, filesystem: FileSystem, path: str, *, all_compacted: bool
    ) -> None:
        self._report = report
        self._filesystem = filesystem
        self._home = Home(path=path, all_compacted=all_compacted)

    def read(self) -> Home:
        """Read how the broker ended, the checkpoints and the metadata log."""
        home, path = self._home, self._home.path
        home.holder = self._filesystem.lock_holder(os.path.join(path, filenames.LOCK))
        if home.holder is not None:
            home.ending = RUNNING
        elif self._filesystem.exists(os.path.join(path, filenames.CLEAN_SHUTDOWN)):
            home.ending = CLEAN
        home.recovery_points = self._offsets(filenames.RECOVERY_POINT_CHECKPOINT)
        home.log_starts = self._offsets(filenames.LOG_START_CHECKPOINT)
        home.cleaned = self._offsets(filenames.CLEANER_CHECKPOINT)
        self._offsets(filenames.REPLICATION_CHECKPOINT)
        if not home.recovery_points and home.ending == CLEAN:
            self._missing_checkpoint()
        point = home.recovery_points.get((filenames.METADATA_TOPIC, 0), 0)
        home.image = MetadataCheck(self._report, self._filesystem).log(path, point)
        return home

    def _offsets(self, name: str) -> Offsets:
        path = os.path.join(self._home.path, name)
        if (
            name in _EMPTY_AT_FIRST
            and self._filesystem.exists(path)
            and not self._filesystem.size(path)
        ):
            return {}
        try:
            found = read_offsets(self._filesystem, path)
        except CheckpointError as error:
            self._report.cache(
                "checkpoint", path, str(error), "the next start takes longer", remedy=RESET
            )
            return {}
        if self._filesystem.exists(path):
            self._report.file_count += 1
        return found

    def _missing_checkpoint(self) -> None:
        directory = self._home.path
        path = os.path.join(directory, filenames.RECOVERY_POINT_CHECKPOINT)
        has_logs = any(
            (name := filenames.parse(base)) is not None and name.kind is Kind.PARTITION
            for base in self._filesystem.list(directory)
            if base != filenames.METADATA_DIRECTORY
        )
        if has_logs and not self._filesystem.exists(path):
            self._report.cache(
                "missing", path, "the file is missing", "the next start takes longer",
                remedy="Start the broker: it writes the file",
            )  # fmt: skip

    def clean_marker(self) -> None:
        """Check the marker of a clean stop."""
        path = os.path.join(self._home.path, filenames.CLEAN_SHUTDOWN)
        if not self._filesystem.exists(path):
            return
        text = self._filesystem.read(path)
        self._report.file_count += 1
        if text and not _CLEAN_MARKER.fullmatch(text):
            self._report.cache(
                "checkpoint", path, f"contains {text[:60]!r}, expected {{\"version\":0,…}}",
                "Kafka cannot read its broker epoch from it", remedy=RESET,
            )  # fmt: skip

    def points_of_nobody(self, logs: Mapping[tuple[str, int], str]) -> None:
        """Report checkpoints for logs that have no directory."""
        home = self._home
        if home.ending != CLEAN:
            return
        for offsets, name in (
            (home.recovery_points, filenames.RECOVERY_POINT_CHECKPOINT),
            (home.log_starts, filenames.LOG_START_CHECKPOINT),
        ):
            for topic, partition in sorted(set(offsets) - set(logs)):
                self._report.cache(
                    "checkpoint", os.path.join(home.path, name),
                    f"names {topic}-{partition}, which has no directory",
                    "the file was changed, or the directory removed", remedy=RESET,
                )  # fmt: skip

    def meta_properties(self) -> None:
        """Check the directory's identity, by itself and by the metadata log."""
        path = os.path.join(self._home.path, filenames.META_PROPERTIES)
        try:
            found = meta_properties.read(self._filesystem, path)
        except CorruptMetadata as error:
            self._identity(path, str(error))
            return
        if found is None:
            self._identity(path, "the file is missing")
        else:
            self._report.file_count += 1
            self._home.meta = found
            self._check_directory_id(path, found.node_id, found.directory_id)

    def _check_directory_id(self, path: str, node_id: int, directory_id: bytes | None) -> None:
        """The metadata log names the directory of each replica: it must be this one."""
        image = self._home.image
        partitions = [
            one for topic in (image.topics.values() if image else ()) for one in topic.partitions
        ]
        if partitions and all(node_id not in one.replicas for one in partitions):
            self._identity(path, f"node.id={node_id}, which has no replica in the metadata log")
            return
        named = {one.directory_of(node_id) for one in partitions if node_id in one.replicas}
        named = {one for one in named if int.from_bytes(one, "big") >= _RESERVED_UUIDS}
        if named and directory_id not in named:
            texts = ", ".join(sorted(uuid_text(one) for one in named))
            self._identity(
                path,
                f"directory.id={uuid_text(directory_id) if directory_id else '(none)'}, "
                f"the metadata log says {texts}",
            )

    def _identity(self, path: str, found: str) -> None:
        self._report.damage(
            "identity", path, found, "the broker cannot identify the directory",
            remedy="Restore it: version=1, and the cluster.id, node.id and directory.id of the "
            "broker's first log line or of a backup",
        )  # fmt: skip

    def note_stray(self, topic: str, partition: int, path: str) -> None:
        """Note a partition's directory that is not in the metadata log."""
        if self._home.is_stray(topic, partition):
            self._report.note(
                "stray", path, "the metadata log has no such partition",
                "the next start puts it aside; its records are not served",
                remedy="Delete the directory if the topic was deleted",
            )  # fmt: skip

    def note_put_aside(self, path: str) -> None:
        """Note a directory that the broker has put aside."""
        self._report.note(
            "stray", path, "put aside, because it belonged to no topic of the metadata log",
            "the broker ignores it; its records are not served",
            remedy="Move the directory away, or delete it",
        )  # fmt: skip

    def missing_logs(self, logs: Mapping[tuple[str, int], str]) -> None:
        """Report partitions in the metadata log that have no directory."""
        home = self._home
        if home.image is None or home.ending == RUNNING:
            return
        # Kafka's other nodes and log directories have the others.
        wanted = {
            (topic.name, one.partition)
            for topic in home.image.topics.values()
            for one in topic.partitions
            if home.meta is None or _is_here(one, home.meta)
        }
        for topic, partition in sorted(wanted - set(logs)):
            path = os.path.join(home.path, filenames.partition_directory(topic, partition))
            point = home.recovery_points.get((topic, partition), 0)
            if point or home.ending == CLEAN:
                self._report.damage(
                    "missing", path, "the directory is missing",
                    f"its records up to offset {point} are gone" if point else
                    "the metadata log has this partition",
                    remedy="Restore the directory from a backup; otherwise the broker creates an "
                    "empty one",
                )  # fmt: skip


def _is_here(partition: PartitionInfo, meta: MetaProperties) -> bool:
    """Whether the metadata log says that this directory has the partition, or may have it."""
    if meta.node_id not in partition.replicas:
        return False
    own = meta.directory_id
    return own is None or not may_be_elsewhere(partition, meta.node_id, own)


def is_data_directory(filesystem: FileSystem, path: str) -> bool:
    """Whether a path is a directory that log.dirs can name."""
    return any(
        filesystem.exists(os.path.join(path, name))
        for name in (filenames.META_PROPERTIES, filenames.METADATA_DIRECTORY)
    )
