"""Whether the disk has room: a state that comes and goes, not a failure of any log.

A write that finds no room is taken back, and its log goes on: nothing half-written stays, readers
notice nothing, and the next write is tried as if nothing had been. So there is nothing to
switch back on when space returns. What is kept here is that it happened, for whoever tells the
operator (`broker.maintenance.disk_room`): how often, the last refusal, and how much room was
wanted.

An fsync that finds no room is not among these: the file system had promised the room before
(delayed allocation), so it is a failed fsync like any other.
"""

from __future__ import annotations

import errno

# Out of space, out of quota, beyond the size that a file may have (RLIMIT_FSIZE).
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# These pass too: a write that needed a descriptor was not begun.
PASSING = NO_SPACE | {errno.EMFILE, errno.ENFILE}


class Room:
    """How often a write to the data directory found no space, and the last time it did.

    `wanted_bytes` is the size of the largest such write since it was last set to 0.
    """

    __slots__ = ("last_refusal", "refusals", "wanted_bytes")

    def __init__(self) -> None:
        self.refusals = 0
        self.last_refusal: OSError | None = None
        self.wanted_bytes = 0

    def note(self, error: OSError, size_bytes: int = 0) -> bool:
        """Count `error` if it says that there is no space; return whether it does."""
        if error.errno not in NO_SPACE:
            return False
        self.refusals += 1
        self.last_refusal = error
        self.wanted_bytes = max(self.wanted_bytes, size_bytes)
        return True
