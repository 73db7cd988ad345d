"""Whether the disk is full: a state that is found, told once, and left by itself.

    has room ──a write was refused for want of space──> full
    full ──a look without a refusal since the one before, and bytes free──> has room

While it is full every write is tried as ever, so producing resumes with the first that finds
room; producers get KAFKA_STORAGE_ERROR, which is retriable, reading goes on, and what was deleted
is removed at once instead of after `file.delete.delay.ms`. Each change of the state is one
line of the log, with what was found and what helps. `Metrics` has it as `disk_full_now`, and counts
the refusals.

Storage counts refusals where they happen (`storage.room`); here they are looked at once a second.
"""

from __future__ import annotations

import logging

from broker.clock import SECOND_NS, Clock
from broker.metrics import Metrics
from storage.filesystem import FileSystem
from storage.room import Room

logger = logging.getLogger("barnabas.storage")


class DiskRoom:
    """The state of the disk under `directory`, as of the last look."""

    def __init__(
        self, room: Room, filesystem: FileSystem, directory: str, metrics: Metrics, clock: Clock
    ) -> None:
        self._room = room
        self._filesystem = filesystem
        self._directory = directory
        self._metrics = metrics
        self._clock = clock
        self._refusals_seen = 0
        self._refusals_before = 0  # the state began
        self._full_since_ns = 0  # 0: has room

    @property
    def is_full(self) -> bool:
        """Whether writes were refused lately."""
        return self._full_since_ns > 0

    def look(self) -> bool:
        """Bring the state up to date; return whether the disk has become full since."""
        refused = self._room.refusals - self._refusals_seen
        self._refusals_seen = self._metrics.writes_refused = self._room.refusals
        if refused and not self.is_full:
            self._refusals_before = self._room.refusals - refused
            self._full_since_ns = self._clock.monotonic_ns()
            self._metrics.disk_full_now = 1
            logger.error(
                "the disk of %s is full, %s: %s. Producers get KAFKA_STORAGE_ERROR and try again; "
                "reading, retention and deletion go on. Free some space, shorten the retention of "
                "a topic or delete one: writing resumes by itself.",
                self._directory,
                self._free_text(),
                self._room.last_refusal,
            )
            return True
        if self.is_full and not refused and self._free_bytes() != 0:
            seconds = (self._clock.monotonic_ns() - self._full_since_ns) // SECOND_NS
            self._full_since_ns = self._metrics.disk_full_now = 0
            logger.warning(
                "the disk of %s has room again, %s: it was full for %d s, and %d writes were "
                "refused; writing has resumed.",
                self._directory,
                self._free_text(),
                seconds,
                self._room.refusals - self._refusals_before,
            )
        return False

    def _free_bytes(self) -> int | None:
        try:
            return self._filesystem.free_bytes(self._directory)
        except OSError:
            return None

    def _free_text(self) -> str:
        free_bytes = self._free_bytes()
        return "free space unknown" if free_bytes is None else f"{free_bytes} bytes free"
