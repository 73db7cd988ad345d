"""The pace of compaction: one rate for all passes, and one stop for all."""

import threading

import pytest

from broker.maintenance.cleaner_pace import BURST_NS, STEP_BYTES, CleanerPace
from broker.runtime.clock import ManualClock
from storage.compaction.one_pass import CompactionAborted


class Waits(threading.Event):
    """An event that lets time pass instead of waiting."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock
        self.seconds = 0.0

    def wait(self, timeout=None):
        self.seconds += timeout
        self.clock.advance(round(timeout * 1000))
        return self.is_set()


def pace_of(rate):
    clock = ManualClock()
    pace = CleanerPace(clock, lambda: rate)
    pace._stopping = Waits(clock)
    return pace, clock


def test_all_passes_together_respect_the_rate():
    pace, _ = pace_of(1_000_000)
    passes = [pace.breath(), pace.breath()]
    for _ in range(50):
        for proceed in passes:
            proceed(100_000)
    spent = 50 * 2 * 100_000 / 1_000_000
    assert pace._stopping.seconds == pytest.approx(spent - BURST_NS / 1e9, abs=0.1)


def test_without_a_bound_no_pass_waits():
    pace, _ = pace_of(1.7e308)
    proceed = pace.breath()
    for _ in range(100):
        proceed(1 << 20)
    assert pace._stopping.seconds == 0


def test_unused_rate_is_not_saved_up():
    pace, clock = pace_of(1_000_000)
    proceed = pace.breath()
    clock.advance(3_600_000)
    proceed(1_000_000)
    assert pace._stopping.seconds == pytest.approx(0.9, abs=0.01)


def test_a_stop_ends_a_pass_at_its_next_piece():
    pace, _ = pace_of(1e9)
    proceed = pace.breath()
    proceed(STEP_BYTES)
    pace.stop()
    with pytest.raises(CompactionAborted):
        proceed(STEP_BYTES)


def test_small_pieces_are_accounted_together():
    pace, _ = pace_of(1)
    proceed = pace.breath()
    for _ in range(STEP_BYTES - 1):
        proceed(1)
    assert pace._stopping.seconds == 0
    proceed(1)
    assert pace._stopping.seconds > 1000
