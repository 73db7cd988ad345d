"""How far compaction has cleaned a log, and which holes in its offsets are thus no damage.

While a topic is compacted its log may have holes anywhere. Afterwards the cleaned offset says where
they end, so it must cover all that compaction has left. The checkpoint of the cleaner keeps it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from storage.files.filenames import OFFSET_MAX
from storage.segments.segment import Segment

_base_offset = attrgetter("base_offset")


class Cleaned:
    """What a log knows of its compaction.

    `compacted`: whether cleanup.policy has compact. `offset`: compaction has cleaned up to here.
    `unknown_below`: a crash before the checkpoint may have hidden that it has got up to here.
    """

    __slots__ = ("compacted", "offset", "unknown_below")

    def __init__(self, offset: int = 0) -> None:
        self.compacted = False
        self.offset = offset
        self.unknown_below = 0

    def holes_below(self, segments: Sequence[Segment]) -> int:
        """Return the offset below which a hole in the log is compaction's work, not damage.

        A pass copies whole segments, also the one in which its map of keys was full. So behind the
        cleaned offset that segment has holes, too, where aborted transactions were.
        """
        if self.compacted:
            return OFFSET_MAX
        if not self.offset:
            return 0
        index = bisect_left(segments, self.offset, key=_base_offset)
        return segments[index].base_offset if index < len(segments) else self.offset

    def note_policy(self, *, compacted: bool) -> bool:
        """Note whether cleanup.policy has compact; return whether the cleaned offset has moved.

        Compaction leaves its cleaned offset to the next checkpoint, and a crash may come before.
        Then the offset must cover what the log had at its opening.
        """
        is_over = self.compacted and not compacted
        self.compacted = compacted
        if not is_over or self.offset >= self.unknown_below:
            return False
        self.offset = self.unknown_below
        return True
