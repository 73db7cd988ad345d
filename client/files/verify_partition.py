"""One log's directory: its segments in order, and the files beside them.

What must be there depends on how the broker ended. After a clean stop every file is written to its
end and the recovery point is the end of the log. After a crash the newest segment's indexes may be
short, and its last batch torn. While a broker runs, the newest segment grows under the reader.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from client.files.batches import LogBytes
from client.files.dump import TRANSACTION_ENTRY
from client.files.findings import RESET, Report
from client.files.texts import plural
from client.files.verify_index import IndexCheck
from client.files.verify_segment import LogState, Progress, SegmentCheck
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import OsFileSystem
from storage.files.text_files import read_leader_epochs, read_partition_metadata, uuid_text
from storage.producers.snapshot_format import decode_history, decode_snapshot

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


class PartitionCheck:
    """The check of one directory."""

    def __init__(
        self,
        report: Report,
        directory: str,
        expected: Expected,
        *,
        open_records: bool,
        progress: Progress,
    ) -> None:
        self._report = report
        self._directory = directory
        self._expected = expected
        self._filesystem = OsFileSystem()
        self._state = LogState(
            report,
            open_records=open_records,
            progress=progress,
            is_compacted=expected.is_compacted,
            epochs_may_lag=expected.ending != CLEAN,
            epochs_from=expected.log_start or 0,
            epoch_max=expected.leader_epoch,
        )

    def run(self) -> int:
        """Check everything; return the end offset (0 of an empty log). Raises OSError."""
        files = self._files()
        bases = sorted(files.get(filenames.LOG, ()))
        self._report.partition_count += 1
        self._state.epochs = self._leader_epochs(has_records=self._has_records(bases))
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            self._segment(base, following)
        self._tell_holes()
        self._orphans(files, bases)
        end = max(0, self._state.end_offset)
        self._side_files(files, end)
        if self._expected.is_whole:
            self._check_ends(bases, end)
            self._partition_metadata()
        return end

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _files(self) -> dict[str, set[int]]:
        """The segments' files: kind -> base offsets. What is on its way out is only noted."""
        found: dict[str, set[int]] = {}
        wanted = self._expected
        for base_name in self._filesystem.list(self._directory):
            name = filenames.parse(base_name)
            if name is None:
                self._report.note(
                    "unknown", self._path(base_name), "not a name of a data directory",
                    "the broker leaves it alone",
                )  # fmt: skip
            elif name.kind is Kind.QUARANTINE:
                self._report.note(
                    "quarantine", self._path(base_name),
                    f"bytes that a start cut from position {name.position} of the segment "
                    f"{name.base_offset}",
                    "they were not known to be durable when the broker crashed",
                    remedy="Look into it with `barnabas dump` or delete it",
                )  # fmt: skip
            elif name.transit == filenames.SWAP and name.file == filenames.LOG:
                self._report.note(
                    "compaction", self._path(base_name),
                    "a compacted segment that was not put in its place yet",
                    "the next start does so; what is in it is not checked before",
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

    def _segment(self, base: int, following: int | None) -> None:
        path = self._path(filenames.log_name(base))
        ending = self._expected.ending
        is_last = following is None
        index = IndexCheck(self._report, path, base, is_required=ending == CLEAN or not is_last)
        state = self._state
        if state.end_offset > base:
            self._report.damage(
                "order", path, f"the segment begins at {base}, but the one before it goes on to "
                f"offset {state.end_offset - 1}", "two files hold the same offsets",
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

    def _tell_holes(self) -> None:
        if self._state.is_compacted or not self._expected.is_whole:
            return
        for path, position, start, end in self._state.holes:
            self._report.damage(
                "missing", path, f"offset {start} is followed by {end}",
                f"{plural(end - start, 'record')} are missing, and the topic is not compacted",
                position=position, offset=start,
                remedy="Restore the missing segment from a backup. If the topic was compacted "
                "once, this is healthy: say so with --compacted",
            )  # fmt: skip

    def _orphans(self, files: dict[str, set[int]], bases: list[int]) -> None:
        for kind in (filenames.OFFSET_INDEX, filenames.TIME_INDEX, filenames.TRANSACTION_INDEX):
            for base in sorted(files.get(kind, set()) - set(bases)):
                path = self._path(filenames.segment_file(base, kind))
                if self._expected.ending == RUNNING:
                    continue  # a segment that is being deleted, or was just begun
                self._report.damage(
                    "missing", path, f"there is no {filenames.log_name(base)} beside it",
                    "the segment's records are gone, unless the segment was deleted on purpose",
                    offset=base,
                    remedy="Restore the .log file from a backup, or delete this file",
                )  # fmt: skip

    def _check_ends(self, bases: list[int], end: int) -> None:
        expected, directory = self._expected, self._directory
        point = expected.recovery_point
        if point is not None and point > end:
            self._report.damage(
                "missing", directory,
                f"the log ends at offset {end}, but up to {point} it was known to be on the disk",
                f"{plural(point - end, 'record')} are missing at its end", offset=end,
                remedy="Restore the log from a backup. The broker goes on at the recovery point "
                "and gives no offset out twice",
            )  # fmt: skip
        elif point is None and expected.ending == CLEAN and expected.has_points and end:
            self._report.cache(
                "checkpoint", directory,
                "recovery-point-offset-checkpoint does not name it after a clean stop",
                "the next start checks all of the log: it takes longer", remedy=RESET,
            )  # fmt: skip
        elif point is not None and expected.ending == CLEAN and point != end:
            self._report.cache(
                "checkpoint", directory,
                f"the log ends at offset {end}, but its recovery point is {point} after a clean "
                "stop", "the next start checks the log from there on: it takes longer",
                remedy=RESET,
            )  # fmt: skip
        start = expected.log_start
        if start is not None and start > end:
            self._report.cache(
                "checkpoint", directory,
                f"log-start-offset-checkpoint says {start}, but the log ends at offset {end}",
                "the broker does not go by it", remedy=RESET,
            )  # fmt: skip
        if not bases and point:
            return  # told above
        if not bases and expected.ending == CLEAN:
            self._report.damage(
                "missing", directory, "there is no .log file", "an open log has at least one"
            )

    def _leader_epochs(self, *, has_records: bool) -> list[tuple[int, int]]:
        path = self._path(filenames.LEADER_EPOCH_CHECKPOINT)
        meaning = "the epochs are read from the batches again"
        try:
            entries = read_leader_epochs(self._filesystem, path)
        except CheckpointError as error:
            self._report.cache("checkpoint", path, str(error), meaning, remedy=RESET)
            return []
        if self._filesystem.exists(path):
            self._report.file_count += 1
        elif has_records and self._expected.is_whole and self._expected.ending == CLEAN:
            self._report.cache("missing", path, "the file is missing", meaning)
        return entries

    def _partition_metadata(self) -> None:
        path = self._path(filenames.PARTITION_METADATA)
        meaning = "the broker cannot tell whether this log is the topic's or an older one's"
        remedy = "Write it with the topic id that `barnabas topics describe` shows"
        try:
            found = read_partition_metadata(self._filesystem, path)
        except CheckpointError as error:
            self._report.damage("identity", path, str(error), meaning, remedy=remedy)
            return
        wanted = self._expected.topic_id
        if found is None:
            if wanted is not None:
                self._report.cache(
                    "missing", path, "the file is missing",
                    "the broker writes it at the next start", remedy="Start the broker",
                )  # fmt: skip
            return
        self._report.file_count += 1
        if wanted is not None and found != wanted:
            self._report.damage(
                "identity", path,
                f"topic id {uuid_text(found)}, the metadata log says {uuid_text(wanted)}",
                "the directory belongs to another topic of that name: the broker puts it aside",
                remedy=remedy,
            )  # fmt: skip

    def _side_files(self, files: dict[str, set[int]], end: int) -> None:
        """Snapshots, our own additions to them, and lists of aborted transactions."""
        for offset in sorted(files.get(filenames.SNAPSHOT, ())):
            self._snapshot(offset, end)
        for offset in sorted(files.get(filenames.PRODUCERS, ())):
            path = self._path(filenames.producers_name(offset))
            try:
                decode_history(self._filesystem.read(path), path)
            except FileNotFoundError:
                continue
            except CheckpointError as error:
                self._snapshot_damage(path, error.reason)
            self._report.file_count += 1
        newest = filenames.snapshot_name(end)
        is_needed = bool(files.get(filenames.SNAPSHOT)) and self._expected.is_whole
        if is_needed and self._expected.ending == CLEAN and not os.path.exists(self._path(newest)):
            self._snapshot_damage(self._path(newest), "the file is missing after a clean stop")
        for base in sorted(files.get(filenames.TRANSACTION_INDEX, ())):
            self._transaction_index(base, end)

    def _snapshot(self, offset: int, end: int) -> None:
        path = self._path(filenames.snapshot_name(offset))
        wrong = ""
        try:
            entries = decode_snapshot(self._filesystem.read(path), path)
        except FileNotFoundError:
            return
        except CheckpointError as error:
            entries, wrong = [], error.reason
        self._report.file_count += 1
        newest = max((one.last_offset for entry in entries for one in entry.batches), default=-1)
        if newest >= offset:
            wrong = f"a batch at offset {newest}, but it is of offset {offset}"
        elif offset > end and self._expected.is_whole and self._expected.ending != RUNNING:
            wrong = wrong or f"it is of offset {offset}, but the log ends at {end}"
        if wrong:
            self._snapshot_damage(path, wrong)

    def _snapshot_damage(self, path: str, found: str) -> None:
        self._report.cache(
            "snapshot", path, found,
            "the state of idempotent producers is read from the log again, as far as it reaches",
        )  # fmt: skip

    def _transaction_index(self, base: int, end: int) -> None:
        path = self._path(filenames.transaction_index_name(base))
        data = self._filesystem.read(path)
        self._report.file_count += 1
        rest = len(data) % TRANSACTION_ENTRY.size
        wrong = f"{len(data)} bytes, wanted entries of {TRANSACTION_ENTRY.size}" if rest else ""
        whole = data[: len(data) - rest]
        for version, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(whole):
            if version != 0 or producer_id < 0 or not 0 <= first <= last < end or stable > end:
                wrong = (
                    f"version {version}, producer {producer_id}, offsets {first} to {last}, "
                    f"stable {stable}: wanted version 0 and offsets below {end}"
                )
                break
        if wrong:
            self._report.damage(
                "txnindex", path, wrong,
                "readers of committed records could be given aborted ones",
                remedy="Delete the file while the broker is stopped: Kafka builds it again",
            )  # fmt: skip
