"""The times of some requests, from their arrival to the write of their answers.

One request in `SAMPLED` is timed while the broker is busy. While it is not, those that are timed
are at most `EACH_NS` apart, or all there are: few requests are worth knowing, and cost little. Each
stands for the requests since the last one, so quantiles are those of all requests.

A request that is timed carries a `RequestTiming` beside what else only few requests have
(`broker.runtime.request`), so all others cost no test of their own for it.
The stamps, in the order of a request's way, with the part of Kafka's RequestMetrics before each:

    arrived   decoded, and put into the request queue
    taken     by a worker                                   RequestQueueTimeMs
    handled   the handler has returned                      LocalTimeMs
    answered  at once, or after a flush or a wait           RemoteTimeMs
    sent      after the answers before it: written          ResponseQueueTimeMs, ResponseSendTimeMs
"""

from __future__ import annotations

from typing import Final

from broker.runtime.clock import SECOND_NS, Clock
from broker.runtime.log_histogram import RecentTimes

TOTAL, QUEUE, LOCAL, REMOTE, RESPONSE_QUEUE, RESPONSE_SEND = range(6)
PHASES: Final = 6
SAMPLED: Final = 251  # a prime: no rhythm of a client hides one of its requests
EACH_NS: Final = SECOND_NS // 16


class RequestTiming:
    """The stamps of one request, in nanoseconds of the monotonic clock."""

    __slots__ = (
        "answered_ns",
        "api_key",
        "arrived_ns",
        "due_ns",
        "handled_ns",
        "stands_for",
        "taken_ns",
    )

    def __init__(self, api_key: int, arrived_ns: int, stands_for: int = 1) -> None:
        self.api_key = api_key
        self.stands_for = stands_for  # so many requests
        self.arrived_ns = self.taken_ns = arrived_ns
        self.handled_ns = 0
        self.answered_ns = 0
        self.due_ns = 0  # all answers before it have left, and it leaves next


class Sampling:
    """Which requests are timed, by their number since the start."""

    __slots__ = ("_last", "_last_ns")

    def __init__(self) -> None:
        self._last = 0
        self._last_ns = 0

    def take(self, number: int, now_ns: int) -> tuple[int, int]:
        """Time this one: return for how many it stands, and the number of the next."""
        stands_for, elapsed_ns = number - self._last, now_ns - self._last_ns
        self._last, self._last_ns = number, now_ns
        pace = stands_for * EACH_NS // max(elapsed_ns, 1)
        return stands_for, number + max(1, min(SAMPLED, pace))


class RequestTimes:
    """The times by API, and by phase."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.by_api: dict[int, list[RecentTimes]] = {}

    def now_ns(self) -> int:
        """Return the monotonic clock."""
        return self._clock.monotonic_ns()

    def sent(self, timing: RequestTiming) -> None:
        """Count a request whose answer was just written."""
        now_ns = self._clock.monotonic_ns()
        phases = self.by_api.get(timing.api_key)
        if phases is None:
            phases = self.by_api[timing.api_key] = [RecentTimes() for _ in range(PHASES)]
        taken_ns, answered_ns = timing.taken_ns, timing.answered_ns
        handled_ns = timing.handled_ns or answered_ns  # answered by the handler itself
        local_ends_ns = min(handled_ns, answered_ns)
        weight = timing.stands_for
        phases[TOTAL].add(now_ns - timing.arrived_ns, now_ns, weight)
        phases[QUEUE].add(taken_ns - timing.arrived_ns, now_ns, weight)
        phases[LOCAL].add(local_ends_ns - taken_ns, now_ns, weight)
        phases[REMOTE].add(answered_ns - local_ends_ns, now_ns, weight)
        phases[RESPONSE_QUEUE].add(timing.due_ns - answered_ns, now_ns, weight)
        phases[RESPONSE_SEND].add(now_ns - timing.due_ns, now_ns, weight)
