"""Reading pauses for each reason; the frame's clock stops while the broker causes the pause."""

from collections import deque

import pytest

from broker.network.reading import Hold, Reading
from broker.runtime.clock import ManualClock
from tests.support.fake_transport import FakeTransport


class Rig:
    """A transport that is being read, and the frames that wait."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.frames: deque[bytearray] = deque()
        self.reading = Reading(self.frames, self.clock)
        self.transport = self.reading.transport = FakeTransport()

    def drop(self, reason: int) -> None:
        self.reading.holds &= ~reason
        self.reading.pause_or_resume()


ALL = [value for name, value in vars(Hold).items() if name.isupper() and value]


def test_each_reason_has_its_own_bit() -> None:
    assert sum(ALL) == 2047
    assert all(value.bit_count() == 1 for value in ALL)


@pytest.mark.parametrize("reason", ALL)
def test_each_reason_stops_reading_and_most_hold_frames_back(reason: int) -> None:
    rig = Rig()
    rig.reading.hold(reason)
    assert not rig.transport.reading
    only_reading = (Hold.BUDGET, Hold.REFUSED, Hold.ONE_FRAME, Hold.THROTTLED)
    assert rig.reading.held == (reason not in only_reading)
    rig.drop(reason)
    assert rig.transport.reading
    assert not rig.reading.held


def test_reading_resumes_once_the_last_reason_is_gone_and_no_frame_waits() -> None:
    rig = Rig()
    rig.reading.hold(Hold.IN_FLIGHT)
    rig.reading.hold(Hold.ANSWERS)
    rig.frames.append(bytearray())
    rig.drop(Hold.IN_FLIGHT)
    assert not rig.transport.reading
    rig.drop(Hold.ANSWERS)
    assert not rig.transport.reading, "another buffer of small frames would come in"
    rig.frames.clear()
    rig.reading.pause_or_resume()
    assert rig.transport.reading


def test_the_clock_of_a_frame_restarts_when_reading_resumes() -> None:
    rig = Rig()
    rig.reading.frame_begun_ns = 1
    rig.clock.advance(5)
    rig.reading.hold(Hold.BUDGET)
    assert not rig.reading.waits_for_client
    rig.drop(Hold.BUDGET)
    assert rig.reading.waits_for_client
    assert rig.reading.frame_begun_ns == rig.clock.monotonic_ns()


def test_a_client_that_does_not_read_its_answers_is_waited_for() -> None:
    rig = Rig()
    rig.reading.hold(Hold.UNSENT)
    assert rig.reading.waits_for_client


def test_without_a_transport_only_the_reasons_are_kept() -> None:
    reading = Reading(deque(), ManualClock())
    reading.hold(Hold.CLOSING)
    assert reading.held
    assert reading.waits_for_client
