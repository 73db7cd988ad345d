"""The two jobs of a log that wait for the disk, made so that another thread may do the waiting.

    begin_…()   on the caller's thread: captures which open files and which bytes
    run()       in a pool thread: fdatasync, small files written; touches only what was captured
    finish_…()  on the caller's thread again: the log takes note of the outcome

Between begin and finish the log may be appended to, rolled, trimmed or deleted: the captured
`File`s stay open as long as they are held here, renamed or unlinked or not, and nothing else
of the log is looked at.

A `Flush` makes records durable; its failure is the end of its log (fsync tells of a failure once,
and the pages look clean after it). A `Checkpoint` makes caches durable (index entries, a producer
snapshot, leader epochs), so that a restart need not look below the recovery point; its
failure only means that the recovery point stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.filesystem import File, FileSystem


class Flush:
    """Everything appended up to `end_offset`, on its way to the disk."""

    __slots__ = (
        "_directory",
        "_files",
        "_filesystem",
        "end_offset",
        "segment_base_offset",
        "segment_position",
        "size_bytes",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        files: Sequence[File],
        directory: str | None,
        *,
        end_offset: int,
        segment_base_offset: int,
        segment_position: int,
        size_bytes: int,
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self._directory = directory
        self.end_offset = end_offset
        self.segment_base_offset = segment_base_offset
        self.segment_position = segment_position
        self.size_bytes = size_bytes

    def run(self) -> None:
        """Wait for the disk. For a thread of the pool. Raises OSError: the data may be lost."""
        for file in self._files:
            file.fdatasync()
        if self._directory is not None:
            self._filesystem.sync_directory(self._directory)


class Checkpoint:
    """What must be durable before the recovery point may become `recovery_point`."""

    __slots__ = ("_files", "_filesystem", "_small_files", "recovery_point", "snapshot_offsets")

    def __init__(
        self,
        filesystem: FileSystem,
        files: Sequence[File],
        small_files: Sequence[tuple[str, bytes]],
        *,
        recovery_point: int,
        snapshot_offsets: Sequence[int],
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self._small_files = small_files
        self.recovery_point = recovery_point
        self.snapshot_offsets = snapshot_offsets

    def run(self) -> None:
        """Wait for the disk. For a thread of the pool. Raises OSError: nothing was promised."""
        for file in self._files:
            file.fdatasync()
        for path, data in self._small_files:
            self._filesystem.replace(path, data)
