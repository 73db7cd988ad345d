"""What is expected of a log's directory, by the rest of the data directory.

It depends on how the broker ended. After a clean stop every file is complete and the recovery point
is the end of the log. After a crash the newest segment's indexes may be short, and its last batch
torn. While a broker is running, the newest segment grows as it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CLEAN, CRASHED, RUNNING = "clean", "crashed", "running"


@dataclass(slots=True, kw_only=True)
class Expected:
    """What the rest of the data directory says about a log. None: nothing."""

    ending: str = CRASHED
    recovery_point: int | None = None
    log_start: int | None = None
    topic_id: bytes | None = None
    is_compacted: bool = False
    leader_epoch: int = -1  # -1: not known
    has_points: bool = False  # the recovery points are known, and should include this log
    is_whole: bool = True  # the whole directory is checked, not a few of its segments
    bases: frozenset[int] = field(
        default_factory=frozenset
    )  # of the segments that are checked, if not all
