"""Kafka's two measures of use: a rate over sliding windows, and a bucket of tokens.

A rate counts values in windows of `window_ms`. A new window begins with the first value that comes
when the newest window is full, so silence makes none. A window counts until `count` times its
length have passed since its last value. The rate divides by the time since the oldest window began,
but by at least `count - 1` full windows: a client may use ten seconds' worth at once.

    throttle time = (rate - limit) / limit * that time

It is an estimate: before the oldest window is ten windows old, waiting hardly lowers the rate, and
the next use may be throttled again. These are the formulas of Kafka's Rate, SampledStat,
TokenBucket and QuotaUtils (KIP-13, KIP-599).
"""

from __future__ import annotations

from collections import deque
from math import floor
from typing import Final, NamedTuple

SECOND_MS: Final = 1_000


class Windows(NamedTuple):
    """How many windows a rate has, and how long each is."""

    number: int
    window_ms: int

    @property
    def span_ms(self) -> int:
        """How long a value counts at least."""
        return self.number * self.window_ms


class _Window:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """A rate a second over the last windows."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Window] = deque(maxlen=windows.number + 1)

    def record(self, value: float, now_ms: int) -> None:
        """Count a value; a negative one takes back what was counted."""
        samples = self._samples
        if not samples or now_ms - samples[-1].began_ms >= self._windows.window_ms:
            samples.append(_Window(now_ms))
        newest = samples[-1]
        newest.value += value
        newest.last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return how long the client must wait until the rate is within `limit`; 0 if it is."""
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = sum(sample.value for sample in self._samples) / elapsed_ms * SECOND_MS
        if not rate > limit:
            return 0
        return rounded((rate - limit) / limit * elapsed_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing that was counted counts any more."""
        self._drop_old(now_ms)
        return not self._samples

    def _drop_old(self, now_ms: int) -> None:
        samples, span_ms = self._samples, self._windows.span_ms
        while samples and now_ms - samples[0].last_ms >= span_ms:
            samples.popleft()

    def _elapsed_ms(self, now_ms: int) -> int:
        self._drop_old(now_ms)
        count, window_ms = self._windows
        elapsed_ms = now_ms - self._samples[0].began_ms if self._samples else 0
        missing = count - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        return elapsed_ms if elapsed_ms > 0 else window_ms


class TokenBucket:
    """Tokens that come at a rate, up to a burst of all windows. It may go below zero."""

    __slots__ = ("_refilled_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full
        self._refilled_ms = 0

    def tokens(self, rate: float, now_ms: int) -> float:
        """Return how many tokens there are."""
        burst = rate * self._windows.span_ms / SECOND_MS
        if self._tokens is None:
            return burst
        gained = rate * (now_ms - self._refilled_ms) / SECOND_MS
        return min(burst, self._tokens + gained)

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Take tokens, even those that have not come yet."""
        self._tokens = self.tokens(rate, now_ms) - count
        self._refilled_ms = now_ms

    def is_idle(self, rate: float, now_ms: int) -> bool:
        """Whether it is full, as a new one is."""
        return self.tokens(rate, now_ms) >= rate * self._windows.span_ms / SECOND_MS


def rounded(milliseconds: float) -> int:
    """Round as Java does, to at most an int32: a throttle time is one."""
    return floor(min(milliseconds + 0.5, 2**31 - 1))  # it may be infinite
