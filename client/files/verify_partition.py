"""One log's directory: which files it has, the order of its segments, and where the log ends.

`verify_segment` walks each segment, and `verify_side_files` checks the other files. For what is
expected of a log, see `verify_expected`.
"""

from __future__ import annotations

import os

from client.files.batches import LogBytes
from client.files.findings import RESET, Report
from client.files.texts import plural
from client.files.verify_epochs import EpochCheck
from client.files.verify_expected import CLEAN, RUNNING, Expected
from client.files.verify_index import IndexCheck
from client.files.verify_segment import LogState, Progress, SegmentCheck
from client.files.verify_side_files import SideFiles
from client.files.verify_transactions import TransactionCheck
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem


class PartitionCheck:
    """The check of one directory."""

    def __init__(
        self,
        report: Report,
        filesystem: FileSystem,
        directory: str,
        expected: Expected,
        *,
        open_records: bool,
        progress: Progress,
    ) -> None:
        self._report = report
        self._directory = directory
        self._expected = expected
        self._filesystem = filesystem
        self._side_files = SideFiles(report, filesystem, directory, expected)
        self._open_records = open_records
        self._progress = progress

    def run(self) -> None:
        """Check everything. Raises OSError."""
        files = self._files()
        bases = sorted(files.get(filenames.LOG, ()))
        self._report.partition_count += 1
        checkpoint = self._side_files.leader_epochs(has_records=self._has_records(bases))
        state = LogState(
            self._report,
            EpochCheck(self._report, checkpoint, self._expected),
            TransactionCheck(self._report, self._filesystem, self._directory, self._expected),
            open_records=self._open_records,
            progress=self._progress,
            is_compacted=self._expected.is_compacted,
        )
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            self._segment(state, base, following)
        self._tell_holes(state)
        self._orphans(files, bases)
        end = max(0, state.end_offset)
        self._side_files.producers(files, end)
        if self._expected.is_whole:
            self._check_ends(bases, end)
            self._side_files.partition_metadata()

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _files(self) -> dict[str, set[int]]:
        """Return the segments' files: kind -> base offsets. Files in transit are only noted."""
        found: dict[str, set[int]] = {}
        wanted = self._expected
        for base_name in self._filesystem.list(self._directory):
            name = filenames.parse(base_name)
            if name is None:
                self._report.note(
                    "unknown", self._path(base_name), "not a file of a data directory",
                    "the broker ignores it",
                )  # fmt: skip
            elif name.kind is Kind.QUARANTINE:
                self._report.note(
                    "quarantine", self._path(base_name),
                    f"bytes that recovery removed at position {name.position} of the segment "
                    f"{name.base_offset}",
                    "they were not known to be durable when the broker crashed",
                    remedy="Read it with `barnabas dump`, or delete it",
                )  # fmt: skip
            elif name.transit == filenames.SWAP and name.file == filenames.LOG:
                self._report.note(
                    "compaction", self._path(base_name),
                    "a compacted segment that has not replaced the original yet",
                    "the next start replaces it; its contents are not checked before",
                    remedy="Verify again after the next start",
                )  # fmt: skip
            elif (
                name.kind is Kind.SEGMENT
                and not name.transit
                and (wanted.is_whole or name.base_offset in wanted.bases)
            ):
                found.setdefault(name.file, set()).add(name.base_offset)
        return found

    def _has_records(self, bases: list[int]) -> bool:
        return any(self._filesystem.size(self._path(filenames.log_name(base))) for base in bases)

    def _segment(self, state: LogState, base: int, following: int | None) -> None:
        path = self._path(filenames.log_name(base))
        ending = self._expected.ending
        is_last = following is None
        index = IndexCheck(
            self._report,
            self._filesystem,
            path,
            base,
            is_required=ending == CLEAN or not is_last,
        )
        if state.end_offset > base:
            self._report.damage(
                "order", path, f"the segment begins at {base}, but the one before it ends at "
                f"offset {state.end_offset - 1}", "two files contain the same offsets",
            )  # fmt: skip
            state.end_offset = base
        elif 0 <= state.end_offset < base:
            state.holes.append((path, -1, state.end_offset, base))
            state.end_offset = base
        try:
            file = self._filesystem.open(path, write=False)
        except FileNotFoundError:
            return  # a running broker has just deleted it
        try:
            source = LogBytes(file)
            index.check_presence(source.size)
            self._report.file_count += 1
            SegmentCheck(
                state, path, source, base, next_base=following, index=index,
                may_grow=is_last and ending == RUNNING,
            ).run()  # fmt: skip
        finally:
            file.close()
        state.transactions.compare(base)

    def _tell_holes(self, state: LogState) -> None:
        if state.is_compacted or not self._expected.is_whole:
            return
        for path, position, start, end in state.holes:
            self._report.damage(
                "missing", path, f"offset {start} is followed by {end}",
                f"{plural(end - start, 'record')} are missing, and the topic is not compacted",
                position=position, offset=start,
                remedy="Restore the missing segment from a backup. If the topic was compacted "
                "before, this is healthy: pass --compacted",
            )  # fmt: skip

    def _orphans(self, files: dict[str, set[int]], bases: list[int]) -> None:
        for kind in (filenames.OFFSET_INDEX, filenames.TIME_INDEX, filenames.TRANSACTION_INDEX):
            for base in sorted(files.get(kind, set()) - set(bases)):
                path = self._path(filenames.segment_file(base, kind))
                if self._expected.ending == RUNNING:
                    continue  # a segment that is being deleted, or was just created
                self._report.damage(
                    "missing", path, f"there is no {filenames.log_name(base)} beside it",
                    "the segment's records are lost, unless the segment was deleted on purpose",
                    offset=base,
                    remedy="Restore the .log file from a backup, or delete this file",
                )  # fmt: skip

    def _check_ends(self, bases: list[int], end: int) -> None:
        expected, directory = self._expected, self._directory
        point = expected.recovery_point
        if point is not None and point > end:
            self._report.damage(
                "missing", directory,
                f"the log ends at offset {end}, but was known to be on disk up to {point}",
                f"{plural(point - end, 'record')} are missing at its end", offset=end,
                remedy="Restore the log from a backup. The broker continues at the recovery point, "
                "and assigns no offset twice",
            )  # fmt: skip
        elif point is None and expected.ending == CLEAN and expected.has_points and end:
            self._report.cache(
                "checkpoint", directory,
                "recovery-point-offset-checkpoint does not include it after a clean stop",
                "the next start checks the whole log, which takes longer", remedy=RESET,
            )  # fmt: skip
        elif point is not None and expected.ending == CLEAN and point != end:
            self._report.cache(
                "checkpoint", directory,
                f"the log ends at offset {end}, but its recovery point is {point} after a clean "
                "stop", "the next start checks the log from there on, which takes longer",
                remedy=RESET,
            )  # fmt: skip
        start = expected.log_start
        if start is not None and start > end:
            self._report.cache(
                "checkpoint", directory,
                f"log-start-offset-checkpoint says {start}, but the log ends at offset {end}",
                "the broker ignores it", remedy=RESET,
            )  # fmt: skip
        if not bases and point:
            return  # told above
        if not bases and expected.ending == CLEAN:
            self._report.damage(
                "missing", directory, "there is no .log file", "an open log has at least one"
            )
