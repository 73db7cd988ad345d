"""What look-ups of aborted transactions have found, kept for other readers of the same records.

Several groups read one topic, and those that begin at the same offset ask for the same records, one
after the other. The first look-up reads the list and copies its bytes; the next ones get them as
they are. Only what is final is kept: a list takes new entries, but none of what began below the
bound of such a look-up (`AbortIndex.collect`).
"""

from __future__ import annotations

from typing import Final

KEPT_BYTES_MAX: Final = 1024 * 1024  # of a broker
ONE_BYTES_MAX: Final = 64 * 1024
OWN_BYTES: Final = 400  # of a key, and its place in the table

# The filling of a list (`AbortIndex.filling`), and the range of offsets. Not the list: it has more
# bytes than are counted here, and its log may be deleted.
Key = tuple[int, int, int]


class KeptAborts:
    """The newest that were found, up to `KEPT_BYTES_MAX`. For the loop."""

    __slots__ = ("_found", "size_bytes")

    def __init__(self) -> None:
        self._found: dict[Key, bytes] = {}  # the oldest first
        self.size_bytes = 0

    def get(self, key: Key) -> bytes | None:
        """Return what was found; None if it is not kept."""
        return self._found.get(key)

    def keep(self, key: Key, found: bytes) -> None:
        """Keep what was found, in place of the oldest."""
        if len(found) > ONE_BYTES_MAX or key in self._found:
            return
        self._found[key] = found
        self.size_bytes += OWN_BYTES + len(found)
        while self.size_bytes > KEPT_BYTES_MAX:
            self.size_bytes -= OWN_BYTES + len(self._found.pop(next(iter(self._found))))
