"""`verify`'s way through what it was given: a data directory, a partition, or single files.

A data directory is checked from the top: whose it is, how its broker ended, the checkpoints, the
metadata log with its snapshots, then every log, and that each partition of the metadata log has
its directory. Nothing is opened for writing, and the broker's lock is asked after, never taken.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from broker.metadata.image import ClusterImage
from broker.metadata.image_loading import read_snapshot, replay
from broker.metadata.metadata_log import METADATA_TOPIC_ID
from client.files.findings import RESET, Report
from client.files.lock import holder_of
from client.files.verify_partition import CLEAN, CRASHED, RUNNING, Expected, PartitionCheck
from storage.errors import CheckpointError, CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.filenames import Kind
from storage.files.filesystem import OsFileSystem
from storage.files.text_files import Offsets, read_offsets, uuid_text

_CLEAN_MARKER = re.compile(rb'\{"version":0,"brokerEpoch":-?[0-9]{1,19}\}')
COMPACTED_ALWAYS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
# Kafka makes these files when it starts, and writes them when it has something to say.
_EMPTY_AT_FIRST = (filenames.CLEANER_CHECKPOINT, filenames.REPLICATION_CHECKPOINT)
_IDS = {filenames.METADATA_TOPIC: METADATA_TOPIC_ID}
_RESERVED_UUIDS = 100  # Kafka's: unassigned, lost, migrating and the like
_METADATA_REMEDY = (
    "Keep a copy of the directory. Restore __cluster_metadata-0 from a backup: without it the "
    "broker does not know its topics, and refuses to start"
)


class NotVerifiable(Exception):
    """The path is none that can be checked; the text says what can."""


@dataclass(slots=True, kw_only=True)
class Home:
    """What a data directory says about all of its logs."""

    path: str
    ending: str = CRASHED
    holder: int = 0  # process id of the broker that runs on it; 0: none
    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)
    cleaned: Offsets = field(default_factory=dict)  # what Kafka has compacted
    image: ClusterImage | None = None
    all_compacted: bool = False

    def expected(self, topic: str, partition: int) -> Expected:
        """What there should be in the directory of one log."""
        known = self.image.topics.get(topic) if self.image else None
        configs = dict(known.configs) if known else {}
        defaults = self.image.broker_configs.get("", {}) if self.image else {}
        policy = configs.get("cleanup.policy", defaults.get("log.cleanup.policy", "delete"))
        return Expected(
            ending=self.ending,
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


class Verification:
    """A run over some paths, into one report."""

    def __init__(
        self,
        *,
        open_records: bool = False,
        all_compacted: bool = False,
        progress: Callable[[int], None] = lambda _count: None,
        began: Callable[[str], None] = lambda _path: None,
    ) -> None:
        self.report = Report()
        self.holder = 0
        self._filesystem = OsFileSystem()
        self._open_records = open_records
        self._all_compacted = all_compacted
        self._progress = progress
        self._began = began

    def run(self, paths: Iterable[str]) -> Report:
        """Check everything. Raises NotVerifiable and OSError."""
        for path in paths:
            if not os.path.isdir(path):
                self._file(path)
            elif is_data_directory(path):
                self._data_directory(path)
            elif filenames.parse(os.path.basename(os.path.abspath(path))) or _has_segments(path):
                self._partition(os.path.abspath(path), self._home_of(os.path.abspath(path)))
            else:
                raise NotVerifiable(
                    f"{path}: neither a data directory (no meta.properties) nor a partition's "
                    "(no <20 digits>.log); give the directory that log.dirs names"
                )
        return self.report

    def _file(self, path: str) -> None:
        name = filenames.parse(os.path.basename(path))
        if not os.path.exists(path):
            raise NotVerifiable(f"{path}: no such file or directory")
        directory = os.path.dirname(os.path.abspath(path))
        if name is not None and name.kind is Kind.METADATA_SNAPSHOT:
            self._metadata_snapshot(path)
            return
        if name is None or name.kind is not Kind.SEGMENT or name.transit:
            raise NotVerifiable(
                f"{path}: wanted a directory, a segment's file (<20 digits>.log, .index, "
                ".timeindex, .snapshot, .producers, .txnindex) or a metadata snapshot"
            )
        expected = Expected(
            ending=self._home_of(directory).ending,
            is_whole=False,
            bases=frozenset([name.base_offset]),
        )
        self._check(directory, expected)

    def _check(self, directory: str, expected: Expected) -> int:
        self._began(directory)
        check = PartitionCheck(
            self.report, directory, expected,
            open_records=self._open_records, progress=self._progress,
        )  # fmt: skip
        return check.run()

    def _partition(self, directory: str, home: Home) -> int:
        name = filenames.parse(os.path.basename(directory))
        if name is None or name.kind is not Kind.PARTITION:
            return self._check(
                directory, Expected(ending=home.ending, is_compacted=self._all_compacted)
            )
        return self._check(directory, home.expected(name.topic, name.partition))

    def _home_of(self, directory: str) -> Home:
        """The data directory around a partition, if there is one; told of no damage of its own."""
        parent = os.path.dirname(directory)
        if not is_data_directory(parent):
            return Home(path=parent, all_compacted=self._all_compacted)
        quiet = Verification(all_compacted=self._all_compacted)
        home = quiet._read_home(parent)
        quiet._metadata_log(home)
        self.holder = self.holder or home.holder
        return home

    def _data_directory(self, path: str) -> None:
        home = self._read_home(path)
        self.holder = self.holder or home.holder
        self._metadata_log(home)
        self._meta_properties(home)
        self._clean_marker(path)
        logs = {}
        for base_name in self._filesystem.list(path):
            name = filenames.parse(base_name)
            full = os.path.join(path, base_name)
            if name is None:
                self.report.note(
                    "unknown", full, "not a name of a data directory", "the broker leaves it alone"
                )
            elif name.kind is Kind.PARTITION and os.path.isdir(full):
                logs[name.topic, name.partition] = full
        for key, full in sorted(logs.items()):
            self._note_stray(home, key, full)
            self._partition(full, home)
        self._missing_logs(home, logs)
        self._points_of_nobody(home, logs)
        bootstrap = os.path.join(path, filenames.BOOTSTRAP_CHECKPOINT)
        if os.path.exists(bootstrap):
            self._metadata_snapshot(bootstrap)

    def _read_home(self, path: str) -> Home:
        home = Home(path=path, all_compacted=self._all_compacted)
        home.holder = holder_of(os.path.join(path, filenames.LOCK))
        if home.holder:
            home.ending = RUNNING
        elif os.path.exists(os.path.join(path, filenames.CLEAN_SHUTDOWN)):
            home.ending = CLEAN
        home.recovery_points = self._offsets(path, filenames.RECOVERY_POINT_CHECKPOINT)
        home.log_starts = self._offsets(path, filenames.LOG_START_CHECKPOINT)
        home.cleaned = self._offsets(path, filenames.CLEANER_CHECKPOINT)
        self._offsets(path, filenames.REPLICATION_CHECKPOINT)
        if not home.recovery_points and home.ending == CLEAN:
            self._missing_checkpoint(path)
        return home

    def _offsets(self, directory: str, name: str) -> Offsets:
        path = os.path.join(directory, name)
        if name in _EMPTY_AT_FIRST and os.path.exists(path) and not os.path.getsize(path):
            return {}
        try:
            found = read_offsets(self._filesystem, path)
        except CheckpointError as error:
            self.report.cache(
                "checkpoint", path, str(error), "the next start takes longer", remedy=RESET
            )
            return {}
        if self._filesystem.exists(path):
            self.report.file_count += 1
        return found

    def _missing_checkpoint(self, directory: str) -> None:
        path = os.path.join(directory, filenames.RECOVERY_POINT_CHECKPOINT)
        has_logs = any(
            (name := filenames.parse(base)) is not None and name.kind is Kind.PARTITION
            for base in os.listdir(directory)
            if base != filenames.METADATA_DIRECTORY
        )
        if has_logs and not os.path.exists(path):
            self.report.cache(
                "missing", path, "the file is missing", "the next start takes longer",
                remedy="Start the broker: it writes the file",
            )  # fmt: skip

    def _clean_marker(self, directory: str) -> None:
        path = os.path.join(directory, filenames.CLEAN_SHUTDOWN)
        if not os.path.exists(path):
            return
        text = self._filesystem.read(path)
        self.report.file_count += 1
        if text and not _CLEAN_MARKER.fullmatch(text):
            self.report.cache(
                "checkpoint", path, f"holds {text[:60]!r}, wanted {{\"version\":0,…}}",
                "Kafka cannot read its broker epoch from it", remedy=RESET,
            )  # fmt: skip

    def _points_of_nobody(self, home: Home, logs: dict[tuple[str, int], str]) -> None:
        if home.ending != CLEAN:
            return
        for offsets, name in (
            (home.recovery_points, filenames.RECOVERY_POINT_CHECKPOINT),
            (home.log_starts, filenames.LOG_START_CHECKPOINT),
        ):
            for topic, partition in sorted(set(offsets) - set(logs)):
                self.report.cache(
                    "checkpoint", os.path.join(home.path, name),
                    f"names {topic}-{partition}, which has no directory",
                    "either the file or a directory is not what it was", remedy=RESET,
                )  # fmt: skip

    def _meta_properties(self, home: Home) -> None:
        path = os.path.join(home.path, filenames.META_PROPERTIES)
        try:
            found = meta_properties.read(self._filesystem, path)
        except CorruptMetadata as error:
            self._identity(path, str(error))
            return
        if found is None:
            self._identity(path, "the file is missing")
        else:
            self.report.file_count += 1
            self._check_directory_id(home, path, found.node_id, found.directory_id)

    def _check_directory_id(
        self, home: Home, path: str, node_id: int, directory_id: bytes | None
    ) -> None:
        """The metadata log has the directory of each replica: it must be this one."""
        partitions = [
            one
            for topic in (home.image.topics.values() if home.image else ())
            for one in topic.partitions
        ]
        if partitions and all(node_id not in one.replicas for one in partitions):
            self._identity(path, f"node.id={node_id}, which holds no replica in the metadata log")
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
        self.report.damage(
            "identity", path, found, "the broker cannot tell whose directory this is",
            remedy="Restore it: version=1, and the cluster.id, node.id and directory.id that the "
            "broker's first log line or a backup has",
        )  # fmt: skip

    def _metadata_log(self, home: Home) -> None:
        directory = os.path.join(home.path, filenames.METADATA_DIRECTORY)
        if not os.path.isdir(directory):
            self.report.damage(
                "metadata", directory, "the directory is missing",
                "the broker does not know its topics", remedy=_METADATA_REMEDY,
            )  # fmt: skip
            return
        try:
            point = home.recovery_points.get((filenames.METADATA_TOPIC, 0), 0)
            result = replay(self._filesystem, directory, recovery_point=point)
            home.image = result.image
        except CorruptMetadata as error:
            self.report.damage(
                "metadata", error.path, error.reason, "the broker refuses to start",
                remedy=_METADATA_REMEDY,
            )  # fmt: skip
        else:
            for warning in result.warnings:
                self.report.note("metadata", directory, warning, "it is not needed")
        for base_name in self._filesystem.list(directory):
            name = filenames.parse(base_name)
            if name and name.kind is Kind.METADATA_SNAPSHOT and not name.transit:
                self._metadata_snapshot(os.path.join(directory, base_name))
        self._quorum_state(os.path.join(directory, filenames.QUORUM_STATE))

    def _metadata_snapshot(self, path: str) -> None:
        self.report.file_count += 1
        try:
            read_snapshot(self._filesystem, path)
        except CorruptMetadata as error:
            self.report.damage(
                "metadata", path, error.reason,
                "what the snapshot stands for can only be read from the log before it, if that "
                "is still there", remedy=_METADATA_REMEDY,
            )  # fmt: skip

    def _quorum_state(self, path: str) -> None:
        try:
            state = json.loads(self._filesystem.read(path))
        except FileNotFoundError:
            return
        except ValueError as error:
            state = str(error)
        self.report.file_count += 1
        if not isinstance(state, dict) or "leaderEpoch" not in state:
            self.report.cache(
                "checkpoint", path, f"not Kafka's quorum state: {str(state)[:80]}",
                "only Kafka reads it, and does not start with it",
                remedy="Delete the file before a Kafka is started on the directory",
            )  # fmt: skip

    def _note_stray(self, home: Home, key: tuple[str, int], path: str) -> None:
        topic, partition = key
        if home.image is None or topic == filenames.METADATA_TOPIC:
            return
        known = home.image.topics.get(topic)
        if known is None or all(one.partition != partition for one in known.partitions):
            self.report.note(
                "stray", path, "the metadata log knows no such partition",
                "the broker leaves it alone; its records are served to nobody",
                remedy="Delete the directory if the topic was deleted",
            )  # fmt: skip

    def _missing_logs(self, home: Home, logs: dict[tuple[str, int], str]) -> None:
        if home.image is None or home.ending == RUNNING:
            return
        wanted = {
            (topic.name, one.partition)
            for topic in home.image.topics.values()
            for one in topic.partitions
        }
        for topic, partition in sorted(wanted - set(logs)):
            path = os.path.join(home.path, filenames.partition_directory(topic, partition))
            point = home.recovery_points.get((topic, partition), 0)
            if point or home.ending == CLEAN:
                self.report.damage(
                    "missing", path, "the directory is missing",
                    f"its records up to offset {point} are gone" if point else
                    "the metadata log has this partition",
                    remedy="Restore the directory from a backup; else the broker begins it anew",
                )  # fmt: skip


def is_data_directory(path: str) -> bool:
    """Whether a path is what log.dirs names."""
    return any(
        os.path.exists(os.path.join(path, name))
        for name in (filenames.META_PROPERTIES, filenames.METADATA_DIRECTORY)
    )


def _has_segments(path: str) -> bool:
    return any(
        (name := filenames.parse(base)) is not None and name.kind is Kind.SEGMENT
        for base in os.listdir(path)
    )


def log_bytes(paths: Iterable[str]) -> int:
    """Sum up the `.log` files below some paths: what a progress bar goes to."""
    total = 0
    for path in paths:
        if os.path.isfile(path):
            total += os.path.getsize(path) if path.endswith(".log") else 0
        for directory, _, names in os.walk(path):
            for name in names:
                if name.endswith(".log"):
                    try:
                        total += os.path.getsize(os.path.join(directory, name))
                    except FileNotFoundError:
                        continue
    return total
