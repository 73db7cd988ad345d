"""Whether the disk is full. The state ends by itself once there is room.

    has room ──a write was refused for want of space──> full
    full ──a check without a refusal since the one before, and at least as many free bytes as the
           largest refused write wanted──> has room

While the disk is full, every write is still tried, so producing resumes with the first write that
finds room. A small write that succeeds does not prove that a large one would; free space is noticed
at the next check, with or without writes. Producers get KAFKA_STORAGE_ERROR, which is retriable,
reads continue, and deleted files are removed immediately instead of after `file.delete.delay.ms`.
Each change of the state logs one line, with what was found and what helps. `Metrics` has it as
`disk_full_now`, and counts the refusals.

Storage counts refusals where they happen (`storage.files.room`); this module checks them once a
second.
"""

from __future__ import annotations

import logging

from broker.runtime.clock import SECOND_NS, Clock
from broker.runtime.metrics import Metrics
from storage.files.filesystem import FileSystem
from storage.files.room import Room

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
        self._free_bytes: int | None = None  # None: unknown

    @property
    def is_full(self) -> bool:
        """Whether writes were refused lately."""
        return self._full_since_ns > 0

    @property
    def must_ask(self) -> bool:
        """Whether the next look needs to know the free space."""
        return self.is_full or self._room.refusals > self._refusals_seen

    def ask(self) -> None:
        """Read the free space for the next look. For a thread of the pool."""
        try:
            self._free_bytes = self._filesystem.free_bytes(self._directory)
        except OSError:
            self._free_bytes = None

    def look(self) -> bool:
        """Bring the state up to date; return whether the disk has become full since.

        The free space that `ask` found is logged.
        """
        refused = self._room.refusals - self._refusals_seen
        self._refusals_seen = self._metrics.writes_refused = self._room.refusals
        if refused and not self.is_full:
            self._refusals_before = self._room.refusals - refused
            self._full_since_ns = self._clock.monotonic_ns()
            self._metrics.disk_full_now = 1
            logger.error(
                "the disk of %(directory)s is full, %(free)s: %(refusal)s. Producers get"
                " KAFKA_STORAGE_ERROR and retry; reads, retention and deletion continue. Free some"
                " space, shorten the retention of a topic, or delete a topic; writes then resume by"
                " themselves.",
                {
                    "directory": self._directory,
                    "free": self._free_text(),
                    "refusal": self._room.last_refusal,
                },
            )
            return True
        if self.is_full and not refused and self._has_room():
            seconds = (self._clock.monotonic_ns() - self._full_since_ns) // SECOND_NS
            self._full_since_ns = self._metrics.disk_full_now = 0
            logger.warning(
                "the disk of %(directory)s has room again, %(free)s: it was full for %(seconds)d s,"
                " and %(writes)d writes were refused, the largest of %(largest_bytes)d bytes.",
                {
                    "directory": self._directory,
                    "free": self._free_text(),
                    "seconds": seconds,
                    "writes": self._room.refusals - self._refusals_before,
                    "largest_bytes": self._room.wanted_bytes,
                },
            )
            self._room.wanted_bytes = 0
        return False

    def _has_room(self) -> bool:
        """Whether the largest refused write would fit; True if unknown."""
        return self._free_bytes is None or self._free_bytes > self._room.wanted_bytes

    def _free_text(self) -> str:
        free_bytes = self._free_bytes
        return "free space unknown" if free_bytes is None else f"{free_bytes} bytes free"
