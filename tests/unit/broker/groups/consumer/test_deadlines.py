"""Deadlines of members: one alarm for all, and only missed deadlines are reported."""

from __future__ import annotations

from broker.groups.alarm import NEVER_NS
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.deadlines import Deadlines
from broker.runtime.clock import MS_NS
from tests.support.group_host import FakeHost


class Bell:
    """Deadlines, and the times at which their alarm rang."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.rings: list[int] = []
        self.deadlines = Deadlines(self.host.clock, self.host.alarm(self._ring))

    def _ring(self, now_ns: int) -> int:
        self.rings.append(now_ns)
        return NEVER_NS

    def now_ns(self) -> int:
        return self.host.clock.monotonic_ns()


def member(epoch: int) -> ConsumerGroupMember:
    return ConsumerGroupMember(member_id="m1", member_epoch=epoch, rebalance_timeout_ms=60)


def test_a_session_expires_after_its_timeout() -> None:
    bell = Bell()
    assert bell.deadlines.next_ns() == NEVER_NS
    bell.deadlines.begin_session("m1", 100)
    bell.deadlines.begin_session("m2", 200)
    due_ns = bell.deadlines.next_ns()
    assert bell.deadlines.missed(due_ns - 1) == ([], [])
    assert bell.deadlines.missed(due_ns) == (["m1"], [])
    bell.host.advance(100)
    assert len(bell.rings) == 1


def test_a_step_keeps_the_deadline_of_its_epoch() -> None:
    bell = Bell()
    bell.deadlines.expect_step(member(3))
    bell.host.advance(50)
    bell.deadlines.expect_step(member(3))
    assert bell.deadlines.next_ns() == bell.now_ns() + 10 * MS_NS
    bell.deadlines.expect_step(member(4))
    assert bell.deadlines.next_ns() == bell.now_ns() + 60 * MS_NS
    assert bell.deadlines.missed(NEVER_NS) == ([], ["m1"])
    bell.deadlines.step_done("m1")
    bell.deadlines.step_done("m1")
    assert bell.deadlines.next_ns() == NEVER_NS


def test_removed_members_have_no_deadlines() -> None:
    bell = Bell()
    for member_id in ("m1", "m2"):
        bell.deadlines.begin_session(member_id, 100)
    bell.deadlines.expect_step(member(3))
    bell.deadlines.keep_only({"m2"})
    assert bell.deadlines.missed(NEVER_NS) == (["m2"], [])
    bell.deadlines.stop()
    bell.host.advance(1_000)
    assert bell.rings == []
