"""Opens logs in steps, so that whatever waits for the disk runs in a thread.

    LogManager.begin_open()     caller's thread: captures what the checkpoint files say
    Opening.look()              pool thread: which directories exist, and of which topic ids
    LogManager.begin_forget()   caller's thread: drops old checkpoints of logs that will be created;
                                a pool thread writes what it returns
    Opening.make()              pool thread: creates directories, loads and recovers logs
    LogManager.finish_open()    caller's thread: adds the logs to the manager

Each partition succeeds or fails alone. Between the first step and the last nothing else may open or
delete these logs; the manager asserts it.

A directory with the same name but another topic id is set aside (`storage.strays`). If its topic
id cannot be read, it belongs to the partition, and gets the id again, unless the partition was
recorded in this run: then nothing can be its own. In a read-only data directory nothing is created
or renamed, and such a log cannot be opened.

Creating a log costs no fsync: its first flush makes the names durable. If a directory was created
but its log could not be opened, the next attempt makes the name durable.

A log whose files cannot be read or repaired is not opened, because its end would be unknown. The
caller may try again at any time. Each attempt begins anew, with what the checkpoint files said at
the start.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from config.topic import TopicConfig
from storage.data_directory import DataDirectory
from storage.errors import CheckpointError, CorruptMetadata, StorageError, UnknownPartition
from storage.files import filenames
from storage.files.text_files import (
    differ_in_a_character,
    encode_partition_metadata,
    make_partition_directory,
    read_partition_metadata,
    uuid_text,
)
from storage.home import Home
from storage.log import Log
from storage.offset_checkpoints import Key, OffsetCheckpoints
from storage.opening.log_loading import LastKnown, load_log
from storage.opening.recovery_report import RecoveryReport
from storage.strays import put_aside

_log = logging.getLogger("barnabas.storage")


class Wanted(NamedTuple):
    """A log to open; with `create`, it is created if it is missing.

    `is_fresh` says that its partition was recorded in this run of the broker.
    """

    topic: str
    partition: int
    topic_id: bytes
    config: TopicConfig
    leader_epoch: int
    create: bool = False
    is_fresh: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.topic, self.partition


@dataclass(slots=True)
class Attempt:
    """The opening of one log; ends with `log` or with `error`."""

    wanted: Wanted
    known: LastKnown
    is_unsynced: bool  # an attempt that failed later created the directory
    report: RecoveryReport
    missing_end: int = 0  # the recovery point that it had, if its directory was not there
    is_new: bool = False
    log: Log | None = None
    error: OSError | StorageError | None = None


class Opener:
    """Begins and finishes openings, on the thread of the logs."""

    __slots__ = (
        "_checkpoints", "_directory", "_home", "_said", "_under_way", "_unread", "_unsynced",
    )  # fmt: skip

    def __init__(
        self, home: Home, directory: DataDirectory, checkpoints: OffsetCheckpoints
    ) -> None:
        self._home = home
        self._directory = directory
        self._checkpoints = checkpoints
        self._under_way: set[Key] = set()  # logs that are being opened
        self._unsynced: set[Key] = set()  # directories created for logs that did not open
        self._said: dict[Key, list[str]] = {}  # by the last attempt to open a log that did not open
        self._unread: set[Key] = set()  # logs that exist and did not open

    def begin(self, wanted: Iterable[Wanted], now_ms: int) -> Opening:
        """Capture what is known about logs, none of which is open or being opened."""
        attempts = []
        for one in wanted:
            key = one.key
            assert key not in self._under_way, f"{one.topic}-{one.partition} is being opened"
            self._under_way.add(key)
            known = LastKnown(
                one.topic,
                one.partition,
                one.topic_id,
                self._directory.partition_path(*key),
                one.leader_epoch,
                self._checkpoints.recovery_points.get(key),
                self._checkpoints.log_starts.get(key),
                self._directory.was_clean,
                self._checkpoints.cleaned_offsets.get(key),
                self._checkpoints.has_recovery_points,
            )
            report = RecoveryReport(one.topic, one.partition, known.directory)
            report.is_read_only = self._home.is_read_only
            missing_end = 0 if one.is_fresh else self._checkpoints.missing.get(key, 0)
            attempts.append(Attempt(one, known, key in self._unsynced, report, missing_end))
        return Opening(self._home, self._directory, attempts, now_ms)

    def finish(self, opening: Opening) -> list[tuple[Log, RecoveryReport]]:
        """Record how an opening ended; return the logs that it opened."""
        opened = []
        for attempt in opening.attempts:
            key = attempt.wanted.key
            self._under_way.discard(key)
            if attempt.log is not None:
                self.forget(key)
                opened.append((attempt.log, attempt.report))
                continue
            if attempt.is_unsynced:
                self._unsynced.add(key)
            if not attempt.is_new and not isinstance(attempt.error, UnknownPartition):
                self._unread.add(key)
        return opened

    def tell_news(self, opening: Opening) -> None:
        """Log the lines of failed attempts, without those of the same log's attempt before."""
        for attempt in opening.attempts:
            if attempt.log is None:
                lines = attempt.report.lines_of_a_failure()
                said = self._said.get(attempt.wanted.key, ())
                for line in lines:
                    if line not in said:
                        _log.warning("%(warning)s", {"warning": line})
                self._said[attempt.wanted.key] = lines

    def complaints(self) -> list[str]:
        """Return why a stop is not clean: logs that a crash left were not opened since."""
        return [
            f"{topic}-{partition} was not closed cleanly: it could not be opened, and may have "
            "records that are not on the disk"
            for topic, partition in sorted(self._unread if not self._directory.was_clean else ())
        ]

    def forget(self, key: Key) -> None:
        """Forget the failed attempts to open a log, which is open now, or deleted."""
        self._unsynced.discard(key)
        self._said.pop(key, None)
        self._unread.discard(key)


