"""When metadata snapshots are written, and what is deleted after that.

A snapshot is due when the log has grown by `metadata.log.max.record.bytes.between.snapshots`, or
when the metadata has changed and `metadata.log.max.snapshot.interval.ms` have passed. It replaces
all records below the end of the log. The log must be durable up to there, because a start refuses a
snapshot that the log does not reach. A snapshot has three parts, like a checkpoint of a log:
`begin` captures the image on the caller's thread, `Snapshot.run` writes it in a thread of the pool,
`finish` records the outcome.

    write `.tmp`, fsync, rename, fsync the directory    now it exists, or it does not
    delete a segment before the oldest snapshot, fsync the directory    one a turn, the oldest first
    unlink the snapshots before that

So there is always a snapshot from which the log continues without a gap. Retention is Kafka's
(KafkaMetadataLog.maybeClean): beyond `metadata.max.retention.bytes` or `.ms` the oldest snapshot is
deleted, and with it the log before the next one. Kafka keeps at least one snapshot; here at least
two are kept, so that a start can fall back if the newest is damaged. If the active segment is
large, it is rolled at a snapshot, so that it can be deleted later.

A snapshot that cannot be written is tried again a minute later; nothing depends on it. If a segment
cannot be deleted, no further one is deleted before the next start: its file must not stay behind a
gap.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.metadata.image import ClusterImage
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.snapshots import image_records, snapshot_bytes
from config.metadata_keys import MetadataKeys
from protocol.record_batch import HEADER_SIZE
from protocol.record_errors import RecordError
from protocol.records import Record, read_header
from storage.files import filenames
from storage.files.filesystem import TEMPORARY_SUFFIX, FileSystem
from storage.trimming import SegmentDeletion, reach_start

SNAPSHOTS_MIN: Final = 2
ROLL_BYTES_MIN: Final = 1 << 20
RETRY_MS: Final = 60_000


class Kept(NamedTuple):
    """A snapshot on the disk; `timestamp_ms` is when its last record was written."""

    end_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int

    @property
    def name(self) -> str:
        """Its file name."""
        return filenames.metadata_snapshot_name(self.end_offset, self.epoch)


class Snapshot:
    """A snapshot to be written to disk."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        image: ClusterImage,
        voters: Mapping[int, Record],
        kept: Kept,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._image = image
        self._voters = voters
        self.kept = kept

    def run(self) -> None:
        """Write it. For a thread of the pool. Raises OSError; then there is no snapshot."""
        data = snapshot_bytes(
            image_records(self._image),
            self._voters,
            epoch=self.kept.epoch,
            timestamp_ms=self.kept.timestamp_ms,
        )
        self._filesystem.replace(posixpath.join(self._directory, self.kept.name), data)
        self.kept = self.kept._replace(size_bytes=len(data))


