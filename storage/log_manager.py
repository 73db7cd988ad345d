"""Manages all logs of one data directory: opens, deletes, checkpoints and closes them.

    open()        lock and read the directory, remove its clean mark, read the checkpoint files
    open_logs()   open the logs that the metadata names (`storage.opening`)
    …             begin_write_checkpoints, begin_delete (`storage.log_deletion`)
    closing()     flush and checkpoint every log; write the clean mark only if all succeeded

The directory itself is `storage.data_directory`, its checkpoint files `storage.offset_checkpoints`.
`storage.strays` moves directories away that the metadata does not name.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from config.topic import TopicConfig
from storage.clean_stop import Steps, run_in_turn, stop_logs
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
from storage.strays import InTheWay
from storage.trash import Purge

_log = logging.getLogger("barnabas.storage")

OPEN_FILES_UNLIMITED = 100_000  # if the system sets no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of a log manager. `random_bytes` is os.urandom outside tests."""

    random_bytes: Callable[[int], bytes]
    open_files_max: int = 0  # 0: three quarters of the process's limit
    producer_expiration_ms: int = 24 * 60 * 60 * 1000  # Kafka's producer.id.expiration.ms
    node_id: int | None = None
    cluster_id: str | None = None  # for a new directory; None generates one


class LogManager:
    """The logs of `data_directory`. `now_ms` returns the wall clock's time."""

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
        self.reports: list[RecoveryReport] = []  # those that have lines
        self.warnings: list[str] = []
        self._checkpoints = OffsetCheckpoints(self.home, data_directory, self._warn)
        self._opener = Opener(self.home, self.directory, self._checkpoints)
        self.in_the_way = InTheWay(self.home, self.directory, self._checkpoints, self._warn)

    # -- Begin --------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock and read the directory; create it if it is missing.

        Raises DirectoryLocked, CorruptMetadata, OSError: nothing is changed then, except that the
        directory and its lock file may have been created.
        """
        try:
            self.directory.open()
            self._checkpoints.read()
            self._checkpoints.forget_missing(set(self.home.filesystem.list(self.directory.path)))
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
        _log.warning("%(warning)s", {"warning": text})

    # -- Logs ---------------------------------------------------------------------------------

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended to the logs and not fsynced yet."""
        return self.home.unflushed_bytes

    def __len__(self) -> int:
        return len(self.logs)

    def all(self) -> list[Log]:
        """Return all open logs."""
        return list(self.logs.values())

    def get(self, topic: str, partition: int) -> Log:
        """Return an open log. Raises UnknownPartition."""
        try:
            return self.logs[topic, partition]
        except KeyError:
            raise UnknownPartition(topic, partition) from None

    def recovery_point(self, topic: str, partition: int) -> int | None:
        """Return the recovery point in the checkpoint file at start; None if it had none."""
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
        """Open a log, and recover it after an unclean stop; with `create`, create it if missing.

        Blocks, so only for the start. With `create`, a directory of the same name but another topic
        id is renamed to `…-stray`. Raises UnknownPartition (missing), CorruptMetadata (another
        topic id), OSError, AppendFailed (no space to create it).
        """
        wanted = Wanted(topic, partition, topic_id, config, leader_epoch, create)
        (attempt,) = self.open_logs([wanted])
        if attempt.log is None:
            assert attempt.error is not None, "an attempt ends with a log or an error"
            raise attempt.error
        return attempt.log

    def open_logs(self, wanted: Iterable[Wanted]) -> Sequence[Attempt]:
        """Open logs; each succeeds or fails alone. Blocks, so only for the start."""
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
        """Begin to open logs (`storage.opening.log_opening`)."""
        wanted = list(wanted)
        for one in wanted:
            assert one.key not in self.logs, f"{one.topic}-{one.partition} is open already"
        return self._opener.begin(wanted, self.now_ms())

    def begin_forget(self, opening: Opening) -> Callable[[], None] | None:
        """Drop old checkpoints of the logs that `opening` will create.

        The callable, if any, must have run before they are created. It may run in a thread and
        raises OSError.
        """
        return self._checkpoints.begin_forget(opening.new_keys(), self.logs)

    def finish_open(self, opening: Opening) -> Callable[[], None] | None:
        """Add the logs that were opened.

        The callable, if any, must have run before they are appended to. It may run in a thread and
        raises OSError.
        """
        self._opener.tell_news(opening)
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
            _log.warning("%(warning)s", {"warning": line})

    def begin_delete(
        self, keys: Iterable[tuple[str, int]], unopened: Iterable[Wanted] = ()
    ) -> Deletion:
        """Close the open logs of `keys` and remove them from the manager.

        `unopened` are logs that could not be opened; their directories are deleted too, if they
        exist. The files are removed after the topic's file.delete.delay.ms (`storage.trash`).
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
            leaving.append(Leaving(one.key, one.topic_id, path, moved_to, Lease(), due_ms))
        return Deletion(self.home, self.directory.path, leaving)

    def _forget(self, key: tuple[str, int]) -> None:
        self._checkpoints.drop(key)
        self._opener.forget(key)

    def finish_delete(self, deletion: Deletion) -> None:
        """Put the renamed directories into the trash; remember those that are in the way."""
        for gone in deletion.moved:
            self.home.trash.toss_directory(gone.due_ms, gone.moved_to)
        self.home.trash.forget_in({gone.directory for gone in deletion.moved})
        for left in deletion.in_the_way:
            self.in_the_way.add([left.key], {left.topic_id})

    def finish_purge(self, purge: Purge) -> None:
        """Report the files and directories that could not be removed."""
        for complaint in purge.complaints:
            self._warn(complaint)

    # -- Checkpoints and the end --------------------------------------------------------------

    def begin_write_checkpoints(self) -> Callable[[], None] | None:
        """Return what writes the checkpoint files (`OffsetCheckpoints`); None if unchanged."""
        return self._checkpoints.begin_write(self.logs)

    def finish_write_checkpoints(self) -> None:
        """Show clients the log start offsets that were written."""
        self._checkpoints.finish_write()

    def write_checkpoints(self) -> None:
        """Write the checkpoint files now. Raises OSError."""
        self._checkpoints.write(self.logs)

    def close(self, *, clean: bool, are_decided: bool = False) -> bool:
        """As `closing`, with one job after the other; return whether the stop is clean. Blocks."""
        return run_in_turn(self.closing(clean=clean, are_decided=are_decided))

    def closing(
        self, *, clean: bool, are_decided: bool = False, broker_epoch: int = NO_BROKER_EPOCH
    ) -> Steps:
        """Make everything durable, release the directory, return whether the stop is clean.

        Each step blocks. It yields jobs, which must run before the next one. No append, flush or
        checkpoint may begin. The clean mark, with `broker_epoch`, is for `clean` without a failure.
        `are_decided`: as of `stop_logs`.
        """
        if self.home.is_read_only:
            self.abandon()  # there is nothing to write
            return True
        are_closed = yield from stop_logs(self.all(), self._warn, are_decided=are_decided)
        for complaint in self._opener.complaints():
            self._warn(complaint)
            are_closed = False
        went_well = clean and are_closed
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
        """Release the directory without writing anything, as a crash would."""
        self.home.files.close()
        self.directory.close()


def _open_files_allowed() -> int:
    """Return three quarters of the process's descriptor limit; connections need the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft * 3 // 4
