"""The state of one log: offsets, segments, producers, epochs, and what is not on disk yet.

    start_offset            durable_offset          end_offset
         |  readable: below the high watermark  |  in the page cache  |
    [segment][segment][segment]…[active segment                      ]

- `next_start_offset` is where retention or DeleteRecords lets the log begin. `start_offset` follows
  it once that is durable (`storage.trimming`). It is what clients see, so no crash takes it back.

- `end_offset` is the offset that the next record gets. A batch is in the log once the file holds
  all of it (design.md, I5).
- `durable_offset` follows the end with each flush (`storage.flush`). The records below it survive
  a power cut.
- `high_watermark` is where reads end: the durable offset, or the end offset with `write.caching`.
- `last_stable_offset` is where readers of committed records end (read_committed): the first offset
  of the oldest transaction whose outcome is open or not settled yet
  (`storage.producers.open_transactions`), and at most the high watermark.
- `recovery_point` follows the durable offset with each checkpoint (`storage.checkpointing`). Below
  it, indexes and producer state are durable too, and a restart scans nothing. It stays below
  unsettled markers, since a restart must find them.

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
from storage.producers.open_transactions import ReplayedMarker
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
    replayed_markers: Sequence[ReplayedMarker] = ()


class Unsynced:
    """What the next flush makes durable besides the active segment's file."""

    __slots__ = ("directories", "files", "is_again", "paths")

    def __init__(self) -> None:
        self.is_again = False  # a flush has left what it captured
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
        "flushed_bytes",
        "high_watermark",
        "home",
        "leader_epoch",
        "lease",
        "next_start_offset",
        "opened_at",
        "partition",
        "producers",
        "read_bytes",
        "recovery_point",
        "replayed_markers",
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
        self.start_offset = self.next_start_offset = contents.start_offset
        self.end_offset = self.opened_at = contents.end_offset
        self.durable_offset = contents.end_offset
        self.high_watermark = contents.end_offset
        self.recovery_point = contents.recovery_point
        self.leader_epoch = leader_epoch
        self.producers = contents.producers
        self.epochs = contents.segments.soundness.epochs = contents.epochs
        self.snapshots = contents.snapshots
        self.failed = contents.failed
        self.replayed_markers = list(contents.replayed_markers)
        if self.replayed_markers:
            self.producers.transactions.hold(self.replayed_markers[0].offset)
        self.lease = Lease()
        self.flushed_bytes = 0  # of what was appended since it was opened
        self.read_bytes = 0  # by clients, since it was opened
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
    def appended_bytes(self) -> int:
        """How much was appended since it was opened."""
        return self.flushed_bytes + self.unflushed_bytes

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed ends: below it no transaction is open, or ended but unsettled."""
        first_unstable = self.producers.transactions.first_unstable
        high_watermark = self.high_watermark
        if first_unstable >= high_watermark:
            return high_watermark
        # Retention and DeleteRecords go past an open transaction.
        return max(first_unstable, self.start_offset)

    @property
    def unsettled_from(self) -> int | None:
        """The offset of the first marker that is not settled; the recovery point stays below."""
        return self.producers.transactions.unsettled_from

    @property
    def checkpointable_offset(self) -> int:
        """How far the recovery point may go now."""
        unsettled_from = self.producers.transactions.unsettled_from
        if unsettled_from is None:
            return self.durable_offset
        return min(self.durable_offset, unsettled_from)

    @property
    def size_bytes(self) -> int:
        """Bytes in all log files."""
        return self.segments.size_bytes

    @property
    def is_closed(self) -> bool:
        """Whether its topic is being deleted: the files move, and a read may fail."""
        return self.lease.is_over
