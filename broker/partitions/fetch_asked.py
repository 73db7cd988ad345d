"""What a fetch asks for, looked up, and whether the logs have enough of it to answer now."""

from __future__ import annotations

from typing import Final, Protocol

from broker.partitions.epoch_fencing import divergence
from broker.partitions.partition import Partition
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from storage.segments.cold import NOTHING, without_waiting

READ_COMMITTED: Final = 1
UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Resolved = Partition | ErrorCode  # a requested partition, or why it is refused
ResolvedTopics = list[tuple[FetchTopic, list[tuple[FetchPartition, Resolved]]]]


class View(Protocol):
    """What a fetch looks at. Within a session, more may join it while the fetch waits."""

    @property
    def has_others(self) -> bool:
        """Whether more can be read, of which there is nothing new."""
        ...

    def topics(self) -> ResolvedTopics:
        """Return what may have news now."""
        ...


class Named:
    """What a fetch without a session names."""

    __slots__ = ("_topics",)

    has_others = False

    def __init__(self, topics: ResolvedTopics) -> None:
        self._topics = topics

    def topics(self) -> ResolvedTopics:
        """Return all of it."""
        return self._topics


def have_enough(
    topics: ResolvedTopics, body: FetchRequest, bytes_max: int, *, has_others: bool = False
) -> bool:
    """Whether an answer of at most `bytes_max` bytes would have enough, or must not wait.

    `has_others`: partitions that have no news are not among the topics.
    """
    wanted = min(body.min_bytes, body.max_bytes, bytes_max)
    is_committed = body.isolation_level == READ_COMMITTED
    none_known = not has_others
    for _, partitions in topics:
        for asked, found in partitions:
            if not isinstance(found, Partition):
                if found not in UNKNOWN:
                    return True
                continue
            none_known = False
            log = found.log
            limit = log.last_stable_offset if is_committed else log.high_watermark
            offset = asked.fetch_offset
            epoch = asked.last_fetched_epoch
            if epoch >= 0 and divergence(log, epoch, offset) is not None:
                return True
            if not log.start_offset <= offset <= log.end_offset:
                return True
            if offset < limit:
                if wanted <= 1:
                    return True  # most consumers: the read makes the only look-up
                # 0 bytes below the limit mean damage, which a read reports.
                with without_waiting(NOTHING):
                    available = log.available_bytes(offset, limit)
                if available <= 0:
                    return True
                # The first partition yields a batch even if its limit is lower.
                wanted -= min(available, max(asked.partition_max_bytes, 1))
                if wanted <= 0:
                    return True
    return none_known or wanted <= 0


def readable(topics: ResolvedTopics) -> list[Partition]:
    """Return the partitions that can be read."""
    return [
        found for _, partitions in topics for _, found in partitions if isinstance(found, Partition)
    ]
