"""A partition as the broker sees it: its log, and everything that waits on it.

Storage knows the log and nothing of waiting; the three that wait each keep their lists here, so
that the path of a request looks its partition up once: producers for durability (`waiters`, owned
by group commit), appends for their turn (`queue`, owned by the append queues), and fetches for
bytes (`watchers`, owned by the purgatory).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from storage.errors import UnknownPartition
from storage.log import Log

if TYPE_CHECKING:
    from broker.append_queue import QueuedAppend
    from broker.group_commit import CommitWaiter
    from broker.purgatory import ParkedFetch


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


class Partitions:
    """All partitions this broker leads, by topic name and number."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, int], Partition] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, log: Log) -> Partition:
        """Make `log` known."""
        key = (log.topic, log.partition)
        assert key not in self._by_key, f"{key} is open already"
        partition = self._by_key[key] = Partition(log)
        return partition

    def remove(self, topic: str, number: int) -> Partition | None:
        """Forget a partition; its waiters are the caller's to answer."""
        return self._by_key.pop((topic, number), None)

    def get(self, topic: str, number: int) -> Partition:
        """Return a partition; UnknownPartition if this broker has none by that name."""
        try:
            return self._by_key[topic, number]
        except KeyError:
            raise UnknownPartition(topic, number) from None

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self._by_key.values())
