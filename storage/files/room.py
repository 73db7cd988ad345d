"""A full disk: a state that comes and goes, not a failure of any log.

A write that finds no room is undone, and its log goes on: no partial batch stays, readers are not
affected, and the next write is tried as usual. So nothing has to be re-enabled when there is room
again. `Room` only counts the refusals, for the log lines of `broker.maintenance.disk_room`: how
many, the last one, and how much room was wanted.

An fsync that finds no room does not count here. The file system had promised the room before
(delayed allocation), so this is a failed fsync like any other.
"""

from __future__ import annotations

import errno

# Out of space, out of quota, beyond the size that a file may have (RLIMIT_FSIZE).
NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
# Out of descriptors, in the process or in the system: the call never began, and says nothing of the
# disk or of what is on it.
NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
PASSING = NO_SPACE | NO_DESCRIPTOR


def errno_of(error: BaseException) -> int | None:
    """Return the number of a system's error, or of the one that an error of storage is due to."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return cause.errno if isinstance(cause, OSError) else None


class Room:
    """How often a write to the data directory found no space, and the last time it did.

    `wanted_bytes` is the size of the largest such write since the counter was last reset to 0.
    """

    __slots__ = ("last_refusal", "refusals", "wanted_bytes")

    def __init__(self) -> None:
        self.refusals = 0
        self.last_refusal: OSError | None = None
        self.wanted_bytes = 0

    def note(self, error: OSError, size_bytes: int = 0) -> bool:
        """Count `error` if it means that there is no space; return whether it does."""
        if error.errno not in NO_SPACE:
            return False
        self.refusals += 1
        self.last_refusal = error
        self.wanted_bytes = max(self.wanted_bytes, size_bytes)
        return True
