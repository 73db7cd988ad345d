"""A log manager on a disk in memory, and the steps that many tests of logs share."""

from __future__ import annotations

import itertools

from config.topic import TopicConfig
from protocol.record_batch import batches
from protocol.records import Record, build, read_records
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings
from tests.support.memory_filesystem import MemoryFileSystem

DATA = "/data"
CLEAN_MARK = f"{DATA}/.kafka_cleanshutdown"
NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class House:
    """One data directory and the successive log managers that own it."""

    def __init__(self, filesystem: MemoryFileSystem | None = None, **settings) -> None:
        self.filesystem = filesystem or MemoryFileSystem()
        self.now_ms = NOW
        self.settings = settings
        self.manager: LogManager = None

    def open(self) -> LogManager:
        numbers = itertools.count(1)
        settings = ManagerSettings(
            random_bytes=lambda size: bytes([next(numbers) % 256 + 1]) * size, **self.settings
        )
        self.manager = LogManager(self.filesystem, DATA, settings, lambda: self.now_ms)
        self.manager.open()
        return self.manager

    def log(self, topic="t", partition=0, *, epoch=0, topic_id=TOPIC_ID, **config) -> Log:
        """Open or create a log; its segments are small unless `config` says otherwise."""
        config.setdefault("internal_segment_bytes", 1000)
        return self.manager.open_log(
            topic, partition, topic_id, TopicConfig(**config), epoch, create=True
        )

    def path(self, name: str = "", partition: str = "t-0") -> str:
        return f"{DATA}/{partition}/{name}".rstrip("/")

    def names(self, suffix: str = "", partition: str = "t-0") -> list[str]:
        return [n for n in self.filesystem.list(self.path("", partition)) if n.endswith(suffix)]

    def stop(self, *, clean: bool = True) -> bool:
        return self.manager.close(clean=clean)

    def kill(self) -> None:
        """Kill the process; the page cache survives."""
        self.manager.abandon()
        self.filesystem.kill()

    def crash(self, unsynced: str = "lost") -> None:
        """Cut the power."""
        self.manager.abandon()
        self.filesystem.crash(unsynced)

    def delete_log(self, topic: str, partition: int) -> str:
        return delete_log(self.manager, topic, partition)

    def purge(self, now_ms: int) -> None:
        """Remove the deleted files and directories that are due."""
        purge(self.manager, now_ms)

    def restart(self, **config) -> Log:
        self.open()
        return self.log(epoch=1, **config)


def batch(
    value: bytes = b"v" * 30,
    count: int = 1,
    *,
    pid=-1,
    epoch=-1,
    sequence=-1,
    timestamp=NOW,
    transactional=False,
) -> memoryview:
    """Return a produced batch. The log stamps it in place, so use it once."""
    records = [Record(n, timestamp + n, None, value) for n in range(count)]
    return memoryview(
        build(
            records,
            producer_id=pid,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def apply_retention(house: House, log: Log, now_ms: int, *, sync: bool = False) -> int:
    """Apply retention, file deletion included; return how many segments were deleted.

    With `sync`, as on a disk that has no room for the checkpoint files.
    """
    if log.apply_retention(now_ms) and not sync:
        house.manager.write_checkpoints()
    gone = log.begin_deletion(now_ms, sync=sync)
    if gone is None:
        return 0
    gone.run()
    gone.finish()
    return len(gone.segments)


def delete_records(house: House, log: Log, offset: int) -> None:
    """Let the log begin at `offset`, durably, as DeleteRecords does."""
    log.delete_records_before(offset)
    house.manager.write_checkpoints()


def append(log: Log, count: int = 1, **kwargs) -> list[int]:
    """Append `count` batches of one record; return their offsets."""
    return [log.append(batch(**kwargs), NOW).base_offset for _ in range(count)]


def flush(log: Log) -> None:
    """Make everything durable, as group commit does."""
    job = log.begin_flush()
    if job is not None:
        error = None
        try:
            job.run()
        except OSError as caught:
            error = caught
        log.finish_flush(job, error)


def checkpoint(house: House, log: Log) -> int:
    """Advance the recovery point and write it, as housekeeping does."""
    job = log.begin_checkpoint()
    if job is not None:
        error = None
        try:
            job.run()
        except OSError as caught:
            error = caught
        log.finish_checkpoint(job, error)
    house.manager.write_checkpoints()
    return log.recovery_point


def read_all(log: Log, start: int | None = None, size_max: int = 500) -> dict[int, bytes | None]:
    """Read as a consumer does, to the high watermark: offset -> value."""
    offset = log.start_offset if start is None else start
    found: dict[int, bytes | None] = {}
    while (piece := log.read(offset, size_max)) is not None:
        data = piece.load()
        assert len(data) == len(piece) > 0
        for position, header in batches(data):
            for record in read_records(data, position, size_max=1 << 20):
                if record.offset >= offset:
                    found[record.offset] = None if record.value is None else bytes(record.value)
            end = header.next_offset
        assert end > offset, "a read returned nothing"
        offset = end
    assert offset == max(log.high_watermark, offset)
    return found


def purge(manager: LogManager, now_ms: int) -> None:
    """Remove the deleted files and directories that are due, as housekeeping does."""
    due = manager.home.trash.begin_purge(now_ms)
    if due is not None:
        due.run()
        manager.finish_purge(due)


def delete_log(manager: LogManager, topic: str, partition: int) -> str:
    """Delete a log as the broker does; returns its directory's new path. Raises OSError."""
    manager.get(topic, partition)
    deletion = manager.begin_delete([(topic, partition)])
    deletion.run()
    manager.finish_delete(deletion)
    if deletion.error is not None:
        raise deletion.error
    return deletion.leaving[0].moved_to
