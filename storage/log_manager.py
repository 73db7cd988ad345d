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
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from config.topic import TopicConfig
from storage.clean_stop import stop_log
from storage.data_directory import DataDirectory
from storage.errors import UnknownPartition
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem
from storage.files.open_files import OpenFiles
from storage.files.text_files import NO_BROKER_EPOCH
from storage.home import Home
from storage.lease import Lease
from storage.log import Log
from storage.log_deletion import Deletion, Leaving, leave
from storage.offset_checkpoints import OffsetCheckpoints
from storage.opening.log_opening import Attempt, Opener, Opening, Wanted
from storage.opening.recovery_report import RecoveryReport
from storage.trash import Purge

_log = logging.getLogger("barnabas.storage")

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
        self.now_ms = now_ms
        self.directory = DataDirectory(
            filesystem,
            data_directory,
            settings.random_bytes,
            node_id=settings.node_id,
            cluster_id=settings.cluster_id,
        )
        self.home = Home(
            filesystem,
            OpenFiles(filesystem, settings.open_files_max or _open_files_allowed()),
            settings.producer_expiration_ms,
        )
        self.logs: dict[tuple[str, int], Log] = {}
        self.reports: list[RecoveryReport] = []  # of the logs that had something to say
        self.warnings: list[str] = []
        self._checkpoints = OffsetCheckpoints(self.home, data_directory, self._warn)
        self._opener = Opener(self.home, self.directory, self._checkpoints)

    # -- Begin --------------------------------------------------------------------------------

    def open(self) -> None:
        """Take possession of the directory, making it if need be.

        Raises DirectoryLocked, CorruptMetadata, OSError: then nothing was changed but that the
        directory and its lock file may have been made.
        """
        try:
            self.directory.open()
            self._checkpoints.read()
            self.directory.remove_clean_mark()
        except BaseException:
            self.abandon()
            raise
        if not self.directory.was_clean:
            verb = "Looking for the ends of" if self.home.is_read_only else "Recovering"
            self._warn(
                f"{verb} {len(self.directory.names(Kind.PARTITION))} logs from "
                f"{self.directory.path} since no clean shutdown file was found"
            )
        for path in self.directory.deleted_paths():
            self.home.trash.toss_directory(self.now_ms(), path)

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
        wanted = list(wanted)
        for one in wanted:
            assert one.key not in self.logs, f"{one.topic}-{one.partition} is open already"
        return self._opener.begin(wanted, self.now_ms())

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
        for log, report in self._opener.finish(opening):
            key = log.topic, log.partition
            self.logs[key] = log
            self._report(report)
            hidden_starts |= self._checkpoints.opened(key, log.start_offset)
        return self.begin_write_checkpoints() if hidden_starts else None

    def _report(self, report: RecoveryReport) -> None:
        lines = report.lines()
        if lines:
            self.reports.append(report)
        for line in lines:
            _log.warning("%s", line)

    def begin_delete(
        self, keys: Iterable[tuple[str, int]], unopened: Iterable[Wanted] = ()
    ) -> Deletion:
        """Close the logs of `keys` that are open: none of them is a log any more.

        `unopened` are logs that could not be opened: what directories they have go, too. The files
        go when the topic's file.delete.delay.ms is over (`begin_purge`).
        """
        leaving = []
        for key in keys:
            self._forget(key)
            log = self.logs.pop(key, None)
            if log is not None:
                due_ms = self.now_ms() + log.config.file_delete_delay_ms
                leaving.append(leave(log, self.directory.deleted_path(*key), due_ms))
                self.home.checkpoint_changes += 1
        for one in unopened:
            self._forget(one.key)
            path = self.directory.partition_path(*one.key)
            moved_to = self.directory.deleted_path(*one.key)
            due_ms = self.now_ms() + one.config.file_delete_delay_ms
            leaving.append(Leaving(path, moved_to, Lease(), due_ms, one.topic_id))
        return Deletion(self.home, self.directory.path, leaving)

    def _forget(self, key: tuple[str, int]) -> None:
        self._checkpoints.drop(key)
        self._opener.forget(key)

    def finish_delete(self, deletion: Deletion) -> None:
        """Take note of which directories are trash now."""
        for gone in deletion.moved:
            self.home.trash.toss_directory(gone.due_ms, gone.moved_to)
        self.home.trash.forget_in({gone.directory for gone in deletion.moved})

    def finish_purge(self, purge: Purge) -> None:
        """Report what could not be removed."""
        for complaint in purge.complaints:
            self._warn(complaint)

    def strays(self) -> list[str]:
        """Directories of partitions that nobody asked for, and foreign names: left alone."""
        return self.directory.strays(self.logs)

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
        if self.home.is_read_only:
            self.abandon()  # there is nothing to write
            return True
        went_well = clean
        for log in self.logs.values():
            complaint = stop_log(log)
            if complaint:
                self._warn(complaint)
                went_well = False
        try:
            self.write_checkpoints()
            if went_well:
                self.directory.write_clean_mark(broker_epoch)
        except OSError as error:
            self._warn(f"the stop is not clean: {error}")
            went_well = False
        self.abandon()
        return went_well

    def abandon(self) -> None:
        """Let go of the directory as a crash would: nothing is written."""
        self.home.files.close()
        self.directory.close()


def _open_files_allowed() -> int:
    """Three quarters of the descriptors this process may have; the rest is for connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft * 3 // 4
