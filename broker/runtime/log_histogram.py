"""Distributions of times from plain integers: quantiles of the last minutes, and fixed buckets.

`RecentTimes` answers quantiles. A value falls into one of eight buckets for each power of two, so a
quantile is at most 12 % above the truth. There are two windows of a minute: the older one is
dropped when the newer is full, so quantiles are those of the last one to two minutes, as in
Kafka's metrics they are of the last five.

`Buckets` counts since the start, in buckets with the bounds that Prometheus's histograms have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from broker.runtime.clock import SECOND_NS

WINDOW_NS: Final = 60 * SECOND_NS
_BUCKETS: Final = 8 * 64


class RecentTimes:
    """Quantiles of recent values, and the count and sum of all."""

    __slots__ = ("_ends_ns", "_newer", "_older", "count", "sum_ns")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ns = 0
        self._ends_ns = 0
        self._newer = [0] * _BUCKETS
        self._older = [0] * _BUCKETS

    def add(self, value_ns: int, now_ns: int, weight: int = 1) -> None:
        """Count a value, in nanoseconds, that stands for so many."""
        if now_ns >= self._ends_ns:
            self._turn(now_ns)
        self.count += weight
        self.sum_ns += weight * value_ns
        if value_ns >= 8:
            bits = value_ns.bit_length()
            self._newer[(bits << 3) | ((value_ns >> (bits - 4)) & 7)] += weight
        else:
            self._newer[0] += weight

    def _turn(self, now_ns: int) -> None:
        is_next = now_ns < self._ends_ns + WINDOW_NS
        self._older = self._newer if is_next and self._ends_ns else [0] * _BUCKETS
        self._newer = [0] * _BUCKETS
        self._ends_ns = now_ns + WINDOW_NS

    def quantiles(self, wanted: Sequence[float], now_ns: int) -> list[int]:
        """Return the values, in nanoseconds, below which these shares (ascending) are; else 0."""
        if now_ns >= self._ends_ns:
            self._turn(now_ns)
        counts = [one + other for one, other in zip(self._newer, self._older, strict=True)]
        total = sum(counts)
        found: list[int] = []
        seen, bucket = counts[0], 0
        for share in wanted:
            while bucket < _BUCKETS - 1 and seen < share * total:
                bucket += 1
                seen += counts[bucket]
            found.append(_upper(bucket) if total else 0)
        return found


def _upper(bucket: int) -> int:
    """Return the largest value of a bucket; of the lowest, 0."""
    bits, eighth = bucket >> 3, bucket & 7
    return (((8 | eighth) + 1) << (bits - 4)) - 1 if bits >= 4 else 0


class Buckets:
    """Counts by upper bound, in the unit of the values; the last count is of what is above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0

    def add(self, value: int) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
