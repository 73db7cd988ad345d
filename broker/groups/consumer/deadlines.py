"""The deadlines of a consumer group's members: two per member.

    session   every heartbeat postpones it
    step      for the next step that only the member can make: to revoke partitions, or, in the
              classic protocol, to rejoin and to sync

Deadlines are numbers (monotonic ns). The group's one alarm is set for the earliest.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from broker.groups.alarm import NEVER_NS, Alarm
from broker.groups.consumer.consumer_member import Assigned, ConsumerGroupMember
from broker.runtime.clock import MS_NS, Clock


class Missed(NamedTuple):
    """The ids of members that have missed a deadline: of their session, or of a step."""

    sessions: list[str]
    steps: list[str]


class _Step(NamedTuple):
    """A step that is awaited: what it is, and until when (monotonic ns)."""

    epoch: int
    to_revoke: Assigned
    due_ns: int


class Deadlines:
    """Sessions and steps by member id."""

    __slots__ = ("_alarm", "_clock", "_sessions", "_steps")

    def __init__(self, clock: Clock, alarm: Alarm) -> None:
        self._clock = clock
        self._alarm = alarm
        self._sessions: dict[str, int] = {}  # member id -> monotonic ns
        self._steps: dict[str, _Step] = {}

    def begin_session(self, member_id: str, timeout_ms: int) -> None:
        """Start or renew a member's session."""
        due_ns = self._clock.monotonic_ns() + timeout_ms * MS_NS
        self._sessions[member_id] = due_ns
        self._alarm.at_latest(due_ns)

    def expect_step(self, member: ConsumerGroupMember) -> None:
        """Start the rebalance timeout of a member's step; once, unless it has more to revoke."""
        epoch, to_revoke = member.member_epoch, member.pending_revocation
        known = self._steps.get(member.member_id)
        if known is None or (known.epoch, known.to_revoke) != (epoch, to_revoke):
            due_ns = self._clock.monotonic_ns() + member.rebalance_timeout_ms * MS_NS
            self._steps[member.member_id] = _Step(epoch, to_revoke, due_ns)
            self._alarm.at_latest(due_ns)

    def step_done(self, member_id: str) -> None:
        """Cancel the deadline of a member's step."""
        self._steps.pop(member_id, None)

    def keep_only(self, member_ids: Container[str]) -> None:
        """Drop the deadlines of every other member."""
        for member_id in [one for one in self._sessions if one not in member_ids]:
            del self._sessions[member_id]
        for member_id in [one for one in self._steps if one not in member_ids]:
            del self._steps[member_id]

    def missed(self, now_ns: int) -> Missed:
        """Return the members whose deadlines are over."""
        return Missed(
            [member_id for member_id, due_ns in self._sessions.items() if due_ns <= now_ns],
            [member_id for member_id, step in self._steps.items() if step.due_ns <= now_ns],
        )

    def next_ns(self) -> int:
        """Return the earliest deadline; NEVER_NS if there is none."""
        dues = (*self._sessions.values(), *(step.due_ns for step in self._steps.values()))
        return min(dues, default=NEVER_NS)

    def stop(self) -> None:
        """Cancel the alarm."""
        self._alarm.cancel()
