"""Which holes in the offsets of a log are compaction's work, and no damage.

While a topic is compacted its log may have holes anywhere. Afterwards the cleaned offset says where
they end, so it must cover all that compaction has left.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from storage.segments.segment import Segment

_base_offset = attrgetter("base_offset")


class Cleaned(Protocol):
    """What `Segments` knows of its holes."""

    compacted: bool
    cleaned_offset: int
    holes_unknown_below: int


def known_below(segments: Sequence[Segment], cleaned_offset: int) -> int:
    """Return the offset below which compaction has left holes in a log that is not compacted.

    A pass copies whole segments, also the one in which its map of keys was full. So behind the
    cleaned offset that segment has holes, too, where aborted transactions were.
    """
    if not cleaned_offset:
        return 0
    index = bisect_left(segments, cleaned_offset, key=_base_offset)
    return segments[index].base_offset if index < len(segments) else cleaned_offset


def note_policy(segments: Cleaned, *, compacted: bool) -> bool:
    """Note whether cleanup.policy has compact; return whether the cleaned offset has moved.

    Compaction leaves its cleaned offset to the next checkpoint, and a crash may come before. Then
    the offset must cover what the log had at its opening.
    """
    is_over = segments.compacted and not compacted
    segments.compacted = compacted
    if not is_over or segments.cleaned_offset >= segments.holes_unknown_below:
        return False
    segments.cleaned_offset = segments.holes_unknown_below
    return True
