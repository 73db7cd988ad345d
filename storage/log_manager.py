"""All logs of one data directory: who they are, where they stand, and how they begin and end.

    open()        lock the directory, read (or make) meta.properties, note whether the last stop
                  was clean and take that note away, read the checkpoints
    open_logs()   as the metadata asks for them (`storage.opening`); recovery where it is due
    …             begin_write_checkpoints, begin_delete, begin_purge (`storage.log_deletion`)
    close()       flush and checkpoint every log; only when all went well, leave the clean mark

The mark is removed, durably, before the first log is loaded: whatever ends the process from then
on, the next start takes it for a crash (KAFKA-10471). Checkpoint files are caches
(`storage.offset_checkpoints`). Directories that nobody asked for are strays: reported, never
touched. Of meta.properties alone the broker cannot do without: unreadable, it does not start.
"""

from __future__ import annotations

import logging
import posixpath
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from config.topic import TopicConfig
from storage.errors import CorruptMetadata, StorageError, UnknownPartition
from storage.files import filenames, meta_properties
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem, LockHandle
from storage.files.meta_properties import MetaProperties, random_uuid
from storage.files.open_files import OpenFiles
from storage.files.text_files import NO_BROKER_EPOCH, encode_clean_shutdown, uuid_text
from storage.home import Home
from storage.lease import Lease
from storage.log import Log
from storage.log_deletion import Deletion, Leaving, Purge
from storage.offset_checkpoints import OffsetCheckpoints
from storage.opening.log_loading import LastKnown
from storage.opening.log_opening import Attempt, Opening, Wanted
from storage.opening.recovery_report import RecoveryReport

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
        self._checkpoints = OffsetCheckpoints(self.home, data_directory, self._warn)
        self._trashed_directories: list[tuple[int, str]] = []
        self._under_way: set[tuple[str, int]] = set()  # logs that are being opened
        self._unsynced: set[tuple[str, int]] = set()  # directories made for logs that did not open

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
            self._checkpoints.read()
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
        return self._checkpoints.recovery_points.get((topic, partition))

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

        Blocks: for the start. A directory of that name that belongs to another topic id is, with
        `create`, put aside as `…-stray`. Raises UnknownPartition (missing), CorruptMetadata
        (another topic's), OSError, AppendFailed (no room to make it).
        """
        wanted = Wanted(topic, partition, topic_id, config, leader_epoch, create)
        (attempt,) = self.open_logs([wanted])
        if attempt.log is None:
            assert attempt.error is not None, "an attempt ends with a log or an error"
            raise attempt.error
        return attempt.log

    def open_logs(self, wanted: Iterable[Wanted]) -> Sequence[Attempt]:
        """Open logs, each with an outcome of its own. Blocks: for the start."""
        opening = self.begin_open(wanted)
        opening.look()
        try:
            write = self.begin_forget(opening)
            if write is not None:
                write()
        except OSError as error:
            opening.fail_new(error)
        opening.make()
        write = self.finish_open(opening)
        if write is not None:
            write()
        return opening.attempts

    def begin_open(self, wanted: Iterable[Wanted]) -> Opening:
        """Capture what is needed to open logs (`storage.opening.log_opening`)."""
        attempts = []
        for one in wanted:
            key = one.key
            assert key not in self.logs, f"{one.topic}-{one.partition} is open already"
            assert key not in self._under_way, f"{one.topic}-{one.partition} is being opened"
            self._under_way.add(key)
            known = LastKnown(
                one.topic,
                one.partition,
                one.topic_id,
                self._path(filenames.partition_directory(*key)),
                one.leader_epoch,
                self._checkpoints.recovery_points.get(key),
                self._checkpoints.log_starts.get(key),
                self.was_clean,
                self._checkpoints.cleaned_offsets.get(key, 0),
            )
            attempts.append(Attempt(one, known, is_unsynced=key in self._unsynced))
        return Opening(
            self.home,
            self.data_directory,
            attempts,
            lambda topic, partition: self._moved_name(topic, partition, "stray"),
            self.now_ms(),
        )

    def begin_forget(self, opening: Opening) -> Callable[[], None] | None:
        """Let no checkpoint file say anything of the logs that `opening` is about to make.

        The callable, if any, must be done before, and may run in a thread; it raises OSError.
        """
        return self._checkpoints.begin_forget(opening.new_keys(), self.logs)

    def finish_open(self, opening: Opening) -> Callable[[], None] | None:
        """Take over the logs that were opened.

        The callable, if any, must be done before they are appended to, and may run in a thread;
        it raises OSError.
        """
        for warning in opening.warnings:
            self._warn(warning)
        hidden_starts = False
        for attempt in opening.attempts:
            key = attempt.wanted.key
            self._under_way.discard(key)
            if attempt.log is None:
                if attempt.is_unsynced:
                    self._unsynced.add(key)
                continue
            self._unsynced.discard(key)
            if attempt.report is not None:
                self._report(attempt.report)
            self.logs[key] = attempt.log
            hidden_starts |= self._checkpoints.opened(key, attempt.log.start_offset)
        return self.begin_write_checkpoints() if hidden_starts else None

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
        """Close a log and rename its directory to `…-delete`; returns the new path. Blocks.

        Raises UnknownPartition; OSError, when the directory is left for the next start to find.
        """
        self.get(topic, partition)
        deletion = self.begin_delete([(topic, partition)])
        deletion.run()
        self.finish_delete(deletion)
        if deletion.error is not None:
            raise deletion.error
        return deletion.leaving[0].moved_to

    def begin_delete(
        self, keys: Iterable[tuple[str, int]], unopened: Iterable[Wanted] = ()
    ) -> Deletion:
        """Close the logs of `keys` that are open: none of them is a log any more.

        `unopened` are logs that could not be opened: what directories they have go, too. The files
        go when the topic's file.delete.delay.ms is over (`begin_purge`).
        """
        leaving = []
        for key in keys:
            self._checkpoints.drop(key)
            self._unsynced.discard(key)
            log = self.logs.pop(key, None)
            if log is None:
                continue
            directory, moved_to = log.directory, self._path(self._moved_name(*key, "delete"))
            log.close(moved_to)
            due_ms = self.now_ms() + log.config.file_delete_delay_ms
            leaving.append(Leaving(directory, moved_to, log.lease, due_ms))
            self.home.checkpoint_changes += 1
        for one in unopened:
            self._checkpoints.drop(one.key)
            self._unsynced.discard(one.key)
            directory = self._path(filenames.partition_directory(*one.key))
            moved_to = self._path(self._moved_name(*one.key, "delete"))
            due_ms = self.now_ms() + one.config.file_delete_delay_ms
            leaving.append(Leaving(directory, moved_to, Lease(), due_ms, one.topic_id))
        return Deletion(self.home, self.data_directory, leaving)

    def finish_delete(self, deletion: Deletion) -> None:
        """Take note of which directories are trash now."""
        self._trashed_directories += [(gone.due_ms, gone.moved_to) for gone in deletion.moved]
        self.home.forget_trash({gone.directory for gone in deletion.moved})

    def begin_purge(self, now_ms: int) -> Purge | None:
        """Take what is due of the files and directories that were deleted; None if nothing is."""
        paths = self.home.take_due(now_ms)
        due = [path for due_ms, path in self._trashed_directories if due_ms <= now_ms]
        if not paths and not due:
            return None
        self._trashed_directories = [item for item in self._trashed_directories if item[0] > now_ms]
        return Purge(self.filesystem, paths, due)

    def finish_purge(self, purge: Purge) -> None:
        """Report what could not be removed."""
        for complaint in purge.complaints:
            self._warn(complaint)

    def purge_deleted(self, now_ms: int) -> None:
        """Unlink the files and directories whose delay is over. Blocks. Failures are reported."""
        purge = self.begin_purge(now_ms)
        if purge is not None:
            purge.run()
            self.finish_purge(purge)

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
        return self._checkpoints.begin_write(self.logs)

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
