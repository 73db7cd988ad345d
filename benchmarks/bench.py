"""What all cells share: the length of a run, prebuilt batches, topic names, learned counts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable
from dataclasses import dataclass, field

from benchmarks import frames

KIB, MIB = 1 << 10, 1 << 20
BATCH_16K = 16 * KIB
BATCH_1M = 1_000_000  # below max.message.bytes, 1,048,588

Figures = dict[str, float]


@dataclass
class Bench:
    """`seconds` is the length of one measured run; while `learning`, runs set the learned rates."""

    seconds: float = 3.0
    learning: bool = False
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _rates: dict[Hashable, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.batch_16k, self.records_16k = frames.filled_batch(100, BATCH_16K, now_ms)
        self.batch_1m, self.records_1m = frames.filled_batch(100, BATCH_1M, now_ms)
        self.one_record = frames.record_batch([bytes(100)], now_ms)

    @property
    def scale(self) -> float:
        """The factor for figures that were chosen for runs of three seconds."""
        return self.seconds / 3.0

    def brief(self) -> Bench:
        """Return a copy whose runs are a fifth as long, for warming."""
        return Bench(self.seconds * 0.2, _numbers=self._numbers)

    def topic(self) -> str:
        """Return a name that was not used before."""
        return f"bench-{next(self._numbers)}"

    def rate(self, key: Hashable) -> float | None:
        """Return the learned rate."""
        return self._rates.get(key)

    def count(self, key: Hashable, guess: int) -> int:
        """Return the records of a run: by the learned rate, or the guess before there is one."""
        return int(self._rates[key] * self.seconds) if key in self._rates else guess

    def learn(self, key: Hashable, rate: float) -> None:
        """Keep a rate (records/s): Kafka's, which runs first, uncounted."""
        if self.learning or key not in self._rates:
            self._rates[key] = rate

    def forget(self) -> None:
        """Drop the learned rates before the next cell."""
        self._rates.clear()
