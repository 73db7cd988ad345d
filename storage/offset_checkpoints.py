"""The three offset checkpoint files of a data directory, and what they held at start.

    recovery-point-offset-checkpoint       recovery points: below them nothing needs recovery
    log-start-offset-checkpoint            log start offsets, where not the first segment's offset
    cleaner-offset-checkpoint              cleaned offsets: how far compaction has got

The files name a log by topic and partition. After a crash, an old log's offsets would be taken for
those of a new log with the same name. So `begin_forget` drops them before a log is created. It also
has the first log of a directory named before it is created: a recovery that knows no recovery point
at all takes any hole in a compacted log for compaction's, also what a crash has lost. Offsets of
logs that are not open are kept while their directory exists; they cost one line each.

A file that is not in its format is reported and counts as empty, as in Kafka. One that the disk or
the system does not give stops the start, because an empty one would be wrong: deleted records would
be served again, and old damage would cut the records behind it.

`begin_write` returns a callable that writes the files and may run in any thread. An older state
never replaces a newer one. `finish_write` then shows clients the start offsets that were written.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Container, Iterable, Mapping

from storage.errors import CheckpointError, CorruptMetadata
from storage.files import filenames
from storage.files.text_files import Offsets, read_offsets, write_offsets
from storage.home import Home
from storage.log import Log
from storage.trimming import reach_start

Key = tuple[str, int]
Starts = list[tuple[Log, int]]


class OffsetCheckpoints:
    """The checkpoint files, and their offsets of logs that are not open."""

    def __init__(self, home: Home, data_directory: str, warn: Callable[[str], None]) -> None:
        self._home = home
        self._data_directory = data_directory
        self._warn = warn
        self.recovery_points: Offsets = {}
        self.missing: Offsets = {}  # recovery points of logs without a directory, at the start
        self.has_recovery_points = False  # in the file, at the start; a log's first is 0
        self.log_starts: Offsets = {}
        self.cleaned_offsets: Offsets = {}
        self._written: dict[str, Offsets | None] = {}  # by file name; None: unreadable
        self._captured: dict[str, Offsets] = {}  # written, or about to be
        self._changes_written = -1
        self._reached: list[Starts] = []  # start offsets in the file that clients do not see yet
        self._write_lock = threading.Lock()

    def read(self) -> None:
        """Read the files, at start. Raises CorruptMetadata."""
        self.recovery_points = self._read(filenames.RECOVERY_POINT_CHECKPOINT)
        self.has_recovery_points = bool(self.recovery_points)
        self.log_starts = self._read(filenames.LOG_START_CHECKPOINT)
        self.cleaned_offsets = self._read(filenames.CLEANER_CHECKPOINT)

    def _read(self, name: str) -> Offsets:
        path = posixpath.join(self._data_directory, name)
        try:
            offsets = self._written[name] = read_offsets(self._home.filesystem, path)
            return dict(offsets)
        except CheckpointError as error:
            self._warn(
                f"Error occurred while reading {name} file {path}, resetting the checkpoint "
                f"to 0: {error}"
            )
            self._written[name] = None
            return {}
        except OSError as error:
            raise CorruptMetadata(
                path,
                f"cannot be read: {error}. Repair the disk or the file's permissions. If its "
                "content is lost, delete it: then the start checks every log from its beginning, "
                "and deleted records may reappear",
            ) from error

    def drop(self, key: Key) -> None:
        """Drop a deleted log's offsets; the next write removes them from the files."""
        for offsets in (self.recovery_points, self.log_starts, self.cleaned_offsets):
            offsets.pop(key, None)

    def forget_missing(self, names: Container[str]) -> None:
        """Drop the offsets of logs whose directory is not among `names`, those that exist.

        A log was deleted, and a crash came before the files were written without it. Or somebody
        has removed its directory: `missing` tells the opening of the log.
        """
        for key in {**self.recovery_points, **self.log_starts, **self.cleaned_offsets}:
            if filenames.partition_directory(*key) not in names:
                self.missing[key] = self.recovery_points.get(key, 0)
                self.drop(key)
                self._home.checkpoint_changes += 1

    def opened(self, key: Key, start_offset: int) -> bool:
        """Leave a log's offsets to the log; return whether its start offset must be written now.

        A start offset above the log's end, left in the file, would hide records appended later.
        """
        checkpointed_start = self.log_starts.get(key, 0)
        self.drop(key)
        self._home.checkpoint_changes += 1
        return checkpointed_start > start_offset

    def begin_forget(
        self, keys: Iterable[Key], logs: Mapping[Key, Log]
    ) -> Callable[[], None] | None:
        """Drop what the files hold about logs that will be created, the first of which they name.

        The callable, if any, must have run before; it raises OSError.
        """
        said = (*self._written.values(), *self._captured.values())
        must_write = not (self.has_recovery_points or self._captured)
        for key in keys:
            self.drop(key)
            self.recovery_points[key] = 0
            must_write |= any(offsets is None or bool(offsets.get(key)) for offsets in said)
        if not must_write:
            return None
        self._home.checkpoint_changes += 1
        return self.begin_write(logs)

    def begin_write(self, logs: Mapping[Key, Log]) -> Callable[[], None] | None:
        """Capture the offsets of all logs, on the logs' thread; None if nothing has changed.

        The callable writes the files, atomically and durably. It raises OSError; a file that it
        did not replace is as before. If nothing has changed, clients see all start offsets.
        """
        changes = self._home.checkpoint_changes
        is_written = changes == self._changes_written
        self.finish_write()
        if is_written:
            return None
        points = self.recovery_points | {k: log.recovery_point for k, log in logs.items()}
        starts = self.log_starts | {
            key: log.next_start_offset for key, log in logs.items() if log.next_start_offset > 0
        }
        moved = [
            (log, log.next_start_offset)
            for log in logs.values()
            if log.next_start_offset > log.start_offset
        ]
        cleaned = self.cleaned_offsets | {
            key: log.segments.cleaned.offset
            for key, log in logs.items()
            if log.segments.cleaned.has_begun
        }
        captured = self._captured = {
            filenames.RECOVERY_POINT_CHECKPOINT: points,
            filenames.LOG_START_CHECKPOINT: starts,
            filenames.CLEANER_CHECKPOINT: cleaned,
        }

        def write() -> None:
            with self._write_lock:
                if changes < self._changes_written:
                    return  # another thread wrote a newer state
                for name, offsets in captured.items():
                    if offsets != self._written[name]:
                        path = posixpath.join(self._data_directory, name)
                        write_offsets(self._home.filesystem, path, offsets)
                        self._written[name] = offsets
                self._reached.append(moved)
                self._changes_written = changes

        return write

    def write(self, logs: Mapping[Key, Log]) -> None:
        """Write the files now. Blocks. Raises OSError."""
        write = self.begin_write(logs)
        if write is not None:
            write()
            self.finish_write()

    def finish_write(self) -> None:
        """Show clients the start offsets that writes have made durable. On the logs' thread."""
        while self._reached:
            for log, start_offset in self._reached.pop():
                reach_start(log, start_offset)
