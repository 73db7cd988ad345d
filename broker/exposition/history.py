"""The broker's own history: a row each second for 15 minutes, and one each minute for a day.

One sampler serves all viewers. A row is a few floats, so both rings take 2,340 rows of `SERIES`,
some 130 KB, whose pages are touched as they fill.

The counts of records and bytes belong to the logs. So a sample walks over all partitions, in
`WALKED` at a time; without a request since the last sample nothing has changed, and it does not.
"""

from __future__ import annotations

import asyncio
import resource
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from broker.exposition.lag_history import STEP_S, LagHistory
from broker.exposition.resident import resident_bytes
from broker.runtime import owners
from broker.runtime.clock import SECOND_NS
from broker.runtime.log_histogram import Buckets
from broker.runtime.owners import Owner
from broker.runtime.turns import InTurns
from broker.services import Services

SERIES: Final = (
    "records_in", "bytes_in", "bytes_out", "requests", "produce_requests", "fetch_requests",
    "fsync_p50_ms", "fsync_p99_ms", "fsyncs", "loop_busy", "resident_bytes", "log_bytes",
    "connections",
)  # fmt: skip
# Of a minute the largest value counts, not the mean.
LARGEST: Final = frozenset({"fsync_p99_ms", "resident_bytes", "connections"})
SECONDS_KEPT: Final = 900
MINUTES_KEPT: Final = 1_440
WALKED: Final = 250  # partitions at a time, less than half a millisecond
RESTED: Final = 60  # samples without a request after which logs are walked over all the same
PRODUCE, FETCH = 0, 1  # keys of APIs
MS_NS: Final = 1_000_000

Row = tuple[float, ...]


class Ring:
    """The newest rows, at most `kept`; `step_s` seconds from one to the next."""

    def __init__(self, kept: int, step_s: int) -> None:
        self.step_s = step_s
        self.last_ms = 0  # when the newest row was taken
        self._kept = kept
        self._rows = array("f", bytes(4 * kept * len(SERIES)))
        self._next = 0
        self._count = 0

    def add(self, row: Row, now_ms: int) -> None:
        """Keep a row, in place of the oldest."""
        begin = self._next * len(SERIES)
        self._rows[begin : begin + len(SERIES)] = array("f", row)
        self._next = (self._next + 1) % self._kept
        self._count = min(self._count + 1, self._kept)
        self.last_ms = now_ms

    def column(self, index: int) -> list[float]:
        """Return the values of one series, the oldest first."""
        values = self._rows[index :: len(SERIES)]
        if self._count < self._kept:
            return list(values[: self._count])
        return list(values[self._next :] + values[: self._next])

    def newest(self, count: int) -> Iterator[Row]:
        """Yield the newest rows, the newest first."""
        for back in range(1, min(count, self._count) + 1):
            begin = (self._next - back) % self._kept * len(SERIES)
            yield tuple(self._rows[begin : begin + len(SERIES)])


class History:
    """Samples each second from `start` to `stop`."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock = services.clock
        self.seconds = Ring(SECONDS_KEPT, 1)
        self.minutes = Ring(MINUTES_KEPT, 60)
        self.totals = [0] * 4  # records and bytes in, bytes out, bytes of all logs
        self.lags = LagHistory(services)
        self.failed: list[str] = []  # partitions whose logs take no more appends
        self._listeners: list[Callable[[], None]] = []
        self._before: list[float] = []
        self._before_ns = 0
        self._fsyncs = self._services.metrics.traffic.fsyncs
        self._fsync_counts = list(self._fsyncs.counts)
        self._walked_at = -1  # the number of requests at the last walk
        self._rested = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to sample."""
        run = partial(owners.keep_running, Owner.HTTP, self._run)
        self._task = owners.spawn(Owner.HTTP, run(), "history")

    async def stop(self) -> None:
        """End the samples."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each sample; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def _run(self) -> None:
        count = 0
        while True:
            await self._walk()
            if not count % STEP_S:
                await self.lags.sample()
            row = self._sample()
            if row is not None:
                now_ms = self._clock.now_ms()
                self.seconds.add(row, now_ms)
                count += 1
                if not count % 60:
                    self.minutes.add(_minute(list(self.seconds.newest(60))), now_ms)
                for listener in tuple(self._listeners):
                    listener()
            await asyncio.sleep(1.0)

    async def _walk(self) -> None:
        """Sum over all logs, unless no request can have changed them."""
        metrics = self._services.metrics
        requests = metrics.requests_received
        self._rested += 1
        if requests == self._walked_at and self._rested < RESTED:
            return
        self._walked_at, self._rested = requests, 0
        gone = metrics.traffic.gone
        records, bytes_in, bytes_out, size = gone.records, gone.bytes_in, gone.bytes_out, 0
        failed: list[str] = []
        async for partition in InTurns(self._services.partitions.all(), WALKED):
            log = partition.log
            records += log.end_offset - log.opened_at
            bytes_in += log.appended_bytes
            bytes_out += log.read_bytes
            size += log.size_bytes
            if log.failed is not None:
                failed.append(f"{log.topic}-{log.partition}")
        self.totals = [records, bytes_in, bytes_out, size]
        self.failed = failed

    def _sample(self) -> Row | None:
        """Return the rates since the sample before; None for the first one."""
        services = self._services
        counts = services.metrics.traffic.requests
        used = resource.getrusage(resource.RUSAGE_THREAD)
        now_ns = self._clock.monotonic_ns()
        now = [
            *self.totals[:3],
            services.metrics.requests_received,
            sum(counts.get(PRODUCE, ())),
            sum(counts.get(FETCH, ())),
            services.metrics.flushes,
            used.ru_utime + used.ru_stime,
        ]
        before, seconds = self._before, (now_ns - self._before_ns) / SECOND_NS
        self._before, self._before_ns = now, now_ns
        if not before:
            return None
        rates = [max(0.0, one - other) / seconds for one, other in zip(now, before, strict=True)]
        p50, p99 = self._fsync_times()
        return (
            *rates[:6],
            p50,
            p99,
            rates[6],
            min(1.0, rates[7]),
            float(resident_bytes()),
            float(self.totals[3]),
            float(services.metrics.connections_now),
        )

    def _fsync_times(self) -> tuple[float, float]:
        """Return two quantiles, in ms, of the fsyncs since the sample before."""
        counts = list(self._fsyncs.counts)
        since = [one - other for one, other in zip(counts, self._fsync_counts, strict=True)]
        self._fsync_counts = counts
        return _quantile(self._fsyncs, since, 0.5), _quantile(self._fsyncs, since, 0.99)


def _quantile(buckets: Buckets, counts: list[int], share: float) -> float:
    """Return a quantile in ms, interpolated within its bucket."""
    wanted = share * sum(counts)
    seen, lower = 0, 0
    for bound, count in zip(buckets.bounds, counts, strict=False):
        if count and seen + count >= wanted:
            return (lower + (bound - lower) * (wanted - seen) / count) / MS_NS
        seen += count
        lower = bound
    return lower / MS_NS if seen < sum(counts) else 0.0


def _minute(rows: list[Row]) -> Row:
    columns = zip(SERIES, zip(*rows, strict=True), strict=True)
    return tuple(max(c) if name in LARGEST else sum(c) / len(c) for name, c in columns)
