"""The three offset checkpoint files of a data directory, and what they said at start.

    recovery-point-offset-checkpoint       below it nothing needs to be recovered
    log-start-offset-checkpoint            where a log begins, if not with its first segment
    cleaner-offset-checkpoint              how far compaction has got

They name a log by topic and partition. What one says of an older log of a name would be taken for
the next one's after a crash: so `begin_forget` comes before a log is made. Values of logs that are
not open, now or any more, are kept: they cost a line. Garbage in a file is reported, and counts as
nothing.

Files are written by callables that `begin_write` gives out and that may run in any thread; an older
state never replaces a newer one.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.text_files import Offsets, read_offsets, write_offsets
from storage.home import Home

if TYPE_CHECKING:
    from storage.log import Log

Key = tuple[str, int]


class OffsetCheckpoints:
    """The files, and what is not in a log's own memory yet."""

    def __init__(self, home: Home, data_directory: str, warn: Callable[[str], None]) -> None:
        self._home = home
        self._data_directory = data_directory
        self._warn = warn
        self.recovery_points: Offsets = {}
        self.log_starts: Offsets = {}
        self.cleaned_offsets: Offsets = {}
        self._written: dict[str, Offsets | None] = {}  # by file name; None: unreadable
        self._captured: dict[str, Offsets] = {}  # written, or about to be
        self._changes_written = -1
        self._write_lock = threading.Lock()

    def read(self) -> None:
        """Read the files, at start."""
        self.recovery_points = self._read(filenames.RECOVERY_POINT_CHECKPOINT)
        self.log_starts = self._read(filenames.LOG_START_CHECKPOINT)
        self.cleaned_offsets = self._read(filenames.CLEANER_CHECKPOINT)

    def _read(self, name: str) -> Offsets:
        path = posixpath.join(self._data_directory, name)
        try:
            offsets = self._written[name] = read_offsets(self._home.filesystem, path)
            return dict(offsets)
        except (CheckpointError, OSError) as error:
            self._warn(
                f"Error occurred while reading {name} file {path}, resetting the checkpoint "
                f"to 0: {error}"
            )
            self._written[name] = None
            return {}

    def drop(self, key: Key) -> None:
        """Forget a log that is deleted; the files follow with the next write."""
        for offsets in (self.recovery_points, self.log_starts, self.cleaned_offsets):
            offsets.pop(key, None)

    def opened(self, key: Key, start_offset: int) -> bool:
        """Leave a log's values to the log itself; whether its start must be written at once.

        A start beyond the end, left in the file, would hide what is appended from now on.
        """
        checkpointed_start = self.log_starts.get(key, 0)
        self.drop(key)
        self._home.checkpoint_changes += 1
        return checkpointed_start > start_offset

    def begin_forget(
        self, keys: Iterable[Key], logs: Mapping[Key, Log]
    ) -> Callable[[], None] | None:
        """Let no file say anything of logs that are about to be made.

        The callable, if any, must be done before; it raises OSError.
        """
        said = (*self._written.values(), *self._captured.values())
        is_said = False
        for key in keys:
            self.drop(key)
            self.recovery_points[key] = 0
            is_said |= any(offsets is None or bool(offsets.get(key)) for offsets in said)
        if not is_said:
            return None
        self._home.checkpoint_changes += 1
        return self.begin_write(logs)

    def begin_write(self, logs: Mapping[Key, Log]) -> Callable[[], None] | None:
        """Capture what is to be written, on the thread of the logs; None if it is written.

        The callable writes, atomically and durably. Raises OSError there: the files are as they
        were.
        """
        changes = self._home.checkpoint_changes
        if changes == self._changes_written:
            return None
        points = self.recovery_points | {k: log.recovery_point for k, log in logs.items()}
        starts = self.log_starts | {
            key: log.start_offset for key, log in logs.items() if log.start_offset > 0
        }
        cleaned = self.cleaned_offsets | {
            key: log.segments.cleaned_offset
            for key, log in logs.items()
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
                        path = posixpath.join(self._data_directory, name)
                        write_offsets(self._home.filesystem, path, offsets)
                        self._written[name] = offsets
                self._changes_written = changes

        return write
