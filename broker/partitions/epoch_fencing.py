"""What a client knows of a partition's leader epochs, held against what its log knows (KIP-320).

An epoch begins where the leader took it up, before anything is written under it. A log notes an
epoch with its first batch; until then the epoch that the partition is led under begins, and
ends, at the end of the log. Kafka writes that down when a leader is elected (Partition.makeLeader);
here it is reckoned, so that a start of the broker changes no files.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from storage.log import Log

NO_EPOCH = -1
UNDEFINED = (-1, -1)


def fence(log: Log, current_leader_epoch: int) -> ErrorCode | None:
    """Return why a client that believes in `current_leader_epoch` is refused; None if it is not."""
    if current_leader_epoch in (NO_EPOCH, log.leader_epoch):
        return None
    if current_leader_epoch < log.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def end_of_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """Return (the largest known epoch not above `epoch`, the offset at which that one ended).

    An epoch from before all known ones ended where they begin; of one that has not come yet,
    and of -1, nothing is known: (-1, -1). Kafka's LeaderEpochFileCache.endOffsetFor.
    """
    if epoch == NO_EPOCH or epoch > log.leader_epoch:
        return UNDEFINED
    if epoch == log.leader_epoch:
        return epoch, log.end_offset
    found = log.end_offset_for_epoch(epoch)
    if found != UNDEFINED:
        return found
    # Above all that were written under, below the one in force, which begins at the end.
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
    """Return the epoch under which `offset` was, or will be, written."""
    if offset >= log.end_offset:
        return log.leader_epoch
    return log.epochs.epoch_of(offset)