class Opening:
    """Opens several logs; `look` and `make` run in a thread."""

    __slots__ = ("_directory", "_home", "_now_ms", "attempts")

    def __init__(
        self,
        home: Home,
        directory: DataDirectory,
        attempts: Sequence[Attempt],
        now_ms: int,
    ) -> None:
        self._home = home
        self._directory = directory
        self._now_ms = now_ms
        self.attempts = attempts

    def look(self) -> None:
        """Find out which directories exist. Blocks."""
        for attempt in self.attempts:
            try:
                attempt.is_new = self._is_missing(attempt)
            except (OSError, StorageError) as error:
                attempt.error = error

    def make(self) -> None:
        """Create missing directories and load all logs. Blocks."""
        for attempt in self.attempts:
            if attempt.error is None:
                try:
                    self._load(attempt)
                except (OSError, StorageError) as error:
                    attempt.error = error

    def fail_new(self, error: OSError) -> None:
        """Fail the logs that are to be created: old checkpoints of their names could not go."""
        for attempt in self.attempts:
            if attempt.is_new and attempt.error is None:
                attempt.error = error

    def new_keys(self) -> list[tuple[str, int]]:
        """Return the logs that are to be created; known after `look`."""
        return [a.wanted.key for a in self.attempts if a.is_new and a.error is None]

    def _is_missing(self, attempt: Attempt) -> bool:
        """Compare the directory's topic id with the metadata's; return whether to create it.

        Raises OSError if the disk does not say whose directory it is: the records in it may be a
        deleted topic's.
        """
        wanted, directory = attempt.wanted, attempt.known.directory
        filesystem, warnings = self._home.filesystem, attempt.report.warnings
        if not filesystem.exists(directory):
            if not wanted.create or self._home.is_read_only:
                raise UnknownPartition(wanted.topic, wanted.partition)
            return True
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        found, reason = self._read_id(path, wanted)
        if found == wanted.topic_id:
            return False
        if found is None and not wanted.is_fresh:
            if reason:
                warnings.append(f"{reason}; rewritten with the topic id of the metadata")
            filesystem.replace(path, encode_partition_metadata(wanted.topic_id))
            return False
        theirs = "no topic id" if found is None else f"topic id {uuid_text(found)}"
        if not wanted.create or self._home.is_read_only:
            ours = uuid_text(wanted.topic_id)
            raise CorruptMetadata(path, f"has {theirs}, the metadata has {ours}")
        aside = put_aside(filesystem, self._directory, wanted.key)
        filesystem.sync_directory(self._directory.path)
        if aside is not None:
            if not aside.is_kept:
                self._home.trash.toss_directory(self._now_ms, aside.moved_to)
            name = posixpath.basename(aside.moved_to)
            warnings.append(f"{directory} has {theirs}: put aside as {name}")
        return True

    def _read_id(self, path: str, wanted: Wanted) -> tuple[bytes | None, str]:
        """Return the topic id in partition.metadata; None if it has none, and why."""
        try:
            found = read_partition_metadata(self._home.filesystem, path)
        except CheckpointError as error:
            return None, str(error)
        if found is not None and differ_in_a_character(found, wanted.topic_id):
            ours = uuid_text(wanted.topic_id)
            return None, f"{path} has topic id {uuid_text(found)} for {ours}: taken for bit rot"
        return found, ""

    def _load(self, attempt: Attempt) -> None:
        wanted, known = attempt.wanted, attempt.known
        path = posixpath.join(known.directory, filenames.PARTITION_METADATA)
        if attempt.is_new:
            known = known._replace(
                recovery_point=0, log_start=None, was_clean=True, cleaned_offset=None
            )
            make_partition_directory(self._home.filesystem, known.directory, wanted.topic_id)
            attempt.is_unsynced = True
            if attempt.missing_end:
                attempt.report.warnings.append(
                    f"{known.directory} is missing, but the checkpoint has its recovery point "
                    f"{attempt.missing_end}: unless its topic was being created again, its records "
                    "are gone. The log begins anew, at offset 0"
                )
        log = load_log(self._home, known, wanted.config, self._now_ms, attempt.report)
        if attempt.is_unsynced:
            log.unsynced.note_created([path], [self._directory.path, known.directory])
        attempt.log = log
