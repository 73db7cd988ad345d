"""One partition: a row of segments that is appended to at one end and cut at the other.

    start_offset            durable_offset          end_offset
         |  readable: below the high watermark  |  in the page cache  |
    [segment][segment][segment]…[active segment                      ]

- `end_offset` is the offset that the next record gets. A batch is in the log when it is wholly in
  the file (design.md, I5), so an append is one write into the page cache.
- `durable_offset` follows it by way of `begin_flush`, `Flush.run` and `finish_flush`; the records
  below it survive a power cut.
- `high_watermark`: readers see what is below it. It is the durable offset, or the end offset
  where `write.caching` is on.
- `recovery_point` follows the durable offset by way of `begin_checkpoint` and
  `finish_checkpoint`: below it, indexes and producer state are durable too, and a restart does
  not look.

Everything but `run` is called on one thread, and nothing waits for the disk except cold reads:
`load_end` is the one that precedes the first append.

Failure (`storage.failing`). A write that failed with the disk full is taken back and the log goes
on; any other failed write, and every failed fsync, makes the log `failed` until it is opened anew:
appends raise LogFailed, reads end at the last durable offset. The log does not retry.

Looking things up is in `storage.segments.row`, opening in `storage.opening.log_loading`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from config.topic import TopicConfig
from protocol.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp,
    stamp_append_time,
    verify_produced,
)
from storage import checkpointing, failing, rolling, trimming
from storage.appending import NO_TIMESTAMP, Appended, check_timestamps
from storage.checkpointing import Checkpoint
from storage.errors import (
    AppendFailed,
    BatchTooLarge,
    LogFailed,
    NoTransaction,
    OffsetOutOfRange,
)
from storage.files.filesystem import File
from storage.flush import Flush
from storage.home import Home
from storage.leader_epochs import LeaderEpochs
from storage.lease import Lease
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot_files import SnapshotFiles
from storage.rolling import is_roll_due, roll_after_ms
from storage.segments.log_file import LogSlice
from storage.segments.row import HoleInLogError, Segments
from storage.segments.segment import Segment
from storage.segments.timestamp_lookup import TimestampCandidate

__all__ = ["Appended", "Log"]


class Log:
    """One partition's log. See the module's theory for the offsets and for who may call what."""

    __slots__ = (
        "_after_max_ms",
        "_append_time_ms",
        "_batch_bytes_max",
        "_before_max_ms",
        "_checkpoint",
        "_flush",
        "_roll_after_ms",
        "_segment_bytes_max",
        "_stamps_append_time",
        "_unsynced",
        "_unsynced_directories",
        "_unsynced_paths",
        "config",
        "directory",
        "durable_offset",
        "end_offset",
        "epochs",
        "failed",
        "high_watermark",
        "home",
        "is_end_loaded",
        "leader_epoch",
        "lease",
        "partition",
        "producers",
        "recovery_point",
        "segments",
        "snapshots",
        "start_offset",
        "topic",
        "topic_id",
        "unflushed_bytes",
        "unflushed_since_ms",
        "write_caching",
    )  # fmt: skip

    def __init__(
        self,
        home: Home,
        topic: str,
        partition: int,
        topic_id: bytes,
        directory: str,
        config: TopicConfig,
        segments: Segments,
        *,
        start_offset: int,
        end_offset: int,
        recovery_point: int,
        leader_epoch: int,
        producers: ProducerState,
        epochs: LeaderEpochs,
        snapshots: SnapshotFiles,
    ) -> None:
        """Take over loaded parts, of which everything below `end_offset` is durable."""
        self.home = home
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.segments = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.durable_offset = end_offset
        self.high_watermark = end_offset
        self.recovery_point = recovery_point
        self.leader_epoch = leader_epoch
        self.producers = producers
        self.epochs = segments.soundness.epochs = epochs
        self.snapshots = snapshots
        self.failed: LogFailed | None = None
        self.lease = Lease()
        self.unflushed_bytes = 0
        self.unflushed_since_ms = 0
        self.write_caching = config.write_caching
        self.is_end_loaded = False  # whether an append needs to read nothing
        self._flush: Flush | None = None
        self._unsynced: list[File] = []  # of segments that were rolled since the last flush began
        self._unsynced_directories: list[str] = []
        self._unsynced_paths: list[str] = []
        self._checkpoint: Checkpoint | None = None
        self._append_time_ms = NO_TIMESTAMP
        self.update_config(config)

    def __repr__(self) -> str:
        return (
            f"Log({self.topic}-{self.partition}, {self.start_offset} to {self.end_offset}, "
            f"durable {self.durable_offset}, {len(self.segments)} segments)"
        )

    def update_config(self, config: TopicConfig) -> None:
        """Use another configuration from the next call on."""
        self.config = config
        self.segments.compacted = "compact" in config.cleanup_policy
        if config.write_caching != self.write_caching:
            self.write_caching = config.write_caching
            counted = -self.unflushed_bytes if self.write_caching else self.unflushed_bytes
            self.home.unflushed_bytes += counted
        self._batch_bytes_max = config.max_message_bytes
        self._segment_bytes_max = config.internal_segment_bytes or config.segment_bytes
        self._stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._roll_after_ms = roll_after_ms(config, self.segments.active)
        if self.failed is None:
            # Without write.caching it is what is durable; what readers saw before stays visible.
            wanted = self.end_offset if self.write_caching else self.durable_offset
            self.high_watermark = max(self.high_watermark, wanted)

    @property
    def size_bytes(self) -> int:
        """Bytes in all log files."""
        return self.segments.size_bytes

    # -- Appending ----------------------------------------------------------------------------

    def load_end(self) -> None:
        """Read what appends and rolls go by, which the first one does otherwise.

        Raises LogFailed, and Cold where the caller must not wait.
        """
        self.segments.active.load_end()
        self.is_end_loaded = True

    def append(self, batch: memoryview, now_ms: int) -> Appended:
        """Append one producer's batch, stamping offset and epoch into `batch` itself.

        Raises RecordError for what `verify_produced` refuses; InvalidTimestamp, BatchTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch: the batch is not in the log. LogFailed: neither,
        and `failed` says whether the log is lost or may be tried again.
        """
        failed = self.failed
        if failed is not None:
            raise LogFailed(failed.path, failed.reason)
        header = verify_produced(batch, self._batch_bytes_max)
        if header.attributes & TRANSACTIONAL:
            raise NoTransaction(header.producer_id)
        append_time_ms = NO_TIMESTAMP
        if self._stamps_append_time:
            append_time_ms = max(now_ms, self._append_time_ms)
        elif (
            header.max_timestamp > now_ms + self._after_max_ms
            or header.base_timestamp < now_ms - self._before_max_ms
        ):
            check_timestamps(header, now_ms, self._before_max_ms, self._after_max_ms)
        if header.producer_id >= 0:
            original = self.producers.check(header)
            if original is not None:
                return Appended(
                    original.first_offset,
                    original.last_offset,
                    original.timestamp,
                    self.start_offset,
                    True,  # noqa: FBT003
                )
        if append_time_ms != NO_TIMESTAMP:
            stamp_append_time(batch, 0, append_time_ms)
            self._append_time_ms = append_time_ms
            header = header._replace(max_timestamp=append_time_ms)
        base_offset = self._write(batch, header, now_ms)
        if header.producer_id >= 0:
            self.producers.take(header, base_offset, now_ms)
        end_offset = self.end_offset
        self.producers.end_offset = end_offset
        return tuple.__new__(
            Appended, (base_offset, end_offset - 1, append_time_ms, self.start_offset, False)
        )

    def append_own(self, batch: bytearray, now_ms: int) -> Appended:
        """Append a batch that this process built: metadata, control records. No checks."""
        failed = self.failed
        if failed is not None:
            raise LogFailed(failed.path, failed.reason)
        base_offset = self._write(batch, read_header(batch), now_ms)
        self.producers.end_offset = self.end_offset
        return Appended(base_offset, self.end_offset - 1, NO_TIMESTAMP, self.start_offset, False)  # noqa: FBT003

    def _write(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int) -> int:
        """Give the batch its place: roll if due, stamp, write, advance. Returns its offset."""
        size = len(batch)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        active = self.segments.active
        if active.size + size > self._segment_bytes_max or (
            active.size
            and is_roll_due(active, self._roll_after_ms, last_offset, header.max_timestamp, now_ms)
        ):
            if size > self._segment_bytes_max:
                raise BatchTooLarge(size, self._segment_bytes_max)
            active = self.roll(now_ms)
        leader_epoch = self.leader_epoch
        stamp(batch, 0, base_offset, leader_epoch)
        try:
            active.append(batch, header, base_offset)
        except AppendFailed as error:
            failing.failed_write(self, error)
            raise
        self.end_offset = last_offset + 1
        if self.epochs.latest != leader_epoch:
            self.epochs.assign(leader_epoch, base_offset)
        self.snapshots.count_batch()
        if not self.unflushed_bytes:
            self.unflushed_since_ms = now_ms
        self.unflushed_bytes += size
        if self.write_caching:
            self.high_watermark = last_offset + 1
        else:
            self.home.unflushed_bytes += size
        return base_offset

    # -- Rolling ------------------------------------------------------------------------------

    def roll(self, now_ms: int) -> Segment:
        """Begin a new active segment at the end offset, unless the active one is empty.

        Raises AppendFailed, with the active segment as before, if its files cannot be made.
        """
        if self.segments.active.base_offset == self.end_offset:
            return self.segments.active
        if self.directory not in self._unsynced_directories:
            self._unsynced_directories.append(self.directory)  # also for a name that goes again
        if (file := self.segments.active.log_file.take_unsynced()) is not None:
            self._unsynced.append(file)
        new = rolling.roll(self, now_ms)
        self._roll_after_ms = roll_after_ms(self.config, new)
        return new

    # -- Flushing -----------------------------------------------------------------------------

    def flush_due(self, now_ms: int | None = None) -> bool:
        """Whether flush.messages, flush.ms (given the time) or a roll asks for a flush.

        For logs with `write.caching`; the others are flushed for their waiters and readers.
        """
        unflushed_count = self.end_offset - self.durable_offset
        return unflushed_count > 0 and (
            unflushed_count >= self.config.flush_messages
            or bool(self._unsynced)
            or (now_ms is not None and now_ms - self.unflushed_since_ms >= self.config.flush_ms)
        )

    def note_created(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        """Have the first flush sync what was made with the log too: making one costs no fsync."""
        self._unsynced_paths += paths
        self._unsynced_directories += directories

    def begin_flush(self) -> Flush | None:
        """Capture what must reach the disk; None if nothing does, or a flush is under way."""
        if self._flush is not None or self.failed is not None:
            return None
        if self.durable_offset == self.end_offset and not self._unsynced_directories:
            return None
        active = self.segments.active
        files, self._unsynced = self._unsynced, []
        if (file := active.log_file.take_unsynced()) is not None:
            files.append(file)
        self._flush = flush = Flush(
            self.home.filesystem,
            files,
            self._unsynced_paths,
            self._unsynced_directories,
            end_offset=self.end_offset,
            segment_base_offset=active.base_offset,
            segment_position=active.size,
            size_bytes=self.unflushed_bytes,
        )
        self._unsynced_paths = []
        self._unsynced_directories = []
        return flush

    def finish_flush(self, flush: Flush, error: OSError | None) -> None:
        """Take note of how `flush.run()` went; an error is the end of this log."""
        assert flush is self._flush, "finish_flush of a flush that is not under way"
        self._flush = None
        if error is not None:
            failing.fail(self, LogFailed(self.directory, f"fsync failed: {error}"))
            return
        self.durable_offset = flush.end_offset
        self.segments.note_durable(
            flush.end_offset, flush.segment_base_offset, flush.segment_position
        )
        if self.failed is None:
            self.unflushed_bytes -= flush.size_bytes
            if not self.write_caching:
                self.home.unflushed_bytes -= flush.size_bytes
        if not self.write_caching:
            self.high_watermark = max(self.high_watermark, flush.end_offset)

    # -- Checkpoints --------------------------------------------------------------------------

    def begin_checkpoint(self, *, with_snapshot: bool = False) -> Checkpoint | None:
        """Capture what a recovery point at the durable offset relies on (`storage.checkpointing`).

        Returns None if there is nothing to do, or a checkpoint is under way. `with_snapshot`
        writes the producers as they are, for a clean stop.
        """
        if self._checkpoint is not None or self.failed is not None:
            return None
        self._checkpoint = checkpointing.begin(self, with_snapshot=with_snapshot)
        return self._checkpoint

    @property
    def is_checkpointing(self) -> bool:
        """Whether a checkpoint is under way, which may be mending a segment's indexes."""
        return self._checkpoint is not None

    def finish_checkpoint(self, checkpoint: Checkpoint, error: Exception | None) -> int:
        """Take note of how `checkpoint.run()` went; returns the recovery point."""
        assert checkpoint is self._checkpoint, "finish_checkpoint of one that is not under way"
        self._checkpoint = None
        checkpointing.finish(self, checkpoint, error)
        return self.recovery_point

    # -- Reading ------------------------------------------------------------------------------

    def read(
        self,
        start_offset: int,
        size_max: int,
        *,
        at_least_one_batch: bool = True,
        end_offset: int | None = None,
    ) -> LogSlice | None:
        """Return whole batches from the one that holds `start_offset` on, `size_max` bytes at most.

        The first batch may begin before `start_offset`: readers skip records, as Kafka's clients
        do. With `at_least_one_batch` the first batch is returned even if larger (KIP-74).
        Only batches below `end_offset` (default: the high watermark) are returned, and only
        from one segment; None if there are none yet.

        Raises OffsetOutOfRange if `start_offset` is outside [start, end] of the log, or in a hole
        between two segments; DamagedLog, LogFailed if the bytes cannot be served.
        """
        limit = self.high_watermark if end_offset is None else end_offset
        if start_offset >= limit:
            if start_offset > self.end_offset:
                raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset)
            return None
        if start_offset < self.start_offset:
            raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset)
        segments = self.segments
        active = segments.active
        if start_offset >= active.base_offset:
            position_end = segments.position_of_end(active, limit, self.end_offset)
            found = active.read(
                start_offset,
                size_max,
                position_end,
                at_least_one_batch=at_least_one_batch,
                offset_end=limit,
            )
            if found is None:
                return None
            return segments.soundness.checked(active, found, start_offset, self.end_offset)
        try:
            return segments.read(
                start_offset,
                size_max,
                limit=limit,
                end_offset=self.end_offset,
                at_least_one_batch=at_least_one_batch,
            )
        except HoleInLogError:
            raise OffsetOutOfRange(start_offset, self.start_offset, self.end_offset) from None

    def available_bytes(self, start_offset: int) -> int:
        """How many bytes there are to read from `start_offset` on, over all segments."""
        limit = self.high_watermark
        if start_offset >= limit or start_offset < self.start_offset:
            return 0
        return self.segments.available_bytes(start_offset, limit, self.end_offset)

    def timestamp_candidates(self, timestamp: int | None) -> Iterator[TimestampCandidate]:
        """Yield where the first record with a timestamp >= `timestamp` (None: the largest) may be.

        The first that, looked into to its end, has `found` something holds it.
        """
        return self.segments.timestamp_candidates(timestamp, self.start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Answer OffsetForLeaderEpoch: (epoch, end offset), (-1, -1) if undefined."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # -- Cutting at the start -----------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Move the start offset up to `offset`; returns the start offset.

        The segments wholly below it go with the next retention. Raises OffsetOutOfRange for an
        offset above the high watermark.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(offset, self.start_offset, self.high_watermark)
        if offset > self.start_offset:
            self.start_offset = offset
            self.home.checkpoint_changes += 1
            self.epochs.drop_before(offset)
        return self.start_offset

    def segments_to_delete(self, now_ms: int) -> list[tuple[Segment, str]]:
        """Say which segments retention lets go of now, oldest first, and by which rule."""
        return trimming.segments_to_delete(self, now_ms)

    def begin_retention(self, now_ms: int) -> trimming.Gone | None:
        """Let go of what retention says; None if that is nothing. `run` what is returned."""
        return trimming.begin_retention(self, now_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete what retention lets go of; returns how many segments went. Blocks."""
        return trimming.apply_retention(self, now_ms)

    def expire_producers(self, now_ms: int) -> Iterator[int]:
        """Forget the idempotent producers not heard of for long, in steps: how many each."""
        return self.producers.expiring(now_ms, self.home.producer_expiration_ms)

    # -- The end ------------------------------------------------------------------------------

    def close(self, moved_to: str) -> None:
        """Let go of the files and of their names: the directory is about to become `moved_to`.

        Flush before what is to be durable. One that is under way changes nothing any more.
        """
        failing.end(self, LogFailed(self.directory, "closed"))
        self.lease.end()
        self.directory = self.snapshots.directory = moved_to
        for segment in self.segments:
            segment.forget_files()
            segment.note_moved(moved_to)
