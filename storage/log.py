"""One partition's log: the operations on its state, and the appends themselves.

Batches are appended at one end, read anywhere, and deleted at the other end. `storage.log_state`
explains the offsets, `storage.log_reader` reads, `storage.opening.log_loading` opens a log.

All methods are called on one thread, and none waits for the disk, except for cold reads. What
must wait is returned as a job whose `run` is for another thread: see `begin_flush`,
`begin_checkpoint` and `begin_retention`. The first append reads the end of the log, unless
`load_end` has.

After a failure (`storage.failing`): a write that found the disk full is undone and the log goes on.
Any other failed write, and every failed fsync, fails the log until it is opened again: appends
raise LogFailed, and reads end at the last durable offset. The log does not retry.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.topic import TopicConfig
from protocol.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp,
    stamp_append_time,
    verify_produced,
)
from storage import checkpointing, failing, flush, rolling, trimming
from storage.appending import NO_TIMESTAMP, Appended, check_timestamps
from storage.checkpointing import Checkpoint
from storage.errors import (
    AppendFailed,
    BatchTooLarge,
    LogFailed,
    NoTransaction,
)
from storage.flush import Flush
from storage.home import Home
from storage.log_reader import LogReader
from storage.log_state import LogContents, LogIdentity
from storage.rolling import is_roll_due, roll_after_ms
from storage.segments.segment import Segment

__all__ = ["Appended", "Log"]


class Log(LogReader):
    """One partition's log: its state, and the operations on it."""

    __slots__ = (
        "_after_max_ms",
        "_append_time_ms",
        "_batch_bytes_max",
        "_before_max_ms",
        "_checkpoint",
        "_flush",
        "_segment_bytes_max",
        "_stamps_append_time",
        "is_end_loaded",
    )

    def __init__(
        self,
        home: Home,
        identity: LogIdentity,
        config: TopicConfig,
        contents: LogContents,
        leader_epoch: int,
    ) -> None:
        super().__init__(home, identity, config, contents, leader_epoch)
        self.is_end_loaded = False  # whether an append needs to read nothing
        self._flush: Flush | None = None
        self._checkpoint: Checkpoint | None = None
        self._append_time_ms = NO_TIMESTAMP
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        """Apply another configuration, from the next call on."""
        self.config = config
        self.segments.compacted = "compact" in config.cleanup_policy
        if config.write_caching != self.write_caching:
            self.write_caching = config.write_caching
            counted = -self.unflushed_bytes if self.write_caching else self.unflushed_bytes
            self.home.unflushed_bytes += counted
        self._batch_bytes_max = config.max_message_bytes
        self._segment_bytes_max = config.segment_bytes_max
        self._stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self.roll_after_ms = roll_after_ms(config, self.segments.active)
        if self.failed is None:
            # What readers have seen stays visible, also when write.caching is turned off.
            wanted = self.end_offset if self.write_caching else self.durable_offset
            self.high_watermark = max(self.high_watermark, wanted)

    # -- Appending ----------------------------------------------------------------------------

    def load_end(self) -> None:
        """Read what the first append would otherwise read.

        Raises LogFailed, and Cold where the caller must not wait.
        """
        self.segments.active.load_end()
        self.is_end_loaded = True

    def append(self, batch: memoryview, now_ms: int) -> Appended:
        """Append one producer's batch, stamping offset and epoch into `batch` itself.

        Raises RecordError for what `verify_produced` refuses, and InvalidTimestamp, BatchTooLarge,
        NoTransaction, OutOfOrderSequence, InvalidProducerEpoch, ProducerInDoubt; LogFailed for the
        disk, where `failed` says whether a retry can succeed. The log is then as before.
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
        """Append a batch that this process built, unchecked: metadata, control records, offsets."""
        failed = self.failed
        if failed is not None:
            raise LogFailed(failed.path, failed.reason)
        base_offset = self._write(batch, read_header(batch), now_ms)
        self.producers.end_offset = self.end_offset
        return Appended(base_offset, self.end_offset - 1, NO_TIMESTAMP, self.start_offset, False)  # noqa: FBT003

    def _write(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int) -> int:
        """Roll if due, stamp the batch, write it, advance the end. Returns its base offset."""
        size = len(batch)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        active = self.segments.active
        if active.size + size > self._segment_bytes_max or (
            active.size
            and is_roll_due(active, self.roll_after_ms, last_offset, header.max_timestamp, now_ms)
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
        return rolling.roll(self, now_ms)

    # -- Flushing -----------------------------------------------------------------------------

    def flush_due(self, now_ms: int | None = None) -> bool:
        """Whether flush.messages, flush.ms (if `now_ms` is given) or a roll asks for a flush.

        For logs with `write.caching`. Other logs are flushed for producers and readers that wait.
        """
        return flush.is_due(self, now_ms)

    def begin_flush(self) -> Flush | None:
        """Capture what must reach the disk; None if there is nothing, or a flush is under way."""
        if self._flush is not None:
            return None
        self._flush = flush.begin(self)
        return self._flush

    def finish_flush(self, job: Flush, error: OSError | None) -> None:
        """Move the durable offset to what `job.run()` has synced; with an error, fail the log."""
        assert job is self._flush, "finish_flush of a flush that is not under way"
        self._flush = None
        flush.finish(self, job, error)

    # -- Checkpoints --------------------------------------------------------------------------

    def begin_checkpoint(self, *, with_snapshot: bool = False) -> Checkpoint | None:
        """Capture what a recovery point at the durable offset relies on (`storage.checkpointing`).

        Returns None if nothing changed, or a checkpoint is under way. `with_snapshot`, at a clean
        stop, takes a snapshot of the producers as they are now.
        """
        if self._checkpoint is not None or self.failed is not None:
            return None
        self._checkpoint = checkpointing.begin(self, with_snapshot=with_snapshot)
        return self._checkpoint

    @property
    def is_checkpointing(self) -> bool:
        """Whether a checkpoint is under way, which may be rebuilding a segment's indexes."""
        return self._checkpoint is not None

    def finish_checkpoint(self, checkpoint: Checkpoint, error: Exception | None) -> int:
        """Move the recovery point if `checkpoint.run()` succeeded; returns it."""
        assert checkpoint is self._checkpoint, "finish_checkpoint of one that is not under way"
        self._checkpoint = None
        checkpointing.finish(self, checkpoint, error)
        return self.recovery_point

    # -- Deleting at the start ----------------------------------------------------------------

    def delete_records_before(self, offset: int) -> int:
        """Move the start offset up to `offset`; returns the start offset.

        The next retention deletes the segments wholly below it. Raises OffsetOutOfRange for an
        offset above the high watermark.
        """
        trimming.move_start(self, offset)
        return self.start_offset

    def segments_to_delete(self, now_ms: int) -> list[tuple[Segment, str]]:
        """Return the segments that retention would delete now, oldest first, each with the rule."""
        return trimming.segments_to_delete(self, now_ms)

    def begin_retention(self, now_ms: int) -> trimming.SegmentDeletion | None:
        """Take out of the log what retention deletes; the job, if any, renames the files."""
        return trimming.begin_retention(self, now_ms)

    def expire_producers(self, now_ms: int) -> Iterator[int]:
        """Forget idempotent producers that are idle for too long; yields how many, step by step."""
        return self.producers.expiring(now_ms, self.home.producer_expiration_ms)

    # -- The end ------------------------------------------------------------------------------

    def close(self, moved_to: str) -> None:
        """Release the files and their names: the directory is about to become `moved_to`.

        Flush first what must be durable. A flush that is under way has no effect any more.
        """
        failing.end(self, LogFailed(self.directory, "closed"))
        self.lease.end()
        self.directory = self.snapshots.directory = moved_to
        for segment in self.segments:
            segment.files.forget()
            segment.files.note_moved(moved_to)
