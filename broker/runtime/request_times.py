"""The times of one request in `SAMPLED`, from its arrival to the write of its answer.

A request that is timed carries a `RequestTiming`; all others carry None, and cost the test for it.
The stamps, in the order of a request's way, with the part of Kafka's RequestMetrics before each:

    arrived   decoded, and put into the request queue
    taken     by a worker                                   RequestQueueTimeMs
    handled   the handler has returned                      LocalTimeMs
    answered  at once, or after a flush or a wait           RemoteTimeMs
    sent      after the answers before it: written          ResponseQueueTimeMs, ResponseSendTimeMs
"""

from __future__ import annotations

from typing import Final

from broker.runtime.clock import Clock
from broker.runtime.log_histogram import RecentTimes

TOTAL, QUEUE, LOCAL, REMOTE, RESPONSE_QUEUE, RESPONSE_SEND = range(6)
PHASES: Final = 6


class RequestTiming:
    """The stamps of one request, in nanoseconds of the monotonic clock."""

    __slots__ = ("answered_ns", "api_key", "arrived_ns", "due_ns", "handled_ns", "taken_ns")

    def __init__(self, api_key: int, arrived_ns: int) -> None:
        self.api_key = api_key
        self.arrived_ns = self.taken_ns = arrived_ns
        self.handled_ns = 0
        self.answered_ns = 0
        self.due_ns = 0  # all answers before it have left, and it leaves next


class RequestTimes:
    """The times by API, and by phase."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_api: dict[int, list[RecentTimes]] = {}

    def now_ns(self) -> int:
        """Return the monotonic clock."""
        return self._clock.monotonic_ns()

    def sent(self, timings: list[RequestTiming]) -> None:
        """Count requests whose answers were just written."""
        now_ns = self._clock.monotonic_ns()
        for timing in timings:
            phases = self.by_api.get(timing.api_key)
            if phases is None:
                phases = self.by_api[timing.api_key] = [RecentTimes() for _ in range(PHASES)]
            taken_ns, answered_ns = timing.taken_ns, timing.answered_ns
            handled_ns = timing.handled_ns or answered_ns  # answered by the handler itself
            local_ends_ns = min(handled_ns, answered_ns)
            phases[TOTAL].add(now_ns - timing.arrived_ns, now_ns)
            phases[QUEUE].add(taken_ns - timing.arrived_ns, now_ns)
            phases[LOCAL].add(local_ends_ns - taken_ns, now_ns)
            phases[REMOTE].add(answered_ns - local_ends_ns, now_ns)
            phases[RESPONSE_QUEUE].add(timing.due_ns - answered_ns, now_ns)
            phases[RESPONSE_SEND].add(now_ns - timing.due_ns, now_ns)
