"""A partition as the broker sees it: its log, and everything that waits on it.

Storage knows the log and nothing of waiting; the three that wait each keep their lists here, so
that the path of a request looks its partition up once: producers for durability (`waiters`, owned
by group commit), appends for their turn (`queue`, owned by the append queues), and fetches for
bytes (`watchers`, owned by the purgatory).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ErrorCode
from storage.errors import LogFailed, StorageError, UnknownPartition
from storage.log import Log

if TYPE_CHECKING:
    from broker.partitions.append_queue import QueuedAppend
    from broker.partitions.group_commit import CommitWaiter
    from broker.partitions.purgatory import ParkedFetch

NO_LEADER: Final = -1


class Partition:
    """One log and its waiters."""

    __slots__ = (
        "flush_scheduled",
        "flush_started_ns",
        "log",
        "queue",
        "waiters",
        "watchers",
    )

    def __init__(self, log: Log) -> None:
        self.log = log
        self.waiters: deque[CommitWaiter] = deque()
        self.queue: deque[QueuedAppend] = deque()
        self.watchers: dict[ParkedFetch, None] = {}
        self.flush_scheduled = False
        self.flush_started_ns = 0  # 0: no flush is running


class Leadership(NamedTuple):
    """What a client is told of a partition's leader."""

    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


class Partitions:
    """All partitions this broker leads, by topic name and number."""

    __slots__ = ("_by_key", "_offline")

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], LogFailed] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, log: Log) -> Partition:
        """Make `log` known."""
        key = (log.topic, log.partition)
        assert key not in self._by_key, f"{key} is open already"
        self._offline.pop(key, None)
        partition = self._by_key[key] = Partition(log)
        return partition

    def remove(self, topic: str, number: int) -> Partition | None:
        """Forget a partition; its waiters are the caller's to answer."""
        self._offline.pop((topic, number), None)
        return self._by_key.pop((topic, number), None)

    def set_offline(self, topic: str, number: int, failure: LogFailed) -> bool:
        """Note that a partition's log cannot be opened; whether that is news."""
        is_news = (topic, number) not in self._offline
        self._offline[topic, number] = failure
        return is_news

    def offline(self) -> list[tuple[str, int]]:
        """Return the topic and number of each partition whose log cannot be opened."""
        return list(self._offline)

    def get(self, topic: str, number: int) -> Partition:
        """Return a partition; UnknownPartition if this broker has none by that name.

        LogFailed if it has, but cannot open its log.
        """
        key = (topic, number)
        try:
            return self._by_key[key]
        except KeyError:
            if (failure := self._offline.get(key)) is not None:
                raise LogFailed(failure.path, failure.reason) from None
            raise UnknownPartition(topic, number) from None

    def leadership(self, topic: str, number: int, node_id: int) -> Leadership:
        """Return who leads a partition, as Metadata and DescribeTopicPartitions tell it."""
        try:
            self.get(topic, number)
        except UnknownPartition:  # being created or deleted in this moment
            return Leadership(ErrorCode.LEADER_NOT_AVAILABLE, node_id, [])
        except StorageError:  # its log cannot be opened: this partition alone has no leader
            return Leadership(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [node_id])
        return Leadership(ErrorCode.NONE, node_id, [])

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self._by_key.values())
