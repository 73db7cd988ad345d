"""The times of requests by phase: they add up to the whole."""

import pytest

from broker.network.gathered_writes import GatheredWrites
from broker.runtime.clock import MS_NS, ManualClock
from broker.runtime.request_times import (
    LOCAL,
    QUEUE,
    REMOTE,
    RESPONSE_QUEUE,
    RESPONSE_SEND,
    SAMPLED,
    TOTAL,
    RequestTimes,
    RequestTiming,
    Sampling,
)


@pytest.mark.parametrize(
    ("handled_ms", "answered_ms", "local", "remote"),
    [(3, 3, 1, 0), (3, 7, 1, 4), (9, 7, 5, 0), (0, 7, 5, 0)],
)
def test_the_phases_of_a_request_are_counted(
    handled_ms: int, answered_ms: int, local: int, remote: int
) -> None:
    """It arrives at 1 ms and is taken at 2 ms; handled 0 means that its handler answered."""
    clock = ManualClock()
    times = RequestTimes(clock)
    timing = RequestTiming(3, 1 * MS_NS)
    timing.taken_ns = 2 * MS_NS
    timing.handled_ns = handled_ms * MS_NS
    timing.answered_ns = answered_ms * MS_NS
    writes = GatheredWrites(times)
    clock.advance(10)
    writes.note(timing)
    clock.advance(2)
    writes.flush()
    found = [phase.sum_ns // MS_NS for phase in times.by_api[3]]
    assert found[QUEUE] == 1
    assert (found[LOCAL], found[REMOTE]) == (local, remote)
    assert (found[RESPONSE_QUEUE], found[RESPONSE_SEND]) == (10 - answered_ms, 2)
    assert found[TOTAL] == 11 == sum(found[QUEUE:])
    writes.flush()
    assert times.by_api[3][TOTAL].count == 1


def test_without_times_nothing_is_kept() -> None:
    writes = GatheredWrites()
    writes.note(RequestTiming(0, 1))
    writes.flush()
    assert writes._senders == []


@pytest.mark.parametrize(
    ("each_ms", "distances"), [(1_000, {1}), (50, {1}), (10, {6}), (1, {62}), (0.1, {SAMPLED})]
)
def test_the_fewer_requests_come_the_more_of_them_are_timed(
    each_ms: float, distances: set[int]
) -> None:
    sampling, at, stand_for = Sampling(), 1, []
    for number in range(1, 2_000):
        if number >= at:
            so_many, at = sampling.take(number, round(number * each_ms * MS_NS))
            stand_for.append(so_many)
    assert set(stand_for[2:]) == distances
    assert 2_000 - SAMPLED <= sum(stand_for) < 2_000, "each request is stood for once"
