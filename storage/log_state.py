"""The state of one log: offsets, segments, producers, epochs, and what is not on disk yet.

    start_offset            durable_offset          end_offset
         |  readable: below the high watermark  |  in the page cache  |
    [segment][segment][segment]…[active segment                      ]

- `end_offset` is the offset that the next record gets. A batch is in the log once the file holds
  all of it (design.md, I5).
- `durable_offset` follows the end with each flush (`storage.flush`). The records below it survive
  a power cut.
- `high_watermark` is where reads end: the durable offset, or the end offset with `write.caching`.
- `recovery_point` follows the durable offset with each checkpoint (`storage.checkpointing`). Below
  it, indexes and producer state are durable too, and a restart scans nothing.

`storage.log` is what callers use. What changes the state has modules of its own: flush,
checkpointing, rolling, trimming and failing. All of it runs on the log's thread, except for the
`run` of the jobs that they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from config.topic import TopicConfig
from storage.errors import LogFailed
from storage.files.filesystem import File
from storage.home import Home
from storage.leader_epochs import LeaderEpochs
from storage.lease import Lease
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot_files import SnapshotFiles
from storage.segments.row import Segments


class LogIdentity(NamedTuple):
    """Which partition a log belongs to, and the directory that it is opened in."""

    topic: str
    partition: int
    topic_id: bytes
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContents:
    """What the files of a log hold when it is opened; all of it is durable.

    With `failed`, the log takes no appends; what is sound can be read.
    """

    segments: Segments
    start_offset: int
    end_offset: int
    recovery_point: int
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: SnapshotFiles
    failed: LogFailed | None = None


class Unsynced:
    """What the next flush makes durable besides the active segment's file."""

    __slots__ = ("directories", "files", "paths")

    def __init__(self) -> None:
        self.files: list[File] = []  # of segments rolled since the last flush began
        self.paths: list[str] = []  # small files, written and closed
        self.directories: list[str] = []  # with names in them that are new

    def note_created(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        """Add files and names made with the log: creating a log costs no fsync of its own."""
        self.paths += paths
        self.directories += directories

    def note_rolled(self, directory: str, file: File | None) -> None:
        """Add the file of a closed segment, if it was written to, and the name of the next one."""
        if directory not in self.directories:
            self.directories.append(directory)
        if file is not None:
            self.files.append(file)


class LogState:
    """What a log consists of. `storage.log.Log` adds the operations."""

    __slots__ = (
        "config",
        "directory",
        "durable_offset",
        "end_offset",
        "epochs",
        "failed",
        "high_watermark",
        "home",
        "leader_epoch",
        "lease",
        "partition",
        "producers",
        "recovery_point",
        "roll_after_ms",
        "segments",
        "snapshots",
        "start_offset",
        "topic",
        "topic_id",
        "unflushed_bytes",
        "unflushed_since_ms",
        "unsynced",
        "write_caching",
    )

    def __init__(
        self,
        home: Home,
        identity: LogIdentity,
        config: TopicConfig,
        contents: LogContents,
        leader_epoch: int,
    ) -> None:
        """Start from `contents`, of which everything below the end is durable."""
        self.home = home
        self.topic, self.partition, self.topic_id, self.directory = identity
        self.config = config
        self.segments = contents.segments
        self.start_offset = contents.start_offset
        self.end_offset = contents.end_offset
        self.durable_offset = contents.end_offset
        self.high_watermark = contents.end_offset
        self.recovery_point = contents.recovery_point
        self.leader_epoch = leader_epoch
        self.producers = contents.producers
        self.epochs = contents.segments.soundness.epochs = contents.epochs
        self.snapshots = contents.snapshots
        self.failed = contents.failed
        self.lease = Lease()
        self.unflushed_bytes = 0
        self.unflushed_since_ms = 0
        self.unsynced = Unsynced()
        self.write_caching = config.write_caching
        self.roll_after_ms = 0  # the age at which the active segment is rolled

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.topic}-{self.partition}, "
            f"{self.start_offset} to {self.end_offset}, "
            f"durable {self.durable_offset}, {len(self.segments)} segments)"
        )

    @property
    def size_bytes(self) -> int:
        """Bytes in all log files."""
        return self.segments.size_bytes
