"""The metadata log of a data directory, its snapshots, and Kafka's quorum state beside it."""

from __future__ import annotations

import json
import os

from broker.metadata.image import ClusterImage
from broker.metadata.image_loading import load_image, read_snapshot
from client.files.findings import Report
from storage.errors import CorruptMetadata
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem

_REMEDY = (
    "Keep a copy of the directory. Restore __cluster_metadata-0 from a backup: without it the "
    "broker does not know its topics, and refuses to start"
)


class MetadataCheck:
    """The checks of one run; findings go into `report`."""

    def __init__(self, report: Report, filesystem: FileSystem) -> None:
        self._report = report
        self._filesystem = filesystem

    def log(self, home: str, recovery_point: int) -> ClusterImage | None:
        """Check a data directory's log; return its image, None if it cannot be read."""
        directory = os.path.join(home, filenames.METADATA_DIRECTORY)
        if not self._filesystem.is_directory(directory):
            self._report.damage(
                "metadata", directory, "the directory is missing",
                "the broker does not know its topics", remedy=_REMEDY,
            )  # fmt: skip
            return None
        image = None
        try:
            result = load_image(self._filesystem, directory, recovery_point=recovery_point)
            image = result.image
        except CorruptMetadata as error:
            self._report.damage(
                "metadata", error.path, error.reason, "the broker refuses to start",
                remedy=_REMEDY,
            )  # fmt: skip
        else:
            for warning in result.warnings:
                self._report.note("metadata", directory, warning, "it is not needed")
        for base_name in self._filesystem.list(directory):
            name = filenames.parse(base_name)
            if name and name.kind is Kind.METADATA_SNAPSHOT and not name.transit:
                self.snapshot(os.path.join(directory, base_name))
        self._quorum_state(os.path.join(directory, filenames.QUORUM_STATE))
        return image

    def snapshot(self, path: str) -> None:
        """Check one snapshot."""
        self._report.file_count += 1
        try:
            read_snapshot(self._filesystem, path)
        except CorruptMetadata as error:
            self._report.damage(
                "metadata", path, error.reason,
                "the metadata up to it can only be read from the log before it, if that still "
                "exists", remedy=_REMEDY,
            )  # fmt: skip

    def _quorum_state(self, path: str) -> None:
        try:
            state = json.loads(self._filesystem.read(path))
        except FileNotFoundError:
            return
        except ValueError as error:
            state = str(error)
        self._report.file_count += 1
        if not isinstance(state, dict) or "leaderEpoch" not in state:
            self._report.cache(
                "checkpoint", path, f"not Kafka's quorum state: {str(state)[:80]}",
                "only Kafka reads it, and would not start",
                remedy="Delete the file before starting Kafka on the directory",
            )  # fmt: skip
