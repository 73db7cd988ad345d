"""The errors of storage, by type.

Storage knows no protocol error codes: `broker.error_mapping` turns each type into the code that a
client sees. Attributes hold what was found, what was expected and where, so that tests and callers
compare values and never texts.

    StorageError
    ├── OffsetOutOfRange         the reader's fault
    ├── UnknownPartition         the reader's or the producer's fault
    ├── BatchTooLarge            the producer's fault, as are the five below
    ├── InvalidTimestamp
    ├── OutOfOrderSequence
    ├── InvalidProducerEpoch
    ├── NoTransaction
    ├── TransactionOpen
    ├── CoordinatorFenced        a transaction coordinator's fault: its marker is out of date
    ├── ProducerInDoubt          the disk's fault: the batch may be in a damaged part of the log
    ├── AppendTimedOut           the disk's fault: it is slow, and the batch was not appended
    ├── LogFailed                the disk's fault: this log takes no more appends
    │   ├── AppendFailed         one write failed; `rolled_back` says whether the log may go on
    │   └── DamagedLog           bytes in the file contradict the format; reads from there fail
    ├── DirectoryLocked          the operator's fault: another process uses the directory
    ├── CorruptMetadata          a file that the broker cannot start without is unreadable
    └── CheckpointError          a cache file is unreadable: the caller resets it and goes on

Errors of the record format (such as a wrong checksum in a produced batch) come from
`protocol.record_errors` and pass through storage unchanged. A plain OSError leaves storage only
from operations on whole directories (create, list, delete).
"""

from __future__ import annotations

import posixpath


class StorageError(Exception):
    """Base of all errors that storage raises on purpose."""


class OffsetOutOfRange(StorageError):
    """A read asked for an offset outside [start, end]."""

    def __init__(self, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside the log: it holds {start} to {end}")
        self.offset = offset
        self.start = start
        self.end = end


class UnknownPartition(StorageError):
    """No log of that topic and partition is open."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"no log for {topic}-{partition} in this directory")
        self.topic = topic
        self.partition = partition


class BatchTooLarge(StorageError):
    """A batch is larger than a segment of this log may be."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"batch of {size} bytes, at most {size_max} fit (segment.bytes)")
        self.size = size
        self.size_max = size_max


class InvalidTimestamp(StorageError):
    """A batch's timestamp is outside what the topic accepts (KIP-937). All values in ms."""

    def __init__(self, timestamp: int, earliest: int, latest: int) -> None:
        super().__init__(
            f"timestamp {timestamp} ms, expected {earliest} to {latest} "
            "(message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
        )
        self.timestamp = timestamp
        self.earliest = earliest
        self.latest = latest


class OutOfOrderSequence(StorageError):
    """An idempotent producer's batch does not follow its last one."""

    def __init__(self, producer_id: int, found: int, wanted: int) -> None:
        super().__init__(f"producer {producer_id}: base sequence {found}, expected {wanted}")
        self.producer_id = producer_id
        self.found = found
        self.wanted = wanted


class InvalidProducerEpoch(StorageError):
    """A producer used an epoch older than the newest one seen (a fenced producer)."""

    def __init__(self, producer_id: int, found: int, wanted: int) -> None:
        super().__init__(f"producer {producer_id}: epoch {found}, the log has seen {wanted}")
        self.producer_id = producer_id
        self.found = found
        self.wanted = wanted


class NoTransaction(StorageError):
    """A transactional batch that no transaction was begun for."""

    def __init__(self, producer_id: int) -> None:
        super().__init__(
            f"producer {producer_id} sent a transactional batch, but has no transaction: a "
            "transactional batch comes with a transactional id"
        )
        self.producer_id = producer_id


class TransactionOpen(StorageError):
    """A plain batch of a producer whose transaction is open in this partition."""

    def __init__(self, producer_id: int, first_offset: int) -> None:
        super().__init__(
            f"producer {producer_id} sent a batch outside its transaction, which is open from "
            f"offset {first_offset} on: expected a transactional batch"
        )
        self.producer_id = producer_id
        self.first_offset = first_offset


class CoordinatorFenced(StorageError):
    """A marker comes from a transaction coordinator that another has replaced."""

    def __init__(self, producer_id: int, found: int, wanted: int) -> None:
        super().__init__(
            f"producer {producer_id}: marker of coordinator epoch {found}, the log has seen "
            f"{wanted}"
        )
        self.producer_id = producer_id
        self.found = found
        self.wanted = wanted


class ProducerInDoubt(StorageError):
    """A batch may already be in a damaged part of the log. It is not appended again."""

    def __init__(self, producer_id: int, sequence: int, offset: int) -> None:
        super().__init__(
            f"producer {producer_id}: base sequence {sequence} may already be in the damaged part "
            f"below offset {offset}; give the producer a new epoch to go on"
        )
        self.producer_id = producer_id
        self.sequence = sequence
        self.offset = offset


class AppendTimedOut(StorageError):
    """A batch waited for a slow disk until its request timed out. It is not in the log."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: the disk did not keep up within the request's timeout; nothing was appended"
        )
        self.path = path


class LogFailed(StorageError):
    """The disk failed a log, which stays failed until it is opened again.

    `path` is the file or directory, `reason` says what failed there.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class AppendFailed(LogFailed):
    """A write at the end of a log file failed or was short.

    With `rolled_back`, the file is as it was before and the log may go on: a full disk may have
    room again later. Otherwise the file may end in a partial batch; nothing may be appended behind
    it, and the log has failed.
    """

    def __init__(
        self, path: str, position: int, cause: OSError, *, rolled_back: bool, size_bytes: int = 0
    ) -> None:
        rest = "the file was cut back" if rolled_back else "cutting the file back failed as well"
        super().__init__(path, f"append at position {position} failed: {cause}; {rest}")
        self.position = position
        self.cause = cause
        self.rolled_back = rolled_back
        self.size_bytes = size_bytes  # of the write


class DamagedLog(LogFailed):
    """The bytes at a position of a log file are not the batch that must be there.

    Found by structure where the batch's checksum does not reach: base offset, length, leader epoch,
    magic. `offset` is the lowest offset that cannot be served.
    """

    def __init__(self, path: str, position: int, offset: int, *, found: str, wanted: str) -> None:
        super().__init__(
            path, f"damaged at position {position} (offset {offset}): {found}, expected {wanted}"
        )
        self.position = position
        self.offset = offset
        self.found = found
        self.wanted = wanted


class DirectoryLocked(StorageError):
    """Another process (or this one, a second time) uses the data directory.

    `holder_pid` is that process, or 0 if it cannot be seen, for example in another container.
    """

    def __init__(self, path: str, holder_pid: int = 0) -> None:
        holder = f" (pid {holder_pid})" if holder_pid else ""
        super().__init__(
            f"Failed to acquire lock on file {posixpath.basename(path)} in "
            f"{posixpath.dirname(path)}. A Kafka instance in another process or thread{holder} is "
            "using this directory. Stop it, or start on another directory."
        )
        self.path = path
        self.holder_pid = holder_pid


class CorruptMetadata(StorageError):
    """A file that the broker cannot start without is missing or unreadable."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CheckpointError(StorageError):
    """A checkpoint file is not in its format. It is a cache: the caller resets it and goes on."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
