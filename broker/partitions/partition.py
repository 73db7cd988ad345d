"""A partition as the broker sees it: its log, and the requests that wait on it.

Storage knows the log and nothing of waiting. Three kinds of requests wait, each in a list of its
partition, so that the path of a request looks its partition up once:

    waiters     CommitWaiter    until the log is durable    owned by group_commit
    queue       QueuedAppend    for their turn to append    owned by append_queue
    watchers    ParkedFetch     for records to read         owned by purgatory

Beside them wait the `sleepers`: partitions of fetch sessions (`broker.fetch_sessions`), each until
its log has news. The purgatory wakes them.

The owners put entries in, take them out and decide when; here is only what an entry holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.runtime import owners
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.record_work import Walk, WalkAbandoned
from broker.runtime.request import Request
from protocol.errors import ErrorCode
from protocol.record_errors import RecordError
from storage.errors import LogFailed, StorageError, UnknownPartition
from storage.log import Appended, Log

NO_LEADER: Final = -1

AppendOutcome = Appended | Exception


class CommitWaiter(NamedTuple):
    """A request that is answered when the log is durable up to `end_offset`."""

    end_offset: int
    deadline_ns: int
    answer: Callable[[ErrorCode], None]

    def tell(self, code: ErrorCode) -> None:
        """Answer with `code`; report an exception that the callback raises."""
        try:
            self.answer(code)
        except Exception as error:
            owners.failed(Owner.FLUSH, error, f"a waiter for offset {self[0]}, told {code.name}")


class QueuedAppend:
    """A batch that waits for its turn, and the callback for its outcome."""

    __slots__ = (
        "append",
        "batch",
        "client",
        "deadline_ns",
        "done",
        "failure",
        "prepare",
        "prepared_bytes",
        "refusal",
        "sent",
        "walk",
    )

    def __init__(
        self,
        sent: memoryview,
        deadline_ns: int,
        done: Callable[[AppendOutcome], None],
        append: Callable[[memoryview, int], Appended],
        prepare: Callable[[], memoryview] | None = None,
        client: object = None,
    ) -> None:
        self.sent = sent
        self.prepare = prepare  # makes the batch to append from the one that was sent
        self.client = client
        self.batch = sent if prepare is None else None  # None until it is prepared
        self.prepared_bytes = 0  # of the batch, if it is not the one that was sent
        self.deadline_ns = deadline_ns
        self.done = done
        self.append = append  # called with the batch and the time in ms, at its turn
        self.failure: RecordError | WalkAbandoned | None = None
        self.walk: Walk | None = None  # prepares the batch
        self.refusal: Exception | None = None  # the outcome, once the walk has ended

    @property
    def is_ready(self) -> bool:
        """Whether the batch is prepared, or its preparation has failed."""
        return self.batch is not None or self.failure is not None

    def tell(self, outcome: AppendOutcome) -> None:
        """Call back with `outcome`; report an exception that the callback raises."""
        try:
            self.done(outcome)
        except Exception as error:
            owners.failed(Owner.APPEND, error)


class ParkedFetch:
    """A fetch that waits. Watch lists hold it by identity."""

    __slots__ = ("complete", "is_large", "is_satisfied", "partitions", "request", "timer")

    def __init__(
        self,
        request: Request,
        partitions: list[Partition],
        is_satisfied: Callable[[], bool],
        complete: Callable[[], None],
        *,
        is_large: bool = False,
    ) -> None:
        self.request = request
        self.is_large = is_large  # to count takes long: once in a turn of the loop
        self.partitions = partitions  # grows by those that wake
        self.is_satisfied = is_satisfied  # counts the bytes that could be read, reads nothing
        self.complete = complete  # reads and answers
        self.timer: asyncio.TimerHandle | None = None

    def watch(self, partition: Partition) -> None:
        """Watch one more partition, while it waits."""
        if self.timer is not None and self not in partition.watchers:
            self.partitions.append(partition)
            partition.watchers[self] = None


class Sleeper(Protocol):
    """A partition of a fetch session, of which its log has nothing new to tell."""

    def wake(self) -> ParkedFetch | None:
        """Leave the partition's sleepers; return the fetch that waits for its news, if any."""
        ...


