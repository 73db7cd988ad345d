"""One pass of compaction over one log: index the keys, then copy and swap group by group.

    1  remove the `.cleaned` and `.swap` files that a failed pass left
    2  put the keys of the dirty part into the key map               `storage.compaction.copier`
    3  group neighbouring segments                                   `storage.compaction.grouping`
    4  for each group: copy what stays into one new segment          `storage.compaction.copier`
       and replace the group by it                                   `storage.compaction.swap`

A pass is a generator. Its own steps are quick, change names and the log's state, and run on the
caller's thread. The jobs it yields wait for the disk; the caller runs each in another thread and
then resumes the pass, with `throw` if the job failed. A yielded None asks to be resumed a little
later.

Each group that is swapped moves the cleaned offset. So it is known where holes are, also during a
long pass and after one that fails. When `cleanup.policy` loses compact, any other hole is damage.

Readers are not disturbed: a slice keeps its file open under any name, and the caller's thread
serves no reads while it swaps a group. Appends go to the active segment, which is never compacted.
Deletions of segments wait; a pass does not begin during one (`Segments.held`). A group is abandoned
if the log fails or is closed; any error ends the pass and leaves the group's old segments in place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial

from storage.compaction.cleanable import Cleanable
from storage.compaction.copier import Copier, KeepRules, PassCounts, index_keys
from storage.compaction.grouping import (
    SourceSegment,
    appended_after,
    grouped,
    source_segments,
)
from storage.compaction.key_map import KeyMap
from storage.compaction.outcomes import Outcomes
from storage.compaction.swap import Swap, remove_leftovers
from storage.log import Log
from storage.segments.checked_batches import Proceed
from storage.segments.row import abort_tallies

Job = Callable[[], None]
Steps = Generator[Job | None, None, "PassResult"]


class CompactionAborted(Exception):
    """The pass was told to end, or its log has failed, was closed, or is losing segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLimits:
    """The limits of a pass. `salt` is 16 random bytes; `proceed` is called in the other thread."""

    map_bytes_max: int
    map_load_factor: float
    decompressed_bytes_max: int
    salt: bytes
    proceed: Proceed


@dataclass(slots=True)
class PassResult:
    """What a pass has done: the log is clean up to `end_offset` now."""

    start_offset: int
    end_offset: int
    counts: PassCounts = field(default_factory=PassCounts)
    segments_before: int = 0
    segments_after: int = 0
    map_bytes: int = 0
    keys: int = 0


def compact(log: Log, cleanable: Cleanable, limits: PassLimits, now_ms: int) -> Steps:
    """Compact the dirty part of a log, as far as the map has room for its keys.

    Returns the result. Raises CompactionAborted, DamagedLog, LogFailed, OSError; only the groups
    that were swapped before are changed then.
    """
    if log.segments.held:
        raise CompactionAborted("segments of the log are being deleted")
    log.segments.held = True
    log.segments.cleaned.has_begun = True
    had_aborts = bool(log.segments.aborting)
    try:
        result = yield from _Pass(log, cleanable, limits, now_ms).steps()
    finally:
        log.segments.held = False
    log.segments.cleaned.offset = result.end_offset
    if had_aborts or log.segments.aborting:  # what the last snapshot says of them is out of date
        log.snapshots.take(log.producers, abort_tallies(log.segments.aborting), again=True)
    log.home.checkpoint_changes += 1
    return result


class _Pass:
    """The work of `compact`."""

    def __init__(self, log: Log, cleanable: Cleanable, limits: PassLimits, now_ms: int) -> None:
        self.log = log
        self.cleanable = cleanable
        self.limits = limits
        self.now_ms = now_ms
        self.sources = source_segments(log, cleanable.end_offset)
        self.outcomes = Outcomes(
            [one.file for one in self.sources],
            appended_after(log, cleanable.end_offset),
            limits.proceed,
        )
        self.result = PassResult(cleanable.start_offset, cleanable.start_offset)

    def steps(self) -> Steps:
        """Index the keys, then group by group: copy, swap."""
        result, limits, dirty = self.result, self.limits, self.cleanable
        yield partial(remove_leftovers, self.log)
        keys = KeyMap(
            limits.map_bytes_max,
            limits.map_load_factor,
            dirty.end_offset - dirty.start_offset,  # one key per offset at most
            limits.salt,
        )
        files = [one.file for one in self.sources if one.file.end_offset > dirty.start_offset]

        def index() -> None:
            result.end_offset = index_keys(
                files,
                dirty.start_offset,
                keys,
                self.outcomes,
                limits.decompressed_bytes_max,
                limits.proceed,
            )

        groups: list[list[SourceSegment]] = []

        def group_segments() -> None:  # reads indexes that no append changes any more
            wanted = [one for one in self.sources if one.segment.base_offset < result.end_offset]
            groups.extend(grouped(wanted, _size_max(self.log), self.log.config.segment_index_bytes))

        yield index
        yield group_segments
        result.keys, result.map_bytes = keys.size, keys.size_bytes
        rules = KeepRules(
            now_ms=self.now_ms,
            delete_retention_ms=self.log.config.delete_retention_ms,
            end_offset=dirty.end_offset,
            decompressed_bytes_max=limits.decompressed_bytes_max,
        )
        copier = Copier(
            keys, result.end_offset, self.outcomes, rules, limits.proceed, result.counts
        )
        for group in groups:
            self._check()
            yield from self._compact_group(group, copier)
            result.segments_before += len(group)
            result.segments_after += 1
        return result

    def _check(self, group: Sequence[SourceSegment] = ()) -> None:
        if self.log.failed is not None:
            raise CompactionAborted(str(self.log.failed))
        if any(one.segment not in self.log.segments.all for one in group):
            raise CompactionAborted("a checkpoint has replaced a segment")

    def _note_cleaned(self, group: Sequence[SourceSegment]) -> None:
        """Note that the log is clean up to the end of a group, as far as its keys are known."""
        segments = self.log.segments
        reached = min(group[-1].file.end_offset, self.result.end_offset)
        if reached > segments.cleaned.offset:
            segments.cleaned.offset = reached
            self.log.home.checkpoint_changes += 1

    def _compact_group(
        self, group: list[SourceSegment], copier: Copier
    ) -> Generator[Job | None, None, None]:
        log = self.log
        swap = Swap(log, group)
        is_changed = False

        def copy() -> None:
            nonlocal is_changed
            swap.make()
            files = [one.file for one in group]
            is_changed = copier.copy_live(files, swap.cleaned, log.producers)
            swap.take_aborts(copier.aborts)
            swap.sync()

        try:
            yield copy
            self._check(group)
            if not is_changed and len(group) == 1:
                yield swap.remove
                return
            yield swap.begin_swap
            self._check(group)
            while log.is_checkpointing:  # it may be writing indexes by name
                yield None
                yield swap.look
                self._check(group)
            swap.swap_in(self.now_ms)
            self._note_cleaned(group)
        except Exception:
            yield swap.remove
            raise
        yield swap.sync_directory


def _size_max(log: Log) -> int:
    return log.config.segment_bytes_max
