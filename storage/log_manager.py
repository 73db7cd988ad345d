"""All logs of one data directory: who they are, where they stand, and how they begin and end.

    open()        lock the directory, read (or make) meta.properties, note whether the last stop
                  was clean and take that note away, read the checkpoints
    open_log()    one log at a time, as the metadata asks for them; recovery where it is due
    …             begin_write_checkpoints, purge_deleted, create, delete
    close()       flush and checkpoint every log; only when all went well, leave the clean mark

The mark is removed, durably, before the first log is loaded: whatever ends the process from then
on, the next start takes it for a crash (KAFKA-10471). Checkpoint files are caches: garbage in one
is reported and counts as nothing. Directories that nobody asked for are strays: reported, never
touched. Of meta.properties alone the broker cannot do without: unreadable, it does not start.
"""

from __future__ import annotations

import logging
import posixpath
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from config.topic import TopicConfig
from storage import filenames, meta_properties
from storage.checkpoints import (
    NO_BROKER_EPOCH,
    Offsets,
    differ_in_a_character,
    encode_clean_shutdown,
    encode_partition_metadata,
    make_partition_directory,
    read_offsets,
    read_partition_metadata,
    uuid_text,
    write_offsets,
)
from storage.errors import CheckpointError, CorruptMetadata, StorageError, UnknownPartition
from storage.filenames import Kind
from storage.filesystem import FileSystem, LockHandle
from storage.home import Home
from storage.log import Log
from storage.log_loading import Origin, load_log
from storage.meta_properties import MetaProperties, random_uuid
from storage.open_files import OpenFiles
from storage.recovery import RecoveryReport

_log = logging.getLogger("barnabas.storage")

DEFAULT_NODE_ID = 1
OPEN_FILES_UNLIMITED = 100_000  # where the system sets no limit, a bound all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """What a manager is told. `random_bytes` is os.urandom in life."""

    random_bytes: Callable[[int], bytes]
    open_files_max: int = 0  # 0: three quarters of what the system allows the process
    producer_expiration_ms: int = 24 * 60 * 60 * 1000  # Kafka's producer.id.expiration.ms
    node_id: int | None = None
    cluster_id: str | None = None  # for a new directory; None draws one


