"""What a log's directory is held against: what the rest of the data directory says of it.

What must be there depends on how the broker ended. After a clean stop every file is written to its
end and the recovery point is the end of the log. After a crash the newest segment's indexes may be
short, and its last batch torn. While a broker runs, the newest segment grows under the reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CLEAN, CRASHED, RUNNING = "clean", "crashed", "running"


@dataclass(slots=True, kw_only=True)
class Expected:
    """What the rest of the data directory says of a log. None: it does not say."""

    ending: str = CRASHED
    recovery_point: int | None = None
    log_start: int | None = None
    topic_id: bytes | None = None
    is_compacted: bool = False
    leader_epoch: int = -1  # -1: it does not say
    has_points: bool = False  # there is a file of recovery points, and it should name this log
    is_whole: bool = True  # all of the directory is checked, not a few of its segments
    bases: frozenset[int] = field(default_factory=frozenset)  # when not
