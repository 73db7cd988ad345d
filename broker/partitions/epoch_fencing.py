"""A client's view of a partition's leader epochs, compared with that of the log (KIP-320, KIP-595).

An epoch starts at the offset where its leader was elected, before any record is written in it. A
log records an epoch with its first batch. Until then the current leader epoch starts, and ends, at
the end of the log. Kafka writes that start when a leader is elected (Partition.makeLeader); this
broker computes it, so that its start changes no files.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from storage.log import Log

NO_EPOCH = -1
UNDEFINED = (-1, -1)


def fence(log: Log, current_leader_epoch: int) -> ErrorCode | None:
    """Return why a client with this `current_leader_epoch` is refused; None if it is not."""
    if current_leader_epoch in (NO_EPOCH, log.leader_epoch):
        return None
    if current_leader_epoch < log.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def end_of_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """Return (the largest known epoch not above `epoch`, the offset at which that one ended).

    An epoch before all known ones ended where the first of them starts. For an epoch above the
    current one, and for -1, the result is (-1, -1). Kafka's LeaderEpochFileCache.endOffsetFor.
    """
    if epoch == NO_EPOCH or epoch > log.leader_epoch:
        return UNDEFINED
    if epoch == log.leader_epoch:
        return epoch, log.end_offset
    found = log.end_offset_for_epoch(epoch)
    if found != UNDEFINED:
        return found
    # Above all epochs with records, below the current one, which starts at the end of the log.
    return (log.epochs.latest if log.epochs.latest != NO_EPOCH else epoch), log.end_offset


def divergence(log: Log, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
    """Return where a reader's history parts from the log's, as `end_of_epoch` does (KIP-595).

    None if it does not: the log has the records that the reader fetched last.
    """
    epoch, end_offset = end_of_epoch(log, last_fetched_epoch)
    if epoch < last_fetched_epoch or end_offset < fetch_offset:
        return epoch, end_offset
    return None


def epoch_at(log: Log, offset: int) -> int:
    """Return the epoch in which `offset` was, or will be, written."""
    if offset >= log.end_offset:
        return log.leader_epoch
    return log.epochs.epoch_of(offset)
