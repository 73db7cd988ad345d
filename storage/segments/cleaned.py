"""How far compaction has cleaned a log, and which holes in its offsets are thus no damage.

While a topic is compacted, and up to the cleaned offset afterwards, its log may have holes. The
checkpoint of the cleaner keeps that offset, but is written some time later, and a crash may come
before. So a log is named in that checkpoint before its first pass, at offset 0. A start that finds
it there takes any hole in front of the active segment for compaction's.
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
    `has_begun`: there was a pass, or one is about to begin; the checkpoint names the log.
    `unknown_below`: earlier passes may have left holes below, whatever the checkpoint says.
    """

    __slots__ = ("compacted", "has_begun", "offset", "unknown_below")

    def __init__(self, checkpointed_offset: int | None = None, unknown_below: int = 0) -> None:
        self.compacted = False
        self.has_begun = checkpointed_offset is not None or unknown_below > 0
        self.offset = checkpointed_offset or 0
        self.unknown_below = unknown_below

    def holes_below(self, segments: Sequence[Segment]) -> int:
        """Return the offset below which a hole in the log is compaction's work, not damage.

        A pass copies whole segments, also the one in which its map of keys was full. So behind the
        cleaned offset that segment has holes, too, where aborted transactions were.
        """
        if self.compacted:
            return OFFSET_MAX
        if not self.offset:
            return self.unknown_below
        index = bisect_left(segments, self.offset, key=_base_offset)
        known_below = segments[index].base_offset if index < len(segments) else self.offset
        return max(known_below, self.unknown_below)

    def begin(self) -> bool:
        """Note that a pass follows the next checkpoint; return whether that must name the log."""
        is_first = not self.has_begun
        self.has_begun = True
        return is_first