class Partition:
    """One log and its waiters."""

    __slots__ = (
        "fetches",
        "flush_scheduled",
        "flush_started_ns",
        "is_patient",
        "lane_waiters",
        "log",
        "produces",
        "queue",
        "sleepers",
        "waiters",
        "watchers",
    )

    def __init__(self, log: Log) -> None:
        self.log = log
        self.waiters: deque[CommitWaiter] = deque()
        self.queue: deque[QueuedAppend] = deque()
        self.watchers: dict[ParkedFetch, None] = {}
        self.sleepers: dict[Sleeper, None] = {}
        self.produces = 0  # of clients, and not of coordinators
        self.fetches = 0
        self.flush_scheduled = False
        self.flush_started_ns = 0  # 0: no flush is running
        self.is_patient = log.topic == TRANSACTION_TOPIC  # without a request, its flush may wait
        self.lane_waiters = 0  # of `waiters`, those of GroupCommit.durable_together


class PartitionLeader(NamedTuple):
    """The leader of a partition, as answers name it."""

    error_code: ErrorCode
    leader_id: int
    offline_replicas: list[int]


class Partitions:
    """All partitions this broker leads, by topic name and number."""

    __slots__ = ("_by_key", "_metrics", "_offline", "removals")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._by_key: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], LogFailed] = {}
        self.removals = 0  # so far

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, log: Log) -> Partition:
        """Make `log` known."""
        key = (log.topic, log.partition)
        assert key not in self._by_key, f"{key} is open already"
        self._set_online(key)
        partition = self._by_key[key] = Partition(log)
        return partition

    def remove(self, topic: str, number: int) -> Partition | None:
        """Remove and return a partition; the caller answers its waiters."""
        self._set_online((topic, number))
        partition = self._by_key.pop((topic, number), None)
        if partition is not None:
            self.removals += 1
            self._keep_counts(partition)
        return partition

    def _keep_counts(self, partition: Partition) -> None:
        """Keep the counts of a partition that goes, so that totals never fall."""
        log, gone = partition.log, self._metrics.traffic.gone
        gone.records += log.end_offset - log.opened_at
        gone.bytes_in += log.appended_bytes
        gone.bytes_out += log.read_bytes
        gone.produces += partition.produces
        gone.fetches += partition.fetches
        self._metrics.traffic.forget(log.topic)

    def _set_online(self, key: tuple[str, int]) -> None:
        if self._offline.pop(key, None) is not None:
            self._metrics.partitions_offline_now -= 1

    def set_offline(self, topic: str, number: int, failure: LogFailed) -> bool:
        """Note that a partition's log cannot be opened; return whether this is new."""
        is_news = not self.is_offline(topic, number)
        self._metrics.partitions_offline_now += is_news
        self._offline[topic, number] = failure
        return is_news

    def is_offline(self, topic: str, number: int) -> bool:
        """Whether a partition's log cannot be opened."""
        return (topic, number) in self._offline

    def offline(self) -> list[tuple[str, int]]:
        """Return the topic and number of each partition whose log cannot be opened."""
        return list(self._offline)

    def has(self, topic: str, number: int) -> bool:
        """Whether a partition's log is open."""
        return (topic, number) in self._by_key

    def has_this(self, partition: Partition) -> bool:
        """Whether `partition` has not been removed."""
        log = partition.log
        return self._by_key.get((log.topic, log.partition)) is partition

    def find(self, topic: str, number: int) -> Partition | None:
        """Return a partition whose log is open, or None."""
        return self._by_key.get((topic, number))

    def get(self, topic: str, number: int) -> Partition:
        """Return a partition.

        Raises UnknownPartition if this broker does not have it, LogFailed if its log cannot be
        opened.
        """
        key = (topic, number)
        try:
            return self._by_key[key]
        except KeyError:
            if (failure := self._offline.get(key)) is not None:
                raise LogFailed(failure.path, failure.reason) from None
            raise UnknownPartition(topic, number) from None

    def leader(self, topic: str, number: int, node_id: int) -> PartitionLeader:
        """Return a partition's leader, for Metadata and DescribeTopicPartitions."""
        try:
            self.get(topic, number)
        except UnknownPartition:  # it is being created or deleted
            return PartitionLeader(ErrorCode.LEADER_NOT_AVAILABLE, node_id, [])
        except StorageError:  # its log cannot be opened: only this partition has no leader
            return PartitionLeader(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [node_id])
        return PartitionLeader(ErrorCode.NONE, node_id, [])

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self._by_key.values())
