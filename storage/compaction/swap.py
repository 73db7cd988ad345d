"""One pass of compaction over one log: which files come and go, in which order.

Neighbouring segments are merged, as many as fit into segment.bytes. For each such group:

    1  <base>.log.cleaned and its indexes are made               thrown away by a restart
    2  what stays of the group is copied there, and synced
    3  .cleaned -> .swap, the log first; the directory synced     a restart goes on from here
    4  the group's files -> .deleted, in the order of offsets;
       .swap -> the final names; the directory synced

(Kafka: LocalLog.replaceSegments; `storage.opening.swap_recovery` is the restart's part.) A pass is
a generator. What it does itself is quick, changes names and the state of the log, and is for the
caller's thread; what it yields waits for the disk, and is for another thread. The caller runs that
and resumes the pass, with `throw` if it failed. A yielded None asks to be resumed a little later.

Readers notice nothing: a slice that was handed out holds its file open, whatever that is called
by now, and between 3 and 4 the caller's thread serves nobody. Nor do appends, which go to the
active segment. Retention waits (`Segments.held`). A group is given up where the log has failed or
was closed meanwhile, and any error ends the pass with the group's old segments in place.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from storage import failing
from storage.compaction.cleanable import Cleanable
from storage.compaction.copier import Copier, Proceed, Rules, Source, Tally, index_keys
from storage.compaction.key_map import KeyMap
from storage.errors import LogFailed
from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.open_files import OpenFiles
from storage.log import Log
from storage.segments.offset_index import RELATIVE_OFFSET_MAX
from storage.segments.segment import Segment

Job = Callable[[], None]
Steps = Generator[Job | None, None, "Outcome"]

OWN_FILES_MAX = 8  # of a cleaned segment there are three
GROUP_SEGMENTS_MAX = 32  # of three or four files each


class Part(NamedTuple):
    """One segment of the log, and what is read of it."""

    segment: Segment
    source: Source


class CompactionAborted(Exception):
    """The pass was told to end, or its log is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a pass may use. `salt` is 16 random bytes, `proceed` is called in the other thread."""

    map_bytes_max: int
    map_load_factor: float
    decompressed_bytes_max: int
    salt: bytes
    proceed: Proceed


@dataclass(slots=True)
class Outcome:
    """What a pass has done: it is clean up to `end_offset` now."""

    start_offset: int
    end_offset: int
    tally: Tally = field(default_factory=Tally)
    segments_before: int = 0
    segments_after: int = 0
    map_bytes: int = 0
    keys: int = 0


def compact(log: Log, part: Cleanable, limits: Limits, now_ms: int) -> Steps:
    """Clean the dirty `part` of a log, as far as the map holds its keys. Returns the outcome.

    Raises CompactionAborted; DamagedLog, LogFailed, OSError with the log as it was, but for groups
    already swapped in.
    """
    log.segments.held = True
    try:
        outcome = yield from _Pass(log, part, limits, now_ms).steps()
    finally:
        log.segments.held = False
    log.segments.cleaned_offset = outcome.end_offset
    log.home.checkpoint_changes += 1
    return outcome


class _Pass:
    """The work of `compact`."""

    def __init__(self, log: Log, part: Cleanable, limits: Limits, now_ms: int) -> None:
        self.log = log
        self.part = part
        self.limits = limits
        self.now_ms = now_ms
        self.parts = _parts(log, part.end_offset)
        self.outcome = Outcome(part.start_offset, part.start_offset)

    def steps(self) -> Steps:
        """Index the keys, then group by group: copy, swap."""
        outcome, limits, part = self.outcome, self.limits, self.part
        yield partial(_remove_leftovers, self.log)
        keys = KeyMap(
            limits.map_bytes_max,
            limits.map_load_factor,
            part.end_offset - part.start_offset,  # of no more records can there be keys
            limits.salt,
        )
        dirty = [p.source for p in self.parts if p.source.end_offset > part.start_offset]

        def index() -> None:
            outcome.end_offset = index_keys(
                dirty,
                part.start_offset,
                keys,
                limits.decompressed_bytes_max,
                limits.proceed,
            )

        groups: list[list[Part]] = []

        def group_segments() -> None:  # asks their indexes, which no append changes any more
            wanted = [p for p in self.parts if p.segment.base_offset < outcome.end_offset]
            groups.extend(grouped(wanted, _size_max(self.log), self.log.config.segment_index_bytes))

        yield index
        yield group_segments
        outcome.keys, outcome.map_bytes = keys.size, keys.size_bytes
        rules = Rules(
            now_ms=self.now_ms,
            delete_retention_ms=self.log.config.delete_retention_ms,
            end_offset=part.end_offset,
            decompressed_bytes_max=limits.decompressed_bytes_max,
        )
        copier = Copier(keys, outcome.end_offset, rules, limits.proceed, outcome.tally)
        for group in groups:
            self._check()
            yield from self._clean_group(group, copier)
            outcome.segments_before += len(group)
            outcome.segments_after += 1
        return outcome

    def _check(self, group: Sequence[Part] = ()) -> None:
        if self.log.failed is not None:
            raise CompactionAborted(str(self.log.failed))
        if any(part.segment not in self.log.segments.all for part in group):
            raise CompactionAborted("a checkpoint has put another object in a segment's place")

    def _clean_group(self, group: list[Part], copier: Copier) -> Generator[Job | None, None, None]:
        log = self.log
        cleaned = _Cleaned(log, group)
        is_changed = False

        def copy() -> None:
            nonlocal is_changed
            cleaned.make()
            sources = [part.source for part in group]
            is_changed = copier.copy_live(sources, cleaned.segment, log.producers)
            cleaned.sync()

        try:
            yield copy
            self._check(group)
            if not is_changed and len(group) == 1:
                yield cleaned.remove
                return
            yield cleaned.begin_swap
            self._check(group)
            while log.is_checkpointing:  # it may be writing indexes, by name
                yield None
                yield cleaned.look
                self._check(group)
            cleaned.swap_in(self.now_ms)
        except Exception:
            yield cleaned.remove
            raise
        yield cleaned.sync_directory


class _Cleaned:
    """A segment in the making: private files under names in transit, then part of the log."""

    def __init__(self, log: Log, group: list[Part]) -> None:
        self._log = log
        self._group = group
        self._filesystem: FileSystem = log.home.filesystem
        self._files = OpenFiles(self._filesystem, OWN_FILES_MAX)
        self.segment = self._open(self._files, 0)
        self._paths = self.segment.files.paths()
        self._old_paths: list[str] = []

    def make(self) -> None:
        """Make the files. Blocks."""
        for part in (self.segment.log_file, self.segment.indexes.offset, self.segment.indexes.time):
            part.path = _in_transit(part.path, filenames.CLEANED)
            self._files.get(part.path, create=True)
        self._copy_aborts()

    def _open(self, files: OpenFiles, size: int) -> Segment:
        config = self._log.config
        return Segment(
            files,
            self._log.directory,
            self._group[0].segment.base_offset,
            size=size,
            index_interval_bytes=config.index_interval_bytes,
            index_size_max=config.segment_index_bytes,
            created_ms=max(part.segment.created_ms for part in self._group),
        )

    def _copy_aborts(self) -> None:
        """Take the lists of aborted transactions along: no entry depends on the segment."""
        aborts = b"".join(
            self._filesystem.read(path)
            for part in self._group
            for path in part.segment.files.existing()
            if path.endswith(filenames.TRANSACTION_INDEX)
        )
        if aborts:
            path = posixpath.join(
                self._log.directory, filenames.transaction_index_name(self.segment.base_offset)
            )
            self._paths.append(path)
            file = self._files.get(_in_transit(path, filenames.CLEANED), create=True)
            file.pwrite(aborts, 0)

    def sync(self) -> None:
        """Make the files durable. Blocks."""
        for path in self._paths:
            self._files.get(_in_transit(path, filenames.CLEANED)).fdatasync()

    def sync_directory(self) -> None:
        """Make names durable. Blocks."""
        self._filesystem.sync_directory(self._log.directory)

    def begin_swap(self) -> None:
        """Give the files their names before the last, the log first, for good. Blocks."""
        with self._log.lease.use() as is_ours:
            if is_ours:
                for path in self._paths:
                    self._filesystem.rename(
                        _in_transit(path, filenames.CLEANED), _in_transit(path, filenames.SWAP)
                    )
                self.sync_directory()
                self.look()

    def look(self) -> None:
        """See which files the sources have. Blocks."""
        self._old_paths = [path for part in self._group for path in part.segment.files.existing()]

    def remove(self) -> None:
        """Remove the files that have their names in transit. Blocks."""
        with self._log.lease.use() as is_ours:
            if not is_ours or self._log.failed is not None:
                return  # the names may be another log's, or are needed by the next start
            for transit in (filenames.CLEANED, filenames.SWAP):
                for path in self._paths:
                    with suppress(FileNotFoundError):
                        self._filesystem.unlink(_in_transit(path, transit))

    def swap_in(self, now_ms: int) -> None:
        """Put the segment into the place of its sources, in the directory and in the log."""
        log, sources = self._log, [part.segment for part in self._group]
        old_paths = self._old_paths
        _rename_all(
            log,
            [(path, filenames.deleted(path)) for path in old_paths]
            + [(_in_transit(path, filenames.SWAP), path) for path in self._paths],
        )
        for segment in sources:
            segment.files.note_deleted()
        due_ms = now_ms + log.config.file_delete_delay_ms
        for path in old_paths:
            log.home.files.forget(filenames.deleted(path))
            log.home.trash.toss(due_ms, filenames.deleted(path))
        merged = self._open(log.home.files, self.segment.size)
        merged.next_offset = self.segment.next_offset
        log.segments.merge(sources, merged)


def _rename_all(log: Log, names: Sequence[tuple[str, str]]) -> None:
    """Rename all files, or none. Raises OSError; fails the log if it cannot be undone."""
    done: list[tuple[str, str]] = []
    try:
        for old, new in names:
            log.home.files.rename(old, new)
            done.append((old, new))
    except OSError as error:
        try:
            for old, new in reversed(done):
                log.home.files.rename(new, old)
        except OSError:
            reason = f"segments are renamed in part: {error}"
            failing.fail(log, LogFailed(log.directory, reason))
        raise


def _parts(log: Log, end_offset: int) -> list[Part]:
    """The segments below `end_offset`."""
    segments = log.segments.all
    return [
        Part(
            segment,
            Source(segment.log_file, segment.base_offset, after.base_offset),
        )
        for segment, after in pairwise(segments)
        if after.base_offset <= end_offset
    ]


def _size_max(log: Log) -> int:
    return log.config.internal_segment_bytes or log.config.segment_bytes


def grouped(parts: Sequence[Part], size_max: int, index_size_max: int) -> list[list[Part]]:
    """Say which neighbours are merged: so that bytes, indexes and offsets fit one segment.

    Sizes are those before the cleaning (Kafka: Cleaner.groupSegmentsBySize). Unlike Kafka's, a
    group has a bounded number of files: they are renamed in one step of the loop.
    """
    groups: list[list[Part]] = []
    sizes = [0, 0, 0]
    for part in parts:
        segment, source = part
        own = [source.size, segment.indexes.offset.size_bytes, segment.indexes.time.size_bytes]
        both = [size + more for size, more in zip(sizes, own, strict=True)]
        base_offset = groups[-1][0].segment.base_offset if groups else 0
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and both[0] <= size_max
            and max(both[1:]) <= index_size_max
            and (not source.size or source.end_offset - 1 - base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(part)
            sizes = both
        else:
            groups.append([part])
            sizes = own
    return groups


def _remove_leftovers(log: Log) -> None:
    """Remove what a pass that failed before has left; the log has gone on without it. Blocks."""
    directory = log.directory
    with log.lease.use() as is_ours:
        for file_name in log.home.filesystem.list(directory) if is_ours else ():
            name = filenames.parse(file_name)
            if name is not None and name.transit in (filenames.CLEANED, filenames.SWAP):
                log.home.filesystem.unlink(posixpath.join(directory, file_name))


def _in_transit(path: str, transit: str) -> str:
    return f"{path}.{transit}"
