"""One partition's log: the operations on its state, and the appends themselves.

Batches are appended at one end, read anywhere, and deleted at the other end. `storage.log_state`
explains the offsets, `storage.log_reader` reads, `storage.log_transactions` says what is open and
what was aborted, and `storage.opening.log_loading` opens a log.

All methods are called on one thread, and none waits for the disk, except for cold reads. What
must wait is returned as a job whose `run` is for another thread: see `begin_flush`,
`begin_checkpoint` and `begin_deletion`. The first append reads the end of the log, unless
`load_end` has.

After a failure (`storage.failing`): a write that found the disk full is undone and the log goes on.
Any other failed write, and every failed fsync, fails the log until it is opened again: appends
raise LogFailed, and reads end at the last durable offset. The log does not retry.
"""

from __future__ import annotations

from config.topic import TopicConfig
from protocol.control_records import Marker, build_marker
from protocol.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    stamp,
    stamp_append_time,
    verify_produced,
)
from protocol.record_errors import InvalidRecord
from storage import checkpointing, failing, flush, rolling
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
from storage.log_state import LogContents, LogIdentity
from storage.log_trimming import LogTrimming
from storage.producers.producer_state import EPOCHS_RISE_SINCE
from storage.rolling import is_roll_due, roll_after_ms
from storage.segments.abort_index import AbortedTransaction
from storage.segments.segment import Segment

__all__ = ["Appended", "Log"]


class Log(LogTrimming):
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
        self.segments.cleaned.compacted = "compact" in config.cleanup_policy
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

    def append(self, batch: memoryview, now_ms: int, transaction: int = 0) -> Appended:
        """Append one producer's batch, stamping offset and epoch into `batch` itself.

        `transaction` is the transaction version of the sender (1, 2), for a producer whose
        transaction admits this partition; with 0 only plain batches are accepted.

        Raises RecordError for what `verify_produced` refuses, and InvalidTimestamp, BatchTooLarge,
        NoTransaction, OutOfOrderSequence, InvalidProducerEpoch, TransactionOpen, ProducerInDoubt;
        LogFailed for the disk, where `failed` says whether a retry can succeed. The log is then as
        before.
        """
        failed = self.failed
        if failed is not None:
            raise LogFailed(failed.path, failed.reason)
        header = verify_produced(batch, self._batch_bytes_max)
        # Unpacked at once: a field by its name takes half as long as all of them.
        _, _, _, _, _, attributes, _, base_timestamp, max_timestamp, producer_id, _, _, _ = header
        if attributes & TRANSACTIONAL:
            if not transaction:
                raise NoTransaction(producer_id)
            if producer_id < 0:
                raise InvalidRecord("A transactional batch has a producer id, this one has none")
        append_time_ms = NO_TIMESTAMP
        if self._stamps_append_time:
            append_time_ms = max(now_ms, self._append_time_ms)
        elif (
            max_timestamp > now_ms + self._after_max_ms
            or base_timestamp < now_ms - self._before_max_ms
        ):
            check_timestamps(header, now_ms, self._before_max_ms, self._after_max_ms)
        if producer_id >= 0:
            original = self.producers.check(header)
            if original is not None:
                return Appended(
                    original.first_offset,
                    original.last_offset,
                    original.timestamp,
                    self.start_offset,
                    True,  # noqa: FBT003
                )
            if transaction >= EPOCHS_RISE_SINCE and attributes & TRANSACTIONAL:
                self.producers.check_begin(header)
        if append_time_ms != NO_TIMESTAMP:
            stamp_append_time(batch, 0, append_time_ms)
            self._append_time_ms = append_time_ms
            header = header._replace(max_timestamp=append_time_ms)
        base_offset = self._write(batch, header, now_ms)
        if producer_id >= 0:
            self.producers.take(header, base_offset, now_ms)
        end_offset = self.end_offset
        self.producers.end_offset = end_offset
        return tuple.__new__(
            Appended, (base_offset, end_offset - 1, append_time_ms, self.start_offset, False)
        )

    def append_own(self, batch: bytearray, now_ms: int) -> Appended:
        """Append a batch that this process built, unchecked: metadata, offsets.

        A transactional one, of offsets, opens its producer's transaction. `append_marker` ends it.
        """
        failed = self.failed
        if failed is not None:
            raise LogFailed(failed.path, failed.reason)
        header = read_header(batch)
        assert header.producer_id < 0 or not header.is_control, "append_marker is for markers"
        base_offset = self._write(batch, header, now_ms)
        if header.producer_id >= 0:
            self.producers.take(header, base_offset, now_ms)
        self.producers.end_offset = self.end_offset
        return Appended(base_offset, self.end_offset - 1, NO_TIMESTAMP, self.start_offset, False)  # noqa: FBT003

    def _write(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: int) -> int:
        """Roll if due, stamp the batch, write it, advance the end. Returns its base offset."""
        size = len(batch)
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        active = self.segments.active
        active_bytes = active.log_file.size
        if active_bytes + size > self._segment_bytes_max or (
            active_bytes
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
        self.snapshots.batches += 1
        if not self.unflushed_bytes:
            self.unflushed_since_ms = now_ms
        self.unflushed_bytes += size
        if self.write_caching:
            self.high_watermark = last_offset + 1
        else:
            self.home.unflushed_bytes += size
        return base_offset

    def append_marker(self, marker: Marker, now_ms: int) -> Appended:
        """Append a marker, unchecked, which ends its producer's transaction; `settle` follows.

        Raises LogFailed; the log is then as before.
        """
        if (failed := self.failed) is not None:
            raise LogFailed(failed.path, failed.reason)
        batch = build_marker(marker, now_ms)
        header = read_header(batch)
        offset = self._write(batch, header, now_ms)
        ended = self.producers.take_marker(header, marker.coordinator_epoch, offset, now_ms)
        self.producers.end_offset = self.end_offset
        if (aborted := ended.aborted_by(marker, offset)) is not None:
            self.segments.add_abort(AbortedTransaction(*aborted))
        return Appended(offset, offset, NO_TIMESTAMP, self.start_offset, False)  # noqa: FBT003

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
        """Move the durable offset to what `job.run()` has synced; with an error, fail the log.

        Without a descriptor (EMFILE, ENFILE) nothing changes, and the next flush does all of it.
        """
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
