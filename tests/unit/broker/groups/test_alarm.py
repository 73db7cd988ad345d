"""One timer for many deadlines."""

from broker.groups.alarm import NEVER_NS
from broker.runtime.clock import MS_NS
from tests.support.group_host import FakeHost


def ringing(host, *answers):
    """An alarm whose callback returns the given times in turn; its rings are in the list."""
    rung, wanted = [], list(answers)

    def ring(now_ns):
        rung.append(now_ns // MS_NS)
        return wanted.pop(0) if wanted else NEVER_NS

    return host.alarm(ring), rung


def test_it_rings_once_at_the_earliest():
    host = FakeHost()
    alarm, rung = ringing(host)
    alarm.at_latest(30 * MS_NS)
    alarm.at_latest(10 * MS_NS)
    alarm.at_latest(20 * MS_NS)
    host.advance(100)
    assert rung == [10]


def test_it_rings_again_at_the_returned_time():
    host = FakeHost()
    alarm, rung = ringing(host, 40 * MS_NS, 41 * MS_NS)
    alarm.at_latest(10 * MS_NS)
    host.advance(100)
    assert rung == [10, 40, 41]


def test_a_past_deadline_rings_in_the_next_turn_and_not_within_the_call():
    host = FakeHost()
    host.advance(50)
    alarm, rung = ringing(host)
    alarm.at_latest(10 * MS_NS)
    assert rung == []
    host.advance(0)
    assert rung == [50]


def test_a_cancelled_alarm_does_not_ring_and_can_be_set_again():
    host = FakeHost()
    alarm, rung = ringing(host)
    alarm.at_latest(10 * MS_NS)
    alarm.cancel()
    alarm.cancel()
    host.advance(20)
    assert rung == []
    alarm.at_latest(30 * MS_NS)
    host.advance(20)
    assert rung == [30]


def test_ringing_sets_no_timer_without_a_next_deadline():
    host = FakeHost()
    alarm, _ = ringing(host)
    alarm.at_latest(0)
    host.advance(0)
    assert host.alarm_count == 1
