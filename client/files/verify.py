"""`verify`'s way through its paths: a data directory, a partition, or single files.

A data directory is checked from the top: its identity, how its broker ended, the checkpoints, the
metadata log with its snapshots, every log, and that each partition in the metadata log has a
directory. Nothing is opened for writing.

A running broker deletes topics and segments, and compacts, while they are checked, and files of
before beside files of after look damaged. So what is not sound there is looked at again: damage
stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Final

from client.files.findings import Report
from client.files.verify_expected import RUNNING, Expected
from client.files.verify_home import Home, HomeCheck, is_data_directory
from client.files.verify_metadata import MetadataCheck
from client.files.verify_partition import PartitionCheck
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem

LOOKS_MAX: Final = 4  # at a log of a running broker


class NotVerifiable(Exception):
    """The path cannot be checked; the text says what can."""


class Verification:
    """A check of some paths, collected in one report."""

    def __init__(
        self,
        filesystem: FileSystem,
        *,
        open_records: bool = False,
        all_compacted: bool = False,
        progress: Callable[[int], None] = lambda _count: None,
        began: Callable[[str], None] = lambda _path: None,
    ) -> None:
        self.report = Report()
        self.holder: int | None = None  # process id of a broker that uses what is checked
        self._filesystem = filesystem
        self._open_records = open_records
        self._all_compacted = all_compacted
        self._progress = progress
        self._began = began

    def run(self, paths: Iterable[str]) -> Report:
        """Check everything. Raises NotVerifiable and OSError."""
        for path in paths:
            if not self._filesystem.is_directory(path):
                self._file(path)
            elif is_data_directory(self._filesystem, path):
                self._data_directory(path)
            elif self._is_partition(path):
                self._partition(os.path.abspath(path), self._home_of(os.path.abspath(path)))
            else:
                raise NotVerifiable(
                    f"{path}: neither a data directory (no meta.properties) nor a partition's "
                    "(no <20 digits>.log); pass the directory that log.dirs names"
                )
        return self.report

    def _file(self, path: str) -> None:
        name = filenames.parse(os.path.basename(path))
        if not self._filesystem.exists(path):
            raise NotVerifiable(f"{path}: no such file or directory")
        directory = os.path.dirname(os.path.abspath(path))
        if name is not None and name.kind is Kind.METADATA_SNAPSHOT:
            MetadataCheck(self.report, self._filesystem).snapshot(path)
            return
        if name is None or name.kind is not Kind.SEGMENT or name.transit:
            raise NotVerifiable(
                f"{path}: expected a directory, a segment's file (<20 digits>.log, .index, "
                ".timeindex, .snapshot, .producers, .txnindex) or a metadata snapshot"
            )
        expected = Expected(
            ending=self._home_of(directory).ending,
            is_whole=False,
            bases=frozenset([name.base_offset]),
        )
        self._check(directory, expected)

    def _check(self, directory: str, expected: Expected) -> None:
        self._began(directory)
        looks_left = LOOKS_MAX if expected.ending == RUNNING else 1
        while looks_left:
            looks_left -= 1
            report = Report()
            check = PartitionCheck(
                report, self._filesystem, directory, expected,
                open_records=self._open_records, progress=self._progress,
            )  # fmt: skip
            try:
                check.run()
            except FileNotFoundError:
                if expected.ending == RUNNING and not self._filesystem.exists(directory):
                    return  # its topic was deleted
                if not looks_left:
                    raise
            else:
                if report.is_sound or not looks_left:
                    self.report.take(report)
                    return

    def _partition(self, directory: str, home: Home) -> None:
        name = filenames.parse(os.path.basename(directory))
        if name is not None and name.kind is Kind.PARTITION:
            expected = home.expected(name.topic, name.partition)
        else:
            expected = Expected(ending=home.ending, is_compacted=self._all_compacted)
        self._check(directory, expected)

    def _home_of(self, directory: str) -> Home:
        """Read the data directory around a partition, if any, without reporting its own damage."""
        parent = os.path.dirname(directory)
        if not is_data_directory(self._filesystem, parent):
            return Home(path=parent, all_compacted=self._all_compacted)
        return self._read(self._home_check(Report(), parent))

    def _home_check(self, report: Report, path: str) -> HomeCheck:
        return HomeCheck(report, self._filesystem, path, all_compacted=self._all_compacted)

    def _read(self, check: HomeCheck) -> Home:
        home = check.read()
        if self.holder is None:
            self.holder = home.holder
        return home

    def _data_directory(self, path: str) -> None:
        check = self._home_check(self.report, path)
        home = self._read(check)
        check.meta_properties()
        check.clean_marker()
        logs = {}
        for base_name in self._filesystem.list(path):
            name = filenames.parse(base_name)
            full = os.path.join(path, base_name)
            if name is None:
                self.report.note(
                    "unknown", full, "not a file of a data directory", "the broker ignores it"
                )
            elif name.kind is Kind.PARTITION and self._filesystem.is_directory(full):
                logs[name.topic, name.partition] = full
            elif name.kind is Kind.MOVED_PARTITION and name.transit == "stray":
                check.note_put_aside(full)
        for key, full in sorted(logs.items()):
            check.note_stray(*key, full)
            self._partition(full, home)
        check.missing_logs(logs)
        check.points_of_nobody(logs)
        bootstrap = os.path.join(path, filenames.BOOTSTRAP_CHECKPOINT)
        if self._filesystem.exists(bootstrap):
            MetadataCheck(self.report, self._filesystem).snapshot(bootstrap)

    def _is_partition(self, path: str) -> bool:
        if filenames.parse(os.path.basename(os.path.abspath(path))):
            return True
        return any(
            (name := filenames.parse(base)) is not None and name.kind is Kind.SEGMENT
            for base in self._filesystem.list(path)
        )


def log_bytes(paths: Iterable[str]) -> int:
    """Return the total size of the `.log` files below some paths, for a progress bar."""
    total = 0
    for path in paths:
        if os.path.isfile(path):
            total += os.path.getsize(path) if path.endswith(".log") else 0
        for directory, _, names in os.walk(path):
            for name in names:
                if name.endswith(".log"):
                    try:
                        total += os.path.getsize(os.path.join(directory, name))
                    except FileNotFoundError:
                        continue
    return total
