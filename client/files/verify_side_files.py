"""The files beside a log's segments: epochs, identity, producers, aborted transactions.

leader-epoch-checkpoint   the first offset of each leader epoch
partition.metadata        the id of the topic that the directory belongs to
.snapshot, .producers     the state of idempotent producers at an offset
.txnindex                 a segment's aborted transactions
"""

from __future__ import annotations

import os

from client.files.dump import TRANSACTION_ENTRY
from client.files.findings import RESET, Report
from client.files.verify_expected import CLEAN, RUNNING, Expected
from client.files.verify_transactions import ANEW
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.text_files import read_leader_epochs, read_partition_metadata, uuid_text
from storage.producers.snapshot_format import decode_history, decode_snapshot


class SideFiles:
    """The side files of one directory; each is checked by itself."""

    def __init__(
        self, report: Report, filesystem: FileSystem, directory: str, expected: Expected
    ) -> None:
        self._report = report
        self._filesystem = filesystem
        self._directory = directory
        self._expected = expected

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def leader_epochs(self, *, has_records: bool) -> list[tuple[int, int]]:
        """Check leader-epoch-checkpoint; return its (epoch, first offset), none if damaged."""
        path = self._path(filenames.LEADER_EPOCH_CHECKPOINT)
        meaning = "the broker reads the epochs from the batches again"
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

    def partition_metadata(self) -> None:
        """Check which topic the directory belongs to."""
        path = self._path(filenames.PARTITION_METADATA)
        meaning = "the broker cannot tell whether this log belongs to the topic or to an older one"
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
                "the directory belongs to another topic of that name: the broker sets it aside",
                remedy=remedy,
            )  # fmt: skip

    def producers(self, files: dict[str, set[int]], end: int) -> None:
        """Check snapshots, Barnabas' additions to them, and indexes of aborted transactions."""
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
        is_needed = is_needed and self._expected.ending == CLEAN
        if is_needed and not self._filesystem.exists(self._path(newest)):
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
            wrong = f"has a batch at offset {newest}, but is a snapshot at offset {offset}"
        elif offset > end and self._expected.is_whole and self._expected.ending != RUNNING:
            wrong = wrong or f"is a snapshot at offset {offset}, but the log ends at {end}"
        if wrong:
            self._snapshot_damage(path, wrong)

    def _snapshot_damage(self, path: str, found: str) -> None:
        self._report.cache(
            "snapshot", path, found,
            "the state of idempotent producers is rebuilt from the log, as far as it goes back",
        )  # fmt: skip

    def _transaction_index(self, base: int, end: int) -> None:
        path = self._path(filenames.transaction_index_name(base))
        data = self._filesystem.read(path)
        self._report.file_count += 1
        rest = len(data) % TRANSACTION_ENTRY.size
        wrong = f"{len(data)} bytes, expected entries of {TRANSACTION_ENTRY.size}" if rest else ""
        whole = data[: len(data) - rest]
        for version, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(whole):
            if version != 0 or producer_id < 0 or not 0 <= first <= last < end or stable > end:
                wrong = (
                    f"version {version}, producer {producer_id}, offsets {first} to {last}, "
                    f"stable {stable}: expected version 0 and offsets below {end}"
                )
                break
        if wrong:
            self._report.cache(
                "txnindex", path, wrong,
                "consumers that read only committed records could get aborted ones", remedy=ANEW,
            )  # fmt: skip
