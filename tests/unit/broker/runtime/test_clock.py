"""Each clock keeps its contract."""

from broker.runtime.clock import ManualClock, SystemClock


def test_the_system_clock_is_in_milliseconds_and_never_goes_backwards() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_ns() for _ in range(100)]
    assert readings == sorted(readings)
    assert 1_600_000_000_000 < clock.now_ms() < 10_000_000_000_000


def test_the_manual_clock_advances_wall_time_and_monotonic_time_together() -> None:
    clock = ManualClock(now_ms=1_000)
    clock.advance(250)
    assert clock.now_ms() == 1_250
    assert clock.monotonic_ns() == 250_000_000
