"""The start of one log: retention, DeleteRecords, and producers that are idle for too long.

`storage.trimming` explains when clients see a new start, and when segments are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage import trimming
from storage.log_transactions import LogTransactions
from storage.segments.segment import Segment


class LogTrimming(LogTransactions):
    """One log, and what lets it begin later."""

    __slots__ = ()

    def delete_records_before(self, offset: int) -> None:
        """Let the log begin at `offset`, if it begins below.

        Clients see that once it is durable (`storage.trimming`). Raises OffsetOutOfRange for an
        offset above the durable offset.
        """
        trimming.move_start(self, offset)

    def segments_to_delete(self, now_ms: int) -> list[tuple[Segment, str]]:
        """Return the segments that retention would delete now, oldest first, each with the rule."""
        return trimming.segments_to_delete(self, now_ms)

    def apply_retention(self, now_ms: int) -> bool:
        """Let the log begin after the segments that retention deletes.

        Returns whether there are any. Once that is durable, `begin_deletion` deletes them.
        """
        return trimming.apply_retention(self, now_ms)

    def begin_deletion(self, now_ms: int, *, sync: bool = False) -> trimming.SegmentDeletion | None:
        """Return the job that deletes the segments below the start offset, if there are any.

        With `sync`, it deletes those below the next start offset, and makes that durable itself.
        """
        return trimming.begin_deletion(self, now_ms, sync=sync)

    def expire_producers(self, now_ms: int) -> Iterator[int]:
        """Forget idempotent producers that are idle for too long; yields how many, step by step."""
        return self.producers.expiring(now_ms, self.home.producer_expiration_ms)
