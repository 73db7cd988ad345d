"""One fetch session: its partitions, what its client was told of each, and which may have news.

Kafka looks at every partition of a session for each fetch. Here a partition *sleeps* once a look
has found nothing to tell, in the list of those that its log wakes (`Partition.sleepers`): when the
high watermark moves, a transaction ends, the log fails or the partition is removed. So a fetch
looks at those that are *awake*, however many the session has.

    added, named again, answered with records or an error ──> awake ──> looked at, nothing left
                         woken by its log ─────────────────────^ └──────────> asleep ──┘

A start of a log that moves wakes nobody: `rouse` compares, if one has moved anywhere (`LogStarts`).
It also does so once a second, in case a wake-up was lost, and returns how many were.

The order of the partitions is Kafka's: one that has had records goes to the end, so that none
starves where an answer has room for few. `place` is a partition's in this order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from broker.partitions.partition import ParkedFetch, Partition
from broker.runtime.request import Request, Responder
from protocol.messages.fetch import FetchPartition, PartitionData

UNTOLD: Final = -1  # as after an error: whatever comes next is told
EPOCH_MAX: Final = 2**31 - 1

Ident = str | bytes  # a topic's name, or its id from version 13 on
Key = tuple[Ident, int]

_place = attrgetter("place")


class CachedPartition:
    """A partition of a session: what is asked, what was told."""

    __slots__ = ("asked", "bed", "ident", "name", "place", "session", "told_mark", "told_start")

    def __init__(
        self, session: FetchSession, ident: Ident, name: str, asked: FetchPartition
    ) -> None:
        self.session = session
        self.ident = ident
        self.name = name  # "" until an id is known
        self.asked = asked
        self.place = 0
        self.told_mark = UNTOLD  # the high watermark
        self.told_start = UNTOLD
        self.bed: Partition | None = None  # it sleeps there

    def wake(self) -> ParkedFetch | None:
        """Be looked at again; return the fetch of the session that waits, if one does."""
        self.session.wake(self)
        return self.session.parked

    def tell(self, data: PartitionData) -> bool:
        """Note what an answer says; return whether it says anything new (Kafka's rule)."""
        is_news = bool(data.records) or data.diverging_epoch is not None
        if self.told_mark != data.high_watermark:
            self.told_mark = data.high_watermark
            is_news = True
        if self.told_start != data.log_start_offset:
            self.told_start = data.log_start_offset
            is_news = True
        if data.error_code:
            self.told_mark = UNTOLD
            is_news = True
        return is_news

    def has_news(self, bed: Partition, *, is_committed: bool) -> bool:
        """Whether a look would find something to tell, or to read."""
        log = bed.log
        limit = log.last_stable_offset if is_committed else log.high_watermark
        return (
            self.asked.fetch_offset < limit
            or log.high_watermark != self.told_mark
            or log.start_offset != self.told_start
        )


class FetchSession:
    """The partitions of one session, in Kafka's order. Its cache has it by `id`."""

    __slots__ = (
        "_last_place",
        "awake",
        "behind",
        "by_id",
        "changes",
        "created_ms",
        "epoch",
        "goes_on",
        "id",
        "is_committed",
        "parked",
        "partitions",
        "rights",
        "roused_ms",
        "running",
        "start_moves",
        "used_ms",
    )

    def __init__(self, session_id: int, *, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.by_id = by_id  # topics have ids, or names
        self.created_ms = self.used_ms = self.roused_ms = now_ms
        self.epoch = 1  # of the next request
        self.partitions: dict[Key, CachedPartition] = {}
        self.awake: dict[CachedPartition, None] = {}
        self.changes = 0  # of `awake`, and of what is asked
        self.is_committed = False  # as the last fetch has asked
        # Who may read the sleepers, and as of when; None while nobody needs a right.
        self.rights: tuple[str, str, int] | None = None
        self.start_moves = 0  # that the sleepers know of
        self.running: Request | None = None  # the fetch of the last epoch, until it is answered
        # Of its connection, behind it; bounded by requests in flight.
        self.behind: deque[tuple[Responder, Callable[[], None]]] = deque()
        self.goes_on = False  # the first of them begins in the next turn of the loop
        self.parked: ParkedFetch | None = None
        self._last_place = 0

    def has_before(self, request: Request) -> bool:
        """Whether an earlier fetch of the same connection is not answered yet."""
        connection, running = request.connection, self.running
        if running is not None and running.connection is connection:
            return True
        return any(one is connection for one, _ in self.behind)

    def next_epoch(self) -> int:
        """Begin the next epoch; return it."""
        self.epoch = 1 if self.epoch >= EPOCH_MAX else self.epoch + 1
        return self.epoch

    def put(self, ident: Ident, name: str, asked: FetchPartition) -> CachedPartition:
        """Add a partition, or change what is asked of it."""
        key = (ident, asked.partition)
        cached = self.partitions.get(key)
        if cached is None:
            cached = self.partitions[key] = CachedPartition(self, ident, name, asked)
            self.move_to_end(cached)
        cached.asked = asked
        self.changes += 1
        self.wake(cached)
        return cached

    def forget(self, key: Key) -> None:
        """Drop a partition, if it is there."""
        cached = self.partitions.pop(key, None)
        if cached is not None:
            self.wake(cached)
            del self.awake[cached]
            self.changes += 1

    def move_to_end(self, cached: CachedPartition) -> None:
        """Let all others come before it."""
        self._last_place += 1
        cached.place = self._last_place

    def in_order(self) -> list[CachedPartition]:
        """Return those that are awake."""
        return sorted(self.awake, key=_place)

    @property
    def has_sleepers(self) -> bool:
        """Whether a partition is not awake."""
        return len(self.awake) < len(self.partitions)

    def sleep(self, cached: CachedPartition, bed: Partition) -> None:
        """Look at it no more until `bed` wakes it."""
        if self.awake.pop(cached, 0) is None:
            self.changes += 1
            cached.bed = bed
            bed.sleepers[cached] = None

    def wake(self, cached: CachedPartition) -> None:
        """Look at it again."""
        bed = cached.bed
        if bed is not None:
            cached.bed = None
            bed.sleepers.pop(cached, None)
        if cached not in self.awake:
            self.awake[cached] = None
            self.changes += 1

    def wake_all(self) -> None:
        """Look at all again."""
        for cached in self._sleepers():
            self.wake(cached)

    def rouse(self) -> int:
        """Wake those that have news; return how many their logs should have woken."""
        lost = 0
        for cached in self._sleepers():
            bed = cached.bed
            if bed is not None and cached.has_news(bed, is_committed=self.is_committed):
                lost += bed.log.start_offset == cached.told_start
                self.wake(cached)
        return lost

    def _sleepers(self) -> list[CachedPartition]:
        if not self.has_sleepers:
            return []
        return [one for one in self.partitions.values() if one.bed is not None]

    def end(self) -> None:
        """Leave the logs. A fetch that waits watches them itself from now on."""
        for cached in self._sleepers():
            bed = cached.bed
            self.wake(cached)
            if self.parked is not None and bed is not None:
                self.parked.watch(bed)
