"""What passes through the broker, counted where it passes: plain integers, no names, no formats.

    requests   every one, by API and version; some are timed (`request_times`)
    errors     every code but NONE that an answer holds, by API
    records    each log counts its own (`appended_bytes`, `read_bytes`, offsets); here is what is
               left of logs that are gone, so that totals never fall
    disk       each flush and each round of group commit
    listeners  connections that were accepted and that ended

`broker.exposition` reads all this when it is asked, and nothing is computed before.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from broker.runtime.clock import MS_NS, SECOND_NS
from broker.runtime.log_histogram import Buckets, RecentTimes

VERSIONS_MAX: Final = 32
US_NS: Final = 1_000
FSYNC_BOUNDS_NS: Final = (
    *(n * US_NS for n in (50, 100, 250, 500)),
    *(n * MS_NS for n in (1, 2, 5, 10, 25, 50, 100, 250, 500)),
    *(n * SECOND_NS for n in (1, 2, 5, 10)),
)
COUNT_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class AnyVersions(dict[int, int]):
    """Requests by version, of an API whose clients may send any: those not served count as -1."""

    def __init__(self, min_version: int, max_version: int) -> None:
        super().__init__()
        self._served = range(min_version, max_version + 1)

    def __missing__(self, version: int) -> int:
        return 0 if version in self._served else self.get(-1, 0)

    def __setitem__(self, version: int, count: int) -> None:
        super().__setitem__(version if version in self._served else -1, count)


Counts = list[int] | AnyVersions  # by version


class TopicTraffic:
    """Requests of one topic, by partition, and those of them that failed."""

    __slots__ = ("failed_fetches", "failed_produces")

    def __init__(self) -> None:
        self.failed_produces = 0
        self.failed_fetches = 0


class ListenerTraffic:
    """Connections of one listener."""

    __slots__ = ("accepted", "closed")

    def __init__(self) -> None:
        self.accepted = 0
        self.closed = 0


class GoneTraffic:
    """What logs had counted that are gone: their topics were deleted."""

    __slots__ = ("bytes_in", "bytes_out", "fetches", "produces", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.fetches = 0


class Traffic:
    """All counts of one broker."""

    def __init__(self) -> None:
        self.requests: dict[int, Counts] = {}
        self.errors: Counter[tuple[int, int]] = Counter()  # (api key, code)
        self.topics: dict[str, TopicTraffic] = {}  # that exist; made when a request fails
        self.failed_produces = 0  # of any topic, known or not
        self.failed_fetches = 0
        self.bytes_rejected = 0  # of batches that are too large
        self.batches_corrupt = 0
        self.batches_of_old_magic = 0
        self.records_without_key = 0
        self.gone = GoneTraffic()
        self.listeners: dict[str, ListenerTraffic] = {}
        self.fsyncs = Buckets(FSYNC_BOUNDS_NS)
        self.fsync_times = RecentTimes()
        self.round_flushes = Buckets(COUNT_BOUNDS)
        self.round_waiters = Buckets(COUNT_BOUNDS)

    def serve(self, api_key: int, min_version: int, max_version: int, *, any_version: bool) -> None:
        """Count requests of an API from now on."""
        if any_version:
            self.requests.setdefault(api_key, AnyVersions(min_version, max_version))
        else:
            self.requests.setdefault(api_key, [0] * VERSIONS_MAX)

    def began(self, flush_count: int) -> None:
        """Count a round of flushes."""
        if flush_count:
            self.round_flushes.add(flush_count)

    def flushed(self, elapsed_ns: int, waiter_count: int, now_ns: int) -> None:
        """Count the end of a flush for which so many requests have waited."""
        self.fsyncs.add(elapsed_ns)
        self.fsync_times.add(elapsed_ns, now_ns)
        self.round_waiters.add(waiter_count)

    def listener(self, name: str) -> ListenerTraffic:
        """Return the counts of a listener."""
        found = self.listeners.get(name)
        if found is None:
            found = self.listeners[name] = ListenerTraffic()
        return found

    def topic(self, name: str) -> TopicTraffic:
        """Return the counts of a topic that exists; `forget` drops them."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = TopicTraffic()
        return found

    def forget(self, name: str) -> None:
        """Drop the counts of a topic that is gone."""
        self.topics.pop(name, None)
