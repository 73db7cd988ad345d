"""Opens logs in steps, so that whatever waits for the disk runs in a thread.

    LogManager.begin_open()     caller's thread: captures what the checkpoint files say
    Opening.look()              pool thread: which directories exist, and of which topic ids
    LogManager.begin_forget()   caller's thread: drops old checkpoints of logs that will be created;
                                a pool thread writes what it returns
    Opening.make()              pool thread: creates directories, loads and recovers logs
    LogManager.finish_open()    caller's thread: adds the logs to the manager

Each partition succeeds or fails alone. Between the first step and the last nothing else may open or
delete these logs; the manager asserts it.

A directory with the same name but another topic id is renamed to `…-stray`. In a read-only data
directory nothing is created or renamed, and such a log cannot be opened.

Creating a log costs no fsync: its first flush makes the names durable. If a directory was created
but its log could not be opened, the next attempt makes the name durable.
"""

from __future__ import annotations

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


class Wanted(NamedTuple):
    """A log to open; with `create`, it is created if it is missing."""

    topic: str
    partition: int
    topic_id: bytes
    config: TopicConfig
    leader_epoch: int
    create: bool = False

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
    is_new: bool = False
    log: Log | None = None
    report: RecoveryReport | None = None
    error: OSError | StorageError | None = None


class Opener:
    """Begins and finishes openings, on the thread of the logs."""

    __slots__ = ("_checkpoints", "_directory", "_home", "_under_way", "_unsynced")

    def __init__(
        self, home: Home, directory: DataDirectory, checkpoints: OffsetCheckpoints
    ) -> None:
        self._home = home
        self._directory = directory
        self._checkpoints = checkpoints
        self._under_way: set[Key] = set()  # logs that are being opened
        self._unsynced: set[Key] = set()  # directories created for logs that did not open

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
                self._checkpoints.cleaned_offsets.get(key, 0),
            )
            attempts.append(Attempt(one, known, is_unsynced=key in self._unsynced))
        return Opening(self._home, self._directory, attempts, now_ms)

    def finish(self, opening: Opening) -> list[tuple[Log, RecoveryReport]]:
        """Record how an opening ended; return the logs that it opened."""
        opened = []
        for attempt in opening.attempts:
            key = attempt.wanted.key
            self._under_way.discard(key)
            if attempt.log is not None:
                assert attempt.report is not None, "a log comes with its report"
                self._unsynced.discard(key)
                opened.append((attempt.log, attempt.report))
            elif attempt.is_unsynced:
                self._unsynced.add(key)
        return opened

    def forget(self, key: Key) -> None:
        """Forget the directory of a deleted log."""
        self._unsynced.discard(key)


class Opening:
    """Opens several logs; `look` and `make` run in a thread."""

    __slots__ = ("_directory", "_home", "_now_ms", "attempts", "warnings")

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
        self.warnings: list[str] = []

    def look(self) -> None:
        """Find out which directories exist. Blocks."""
        for attempt in self.attempts:
            try:
                attempt.is_new = self._is_missing(attempt.wanted, attempt.known.directory)
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

    def _is_missing(self, wanted: Wanted, directory: str) -> bool:
        """Compare the directory's topic id with the metadata's; return whether to create it."""
        filesystem = self._home.filesystem
        if not filesystem.exists(directory):
            if not wanted.create or self._home.is_read_only:
                raise UnknownPartition(wanted.topic, wanted.partition)
            return True
        path = posixpath.join(directory, filenames.PARTITION_METADATA)
        try:
            found = read_partition_metadata(filesystem, path)
        except (CheckpointError, OSError) as error:
            self.warnings.append(f"{error}; rewritten with the topic id of the metadata")
            found = None
        ours = uuid_text(wanted.topic_id)
        if found is not None and differ_in_a_character(found, wanted.topic_id):
            self.warnings.append(
                f"{path} has topic id {uuid_text(found)}, the metadata {ours}: taken for bit rot"
            )
            found = None
        if found is None:
            filesystem.replace(path, encode_partition_metadata(wanted.topic_id))
            return False
        if found == wanted.topic_id:
            return False
        theirs = uuid_text(found)
        if not wanted.create or self._home.is_read_only:
            raise CorruptMetadata(path, f"has topic id {theirs}, the metadata has {ours}")
        stray = self._directory.stray_path(wanted.topic, wanted.partition)
        self.warnings.append(
            f"{directory} belongs to topic id {theirs}: put aside as {posixpath.basename(stray)}"
        )
        filesystem.rename(directory, stray)
        filesystem.sync_directory(self._directory.path)
        return True

    def _load(self, attempt: Attempt) -> None:
        wanted, known = attempt.wanted, attempt.known
        path = posixpath.join(known.directory, filenames.PARTITION_METADATA)
        if attempt.is_new:
            known = known._replace(
                recovery_point=0, log_start=None, was_clean=True, cleaned_offset=0
            )
            make_partition_directory(self._home.filesystem, known.directory, wanted.topic_id)
            attempt.is_unsynced = True
        log, report = load_log(self._home, known, wanted.config, self._now_ms)
        if attempt.is_unsynced:
            log.unsynced.note_created([path], [self._directory.path, known.directory])
        attempt.log, attempt.report = log, report