class SnapshotKeeper:
    """The snapshots of one metadata log; `load` and `sync` may run in a thread of the pool."""

    def __init__(self, metadata_log: MetadataLog, config: MetadataKeys, now_ms: int) -> None:
        self._metadata_log = metadata_log
        self._log = metadata_log.log
        self._filesystem = self._log.home.filesystem
        self._bytes_max = config.metadata_log_max_record_bytes_between_snapshots
        self._roll_bytes = min(ROLL_BYTES_MIN, self._bytes_max)
        self._interval_ms = config.metadata_log_max_snapshot_interval_ms
        self._retention_bytes = config.metadata_max_retention_bytes
        self._retention_ms = config.metadata_max_retention_ms
        self._since_ms = now_ms
        self._retry_ms = 0
        self._is_unsynced = False
        self._gone: SegmentDeletion | None = None
        self._unwanted_path = ""  # of a snapshot
        self._has_failed = False  # to rename a segment, which the log has dropped all the same
        self.kept: list[Kept] = []  # the oldest first

    def load(self) -> None:
        """Find the snapshots; remove what a crash left of an unfinished one. Raises OSError."""
        directory = self._log.directory
        found = []
        for file_name in self._filesystem.list(directory):
            path = posixpath.join(directory, file_name)
            name = filenames.parse(file_name.removesuffix(TEMPORARY_SUFFIX))
            if name is None or name.kind is not filenames.Kind.METADATA_SNAPSHOT:
                continue
            if file_name.endswith(TEMPORARY_SUFFIX):
                self._filesystem.unlink(path)
            elif not name.transit and name.base_offset > 0:  # the one at 0 holds voters only
                size = self._filesystem.size(path)
                timestamp_ms = self._timestamp_of(path)
                found.append(Kept(name.base_offset, name.epoch, timestamp_ms, size))
        self.kept = sorted(found)

    def _timestamp_of(self, path: str) -> int:
        file = self._filesystem.open(path, write=False)
        try:
            return read_header(file.pread(HEADER_SIZE, 0)).max_timestamp
        except RecordError:
            return 0  # damaged: old enough to delete
        finally:
            file.close()

    def begin(self, now_ms: int) -> Snapshot | None:
        """Capture a snapshot if one is due; `run` and `finish` follow."""
        metadata_log, log = self._metadata_log, self._log
        grown_bytes = metadata_log.bytes_since_snapshot
        is_old = 0 < self._interval_ms <= now_ms - self._since_ms
        if not grown_bytes or (grown_bytes < self._bytes_max and not is_old):
            return None
        if now_ms < self._retry_ms or log.failed is not None or not metadata_log.is_durable:
            return None
        metadata_log.bytes_since_snapshot = 0
        kept = Kept(log.end_offset, metadata_log.epoch, now_ms, grown_bytes)
        image = metadata_log.image.capture()
        return Snapshot(self._filesystem, log.directory, image, metadata_log.voters, kept)

    def finish(self, snapshot: Snapshot, error: OSError | None, now_ms: int) -> None:
        """Take note of how `snapshot.run()` went. Raises LogFailed if the log cannot be rolled."""
        if error is not None:
            self._metadata_log.bytes_since_snapshot += snapshot.kept.size_bytes
            self._retry_ms = now_ms + RETRY_MS
            return
        self._since_ms = now_ms
        self.kept = [kept for kept in self.kept if kept.name != snapshot.kept.name]
        self.kept.append(snapshot.kept)
        is_large = self._log.segments.active.size >= self._roll_bytes
        # Nothing may be in a segment that is not durable when the next one is in the directory.
        if is_large and self._log.failed is None and self._metadata_log.is_durable:
            self._log.roll(now_ms)

    def trim(self, now_ms: int) -> bool:
        """Drop one thing that retention does not keep; return whether to `sync` and call again.

        Raises LogFailed, OSError of what `sync` did.
        """
        log = self._log
        if self._has_failed:
            return False
        if self._is_unsynced:
            return True
        if self._gone is not None:
            gone, self._gone = self._gone, None
            self._has_failed = True
            gone.finish()
            self._has_failed = False
        if len(self.kept) < SNAPSHOTS_MIN or log.failed is not None:
            return False
        oldest, after = self.kept[:2]
        if len(self.kept) > SNAPSHOTS_MIN and self._breaches(oldest, now_ms):
            segments = log.segments.all
            if len(segments) > 1 and segments[1].base_offset <= after.end_offset:
                if segments[1].base_offset > log.recovery_point:
                    return False  # it will soon be behind it
                log.delete_records_before(segments[1].base_offset)
                reach_start(log, segments[1].base_offset)  # at once: no client sees it
                self._gone = log.begin_deletion(now_ms)
                self._is_unsynced = self._gone is not None
                return self._is_unsynced
        elif oldest.end_offset >= log.start_offset:
            return False  # or the log no longer continues from it
        path = posixpath.join(log.directory, oldest.name)
        self._unwanted_path = path
        self._is_unsynced = True
        del self.kept[0]
        return True

    def sync(self) -> None:
        """Carry out the last `trim` durably, before the next one. For a thread of the pool.

        Raises OSError.
        """
        if self._gone is not None:
            self._gone.run()
        if self._unwanted_path:
            self._filesystem.unlink(self._unwanted_path)
            self._unwanted_path = ""
        self._filesystem.sync_directory(self._log.directory)
        self._is_unsynced = False

    def _breaches(self, oldest: Kept, now_ms: int) -> bool:
        size_bytes = self._log.size_bytes + sum(kept.size_bytes for kept in self.kept)
        return (self._retention_bytes >= 0 and size_bytes > self._retention_bytes) or (
            self._retention_ms >= 0 and now_ms - oldest.timestamp_ms > self._retention_ms
        )