class LogManager:
    """The logs of `data_directory`. `now_ms` gives the wall clock's time."""

    def __init__(
        self,
        filesystem: FileSystem,
        data_directory: str,
        settings: ManagerSettings,
        now_ms: Callable[[], int],
    ) -> None:
        self.filesystem = filesystem
        self.data_directory = data_directory
        self.settings = settings
        self.now_ms = now_ms
        self.home = Home(
            filesystem,
            OpenFiles(filesystem, settings.open_files_max or _open_files_allowed()),
            settings.producer_expiration_ms,
        )
        self.logs: dict[tuple[str, int], Log] = {}
        self.reports: list[RecoveryReport] = []  # of the logs that had something to say
        self.warnings: list[str] = []
        self.was_clean = False
        self.is_new = False
        self.meta: MetaProperties
        self._lock: LockHandle | None = None
        self._recovery_points: Offsets = {}
        self._log_starts: Offsets = {}
        self._cleaned_offsets: Offsets = {}
        self._written: dict[str, Offsets | None] = {}  # by file name; None: unreadable
        self._captured: dict[str, Offsets] = {}  # written, or about to be
        self._changes_written = -1
        self._write_lock = threading.Lock()
        self._trashed_directories: list[tuple[int, str]] = []

    # -- Begin --------------------------------------------------------------------------------

    def open(self) -> None:
        """Take possession of the directory, making it if need be.

        Raises DirectoryLocked, CorruptMetadata, OSError: then nothing was changed but that the
        directory and its lock file may have been made.
        """
        self._make_directory(self.data_directory)
        self._lock = self.filesystem.lock(self._path(filenames.LOCK))
        try:
            self._open_meta()
            marker = self._path(filenames.CLEAN_SHUTDOWN)
            self.was_clean = self.is_new or self.filesystem.exists(marker)
            self._recovery_points = self._read_checkpoint(filenames.RECOVERY_POINT_CHECKPOINT)
            self._log_starts = self._read_checkpoint(filenames.LOG_START_CHECKPOINT)
            self._cleaned_offsets = self._read_checkpoint(filenames.CLEANER_CHECKPOINT)
            if self.filesystem.exists(marker):
                self.filesystem.unlink(marker)
            # Also the names of logs that a killed process made and never flushed: recovery is
            # about to call what is in them durable.
            self.filesystem.sync_directory(self.data_directory)
        except BaseException:
            self.abandon()
            raise
        if not self.was_clean:
            self._warn(
                f"Recovering {len(self._names(Kind.PARTITION))} logs from {self.data_directory} "
                "since no clean shutdown file was found"
            )
        for name in self._names(Kind.MOVED_PARTITION):
            if name.endswith("-delete"):
                self._trashed_directories.append((self.now_ms(), self._path(name)))

    def _make_directory(self, path: str) -> None:
        if self.filesystem.exists(path):
            return
        parent = posixpath.dirname(posixpath.abspath(path))
        self._make_directory(parent)
        self.filesystem.mkdir(path)
        self.filesystem.sync_directory(parent)

    def _open_meta(self) -> None:
        path = self._path(filenames.META_PROPERTIES)
        meta = meta_properties.read(self.filesystem, path)
        wanted = self.settings.node_id
        if meta is None:
            partitions = self._names(Kind.PARTITION)
            if partitions:
                raise CorruptMetadata(
                    path,
                    f"missing, but {partitions[0]} and perhaps others are there: restore it from "
                    "a backup, or start on an empty directory",
                )
            self.is_new = True
            self.meta = MetaProperties(
                cluster_id=self.settings.cluster_id or uuid_text(self._random_uuid()),
                node_id=DEFAULT_NODE_ID if wanted is None else wanted,
                directory_id=self._random_uuid(),
            )
            meta_properties.write(self.filesystem, path, self.meta)
            return
        if wanted is not None and meta.node_id != wanted:
            raise CorruptMetadata(
                path, f"node.id={meta.node_id}, but the configuration says {wanted}: change one"
            )
        if meta.directory_id is None:
            meta = MetaProperties(
                cluster_id=meta.cluster_id,
                node_id=meta.node_id,
                directory_id=self._random_uuid(),
            )
            meta_properties.write(self.filesystem, path, meta)
        self.meta = meta

    def _random_uuid(self) -> bytes:
        return random_uuid(self.settings.random_bytes)

    def _read_checkpoint(self, name: str) -> Offsets:
        path = self._path(name)
        try:
            offsets = self._written[name] = read_offsets(self.filesystem, path)
            return dict(offsets)
        except (CheckpointError, OSError) as error:
            self._warn(
                f"Error occurred while reading {name} file {path}, resetting the checkpoint "
                f"to 0: {error}"
            )
            self._written[name] = None
            return {}

    def _path(self, name: str) -> str:
        return posixpath.join(self.data_directory, name)

    def _names(self, kind: Kind) -> list[str]:
        found = []
        for name in self.filesystem.list(self.data_directory):
            parsed = filenames.parse(name)
            if parsed is not None and parsed.kind is kind:
                found.append(name)
        return found

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        _log.warning("%s", text)

    # -- Logs ---------------------------------------------------------------------------------

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended to any log that no fsync has covered yet."""
        return self.home.unflushed_bytes

    def __len__(self) -> int:
        return len(self.logs)

    def all(self) -> list[Log]:
        """All open logs, as of now."""
        return list(self.logs.values())

    def get(self, topic: str, partition: int) -> Log:
        """Return an open log. Raises UnknownPartition."""
        try:
            return self.logs[topic, partition]
        except KeyError:
            raise UnknownPartition(topic, partition) from None

    def has_directory(self, topic: str, partition: int) -> bool:
        """Whether a directory of that partition exists, open or not."""
        return self.filesystem.exists(self._path(filenames.partition_directory(topic, partition)))

    def recovery_point(self, topic: str, partition: int) -> int | None:
        """Return the recovery point that the checkpoint file had at start, if it had one."""
        return self._recovery_points.get((topic, partition))

    def open_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        leader_epoch: int,
        *,
        create: bool = False,
    ) -> Log:
        """Open a log, repairing it after an unclean stop; with `create`, make it if missing.

        A directory of that name that belongs to another topic id is, with `create`, put aside
        as `…-stray`. Raises UnknownPartition (missing), CorruptMetadata (another topic's),
        OSError, AppendFailed (no room to make it).
        """
        key = (topic, partition)
        assert key not in self.logs, f"{topic}-{partition} is open already"
        directory = self._path(filenames.partition_directory(topic, partition))
        is_new = not self.filesystem.exists(directory)
        if is_new and not create:
            raise UnknownPartition(topic, partition)
        if not is_new:
            is_new = self._check_topic_id(directory, topic, partition, topic_id, create=create)
        if is_new:
            self._forget_checkpoints(key)
            path = make_partition_directory(self.filesystem, directory, topic_id)
        origin = Origin(
            topic,
            partition,
            topic_id,
            directory,
            leader_epoch,
            self._recovery_points.get(key),
            self._log_starts.get(key),
            self.was_clean or is_new,
            self._cleaned_offsets.get(key, 0),
        )
        log, report = load_log(self.home, origin, config, self.now_ms())
        if is_new:
            log.note_created([path], [self.data_directory])
        self._report(report)
        self.logs[key] = log
        self._recovery_points.pop(key, None)  # from now on the log itself knows
        self._cleaned_offsets.pop(key, None)
        checkpointed_start = self._log_starts.pop(key, 0)
        self.home.checkpoint_changes += 1
        if checkpointed_start > log.start_offset:
            # It was beyond the end. Left there, it would hide what is appended from now on.
            self.write_checkpoints()
        return log

    def _forget_checkpoints(self, key: tuple[str, int]) -> None:
        """Let no checkpoint file say anything of a log that is about to be made.

        What one says is of an older log of that name. After a crash it would be taken for the
        new one's: its first records hidden, or not checked. Raises OSError.
        """
        self._recovery_points[key] = 0
        self._log_starts.pop(key, None)
        self._cleaned_offsets.pop(key, None)
        said = (*self._written.values(), *self._captured.values())
        if any(offsets is None or offsets.get(key) for offsets in said):
            self.home.checkpoint_changes += 1
            self.write_checkpoints()

    def _check_topic_id(
        self, directory: str, topic: str, partition: int, topic_id: bytes, *, create: bool
    ) -> bool:
        """Hold the directory's topic id against the metadata's; whether to make a new one."""
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        try:
            found = read_partition_metadata(self.filesystem, path)
        except (CheckpointError, OSError) as error:
            self._warn(f"{error}; written anew with the topic id of the metadata")
            found = None
        if found is not None and differ_in_a_character(found, topic_id):
            self._warn(f"{path} says {uuid_text(found)}, the metadata {uuid_text(topic_id)}: rot")
            found = None
        if found is None:
            self._write_topic_id(directory, topic_id)
            return False
        if found == topic_id:
            return False
        if not create:
            raise CorruptMetadata(
                path, f"topic id {uuid_text(found)}, the metadata says {uuid_text(topic_id)}"
            )
        stray = self._moved_name(topic, partition, "stray")
        self._warn(f"{directory} belongs to topic id {uuid_text(found)}: put aside as {stray}")
        self.filesystem.rename(directory, self._path(stray))
        self.filesystem.sync_directory(self.data_directory)
        return True

    def _write_topic_id(self, directory: str, topic_id: bytes) -> None:
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        self.filesystem.replace(path, encode_partition_metadata(topic_id))

    def _moved_name(self, topic: str, partition: int, transit: str) -> str:
        unique = self.settings.random_bytes(16).hex()
        name = filenames.deleted_directory(topic, partition, unique)
        return name.removesuffix("delete") + transit

    def _report(self, report: RecoveryReport) -> None:
        lines = report.lines()
        if lines:
            self.reports.append(report)
        for line in lines:
            _log.warning("%s", line)

    def delete_log(self, topic: str, partition: int) -> str:
        """Close a log and rename its directory to `…-delete`; returns the new path.

        The files go when the topic's file.delete.delay.ms is over (`purge_deleted`). Raises
        UnknownPartition; OSError, when the directory is left for the next start to find.
        """
        log = self.get(topic, partition)
        path = self._path(self._moved_name(topic, partition, "delete"))
        # Whatever fails below: it is no log any more, and another may take its name.
        log.close()
        del self.logs[topic, partition]
        self.home.checkpoint_changes += 1
        self._recovery_points.pop((topic, partition), None)
        self._log_starts.pop((topic, partition), None)
        self.filesystem.rename(log.directory, path)
        due_ms = self.now_ms() + log.config.file_delete_delay_ms
        self._trashed_directories.append((due_ms, path))
        # A compaction may have opened one of them since the log let go of it. Now none can.
        for name in self.filesystem.list(path):
            self.home.files.forget(posixpath.join(log.directory, name))
        self.filesystem.sync_directory(self.data_directory)
        return path

    def purge_deleted(self, now_ms: int) -> None:
        """Unlink the files and directories whose delay is over. Failures are reported."""
        for complaint in self.home.purge(now_ms):
            self._warn(complaint)
        due = [path for due_ms, path in self._trashed_directories if due_ms <= now_ms]
        self._trashed_directories = [item for item in self._trashed_directories if item[0] > now_ms]
        for path in due:
            try:
                for name in self.filesystem.list(path):
                    self.filesystem.unlink(posixpath.join(path, name))
                self.filesystem.rmdir(path)
            except OSError as error:
                self._warn(f"cannot delete {path}: {error}; it will be tried at the next start")

    def strays(self) -> list[str]:
        """Directories of partitions that nobody asked for, and foreign names: left alone."""
        found = []
        for name in self.filesystem.list(self.data_directory):
            parsed = filenames.parse(name)
            if parsed is None or (
                parsed.kind is Kind.PARTITION and (parsed.topic, parsed.partition) not in self.logs
            ):
                found.append(name)
        return found

    # -- Checkpoints and the end --------------------------------------------------------------

    def begin_write_checkpoints(self) -> Callable[[], None] | None:
        """Capture recovery points, log starts and how far compaction got; None if written already.

        The callable writes them, atomically and durably, and may run in another thread. Raises
        OSError there: the files are as they were.
        """
        changes = self.home.checkpoint_changes
        if changes == self._changes_written:
            return None
        # Those of logs that are not open, now or any more, are kept: they cost a line.
        points = self._recovery_points | {k: log.recovery_point for k, log in self.logs.items()}
        starts = self._log_starts | {
            key: log.start_offset for key, log in self.logs.items() if log.start_offset > 0
        }
        cleaned = self._cleaned_offsets | {
            key: log.segments.cleaned_offset
            for key, log in self.logs.items()
            if log.segments.cleaned_offset > 0
        }
        captured = self._captured = {
            filenames.RECOVERY_POINT_CHECKPOINT: points,
            filenames.LOG_START_CHECKPOINT: starts,
            filenames.CLEANER_CHECKPOINT: cleaned,
        }

        def write() -> None:
            with self._write_lock:
                if changes < self._changes_written:
                    return  # another thread has written a newer state
                for name, offsets in captured.items():
                    if offsets != self._written[name]:
                        write_offsets(self.filesystem, self._path(name), offsets)
                        self._written[name] = offsets
                self._changes_written = changes

        return write

    def write_checkpoints(self) -> None:
        """Write recovery points and log starts now. Raises OSError."""
        write = self.begin_write_checkpoints()
        if write is not None:
            write()

    def close(self, *, clean: bool, broker_epoch: int = NO_BROKER_EPOCH) -> bool:
        """Make everything durable and let go of the directory; whether the stop is clean.

        Call it when nothing is appended any more and no flush or checkpoint is under way. The
        clean mark is written last, and only if nothing failed; without `clean` it is not. A Kafka
        that starts here and finds its own `broker_epoch` in the mark need not elect leaders anew.
        """
        went_well = clean
        for log in self.logs.values():
            went_well &= self._close_log(log)
        try:
            self.write_checkpoints()
            if went_well:
                path = self._path(filenames.CLEAN_SHUTDOWN)
                self.filesystem.replace(path, encode_clean_shutdown(broker_epoch))
        except OSError as error:
            self._warn(f"the stop is not clean: {error}")
            went_well = False
        self.abandon()
        return went_well

    def _close_log(self, log: Log) -> bool:
        """Flush and checkpoint one log; whether its recovery point is its end now."""
        try:
            for job, finish in _last_jobs(log):
                error: OSError | None = None
                try:
                    job()
                except OSError as caught:
                    error = caught
                finish(error)
        except (OSError, StorageError) as error:
            self._warn(f"{log.directory} could not be closed cleanly: {error}")
            return False
        if log.failed is not None or log.recovery_point != log.end_offset:
            self._warn(f"{log.directory} was not closed cleanly: {log.failed or 'see above'}")
            return False
        return True

    def abandon(self) -> None:
        """Let go of the directory as a crash would: nothing is written."""
        self.home.files.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _open_files_allowed() -> int:
    """Three quarters of the descriptors this process may have; the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft * 3 // 4


def _last_jobs(
    log: Log,
) -> Iterator[tuple[Callable[[], None], Callable[[OSError | None], object]]]:
    flush = log.begin_flush()
    if flush is not None:
        yield flush.run, lambda error: log.finish_flush(flush, error)
    log.segments.active.on_roll()  # its largest timestamp, as a roll notes it
    checkpoint = log.begin_checkpoint(with_snapshot=True)
    if checkpoint is not None:
        yield checkpoint.run, lambda error: log.finish_checkpoint(checkpoint, error)
