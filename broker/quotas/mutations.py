"""A client's quota of changes to topics (KIP-599): one token for each partition.

A change that finds the bucket below zero is refused with THROTTLING_QUOTA_EXCEEDED, if the version
of its API has that error (strict); otherwise it is made and its client is throttled. A change that
finds any token, or none but no debt, is made whole. So bursts pass, and debts are waited for:

    throttle time = debt / limit

`begin` and `settle` are called on the loop, and nothing else uses the bucket in between; `charge`
may be called by a thread that plans the change.
"""

from __future__ import annotations

from broker.metadata.topic_rules import TopicError
from broker.quotas.windowed_rate import SECOND_MS, TokenBucket, rounded
from broker.runtime.clock import MS_NS, Clock
from protocol.errors import ErrorCode

NO_TEXT = ""  # Kafka sends none: the code says it all


class MutationQuota:
    """The quota of one request that changes topics."""

    __slots__ = (
        "_began_ms",
        "_bucket",
        "_charged",
        "_clock",
        "_is_strict",
        "_limit",
        "_throttle_ms",
        "_tokens",
    )

    def __init__(self, bucket: TokenBucket, limit: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._limit = limit
        self._clock = clock
        self._is_strict = is_strict
        self._began_ms = 0
        self._tokens = 0.0
        self._charged = 0
        self._throttle_ms = 0

    def begin(self) -> None:
        """Look at the bucket."""
        self._began_ms = self._now_ms()
        self._tokens = self._bucket.tokens(self._limit, self._began_ms)
        self._charged = 0

    def charge(self, partition_count: int) -> None:
        """Count a change of so many partitions. Raises TopicError if it must not be made."""
        if self._is_strict and self._tokens < 0:
            self._throttle_ms = self._debt_ms()
            raise TopicError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, NO_TEXT)
        self._tokens -= partition_count
        self._charged += partition_count
        if not self._is_strict and self._tokens < 0:
            self._throttle_ms = self._debt_ms()

    def settle(self) -> None:
        """Take what was charged out of the bucket."""
        if self._charged:
            self._bucket.take(self._charged, self._limit, self._began_ms)
            self._charged = 0

    def throttle_ms(self) -> int:
        """Return how long the client is throttled from now on."""
        if not self._throttle_ms:
            return 0
        return max(0, self._throttle_ms - (self._now_ms() - self._began_ms))

    def _debt_ms(self) -> int:
        return rounded(-self._tokens / self._limit * SECOND_MS)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // MS_NS
