"""From one generation of a classic group to the next.

    proceed ── prepare ── (all joined, or time is up) complete_join ── (the leader syncs) ── stable

A rebalance waits for every member to join again, as long as the most patient of them allows, and
for pending ones. Members that do not come are dropped, but for static ones: these have until the
end of their session (KIP-345). A group that was empty waits `group.initial.rebalance.delay.ms`
for others to come along, each newcomer prolonging it up to the rebalance timeout (KIP-134).
Then members have the same time to ask for their assignment, or are dropped, too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.groups.alarm import NEVER_NS
from broker.groups.errors import GroupError
from broker.groups.states import CLASSIC, ClassicEvent, ClassicState
from broker.runtime.clock import MS_NS
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from broker.groups.classic.classic_group import ClassicGroup
    from broker.groups.classic.member import Member

logger = logging.getLogger("barnabas.groups")

# Kafka's timer fires some milliseconds late: clients that join with a rebalance timeout of 0, as
# kafkajs does when it is not told one, have the time to sync there. Here they have this long.
SYNC_MS_MIN = 100


class InitialDelay:
    """A wait for more members: this step of it, what may follow, and whether somebody came."""

    __slots__ = ("has_newcomer", "remaining_ms", "step_ms")

    def __init__(self, step_ms: int, remaining_ms: int) -> None:
        self.step_ms = step_ms
        self.remaining_ms = remaining_ms
        self.has_newcomer = False


def proceed(group: ClassicGroup) -> None:
    """Begin a rebalance, or end the one under way if nobody is waited for any more."""
    if (group.state, ClassicEvent.REBALANCE) in CLASSIC:
        prepare(group)
    else:
        complete_if_all_joined(group)


def prepare(group: ClassicGroup) -> None:
    """Begin a rebalance: all members are to join again."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.unsynced.clear()
    group.sync_due_ns = NEVER_NS
    was_empty = group.state is ClassicState.EMPTY
    group.move(ClassicEvent.REBALANCE)
    if was_empty:
        delay_ms = group.host.config.group_initial_rebalance_delay_ms
        remaining_ms = max(group.roster.rebalance_timeout_ms - delay_ms, 0)
        group.initial_delay = InitialDelay(delay_ms, remaining_ms)
        _wait_for_joins(group, delay_ms)
    elif group.roster.all_joined:
        complete_join(group)
    else:
        _wait_for_joins(group, group.roster.rebalance_timeout_ms)


def complete_if_all_joined(group: ClassicGroup) -> None:
    """End the joining if everybody is there; the first one of a group takes its time."""
    if (
        group.state is ClassicState.PREPARING_REBALANCE
        and group.previous_state is not ClassicState.EMPTY
        and group.roster.all_joined
    ):
        complete_join(group)


def complete_join(group: ClassicGroup) -> None:
    """End the joining: the next generation is those who have come."""
    group.join_due_ns = NEVER_NS
    group.initial_delay = None
    roster = group.roster
    absent = [one for one in roster if one.join_answer is None and one.instance_id is None]
    for member in absent:
        group.forget(member.member_id)
    if roster.members and not roster.elect_joined_leader():
        # Static members only, and none of them there: until their sessions end.
        _wait_for_joins(group, roster.rebalance_timeout_ms)
        return
    group.next_generation()
    if group.state is ClassicState.EMPTY:
        try:
            group.host.write(group.group_id, [group.record({})])
        except GroupError as error:
            # The last generation becomes active again should the broker stop before the next,
            # and times out: it has no members any more.
            logger.warning("group %s: being empty not written: %s", group.group_id, error)
        return
    for member in list(roster):
        member.is_new = False
        member.answer_join(
            generation_response(group, member, is_told_members=roster.leader_id == member.member_id)
        )
        group.keep(member)
        group.unsynced.add(member.member_id)
    sync_ms = max(roster.rebalance_timeout_ms, SYNC_MS_MIN)
    group.sync_due_ns = group.host.clock.monotonic_ns() + sync_ms * MS_NS
    group.alarm.at_latest(group.sync_due_ns)


def generation_response(
    group: ClassicGroup, member: Member, *, is_told_members: bool, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the answer that tells a member the current generation."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.roster.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=group.members_of_generation() if is_told_members else [],
    )


def reset_assignments(group: ClassicGroup, code: ErrorCode) -> None:
    """Take all assignments back; members that wait for theirs are told why."""
    for member in list(group.roster):
        member.assignment = b""
        if member.answer_sync(SyncGroupResponse(error_code=code)):
            group.keep(member)


def join_time_over(group: ClassicGroup) -> None:
    """Time to join is up; the first rebalance of a group may wait on for newcomers."""
    delay = group.initial_delay
    if delay is None or not delay.has_newcomer or not delay.remaining_ms:
        complete_join(group)
        return
    step_ms = min(group.host.config.group_initial_rebalance_delay_ms, delay.remaining_ms)
    group.initial_delay = InitialDelay(step_ms, max(delay.remaining_ms - delay.step_ms, 0))
    _wait_for_joins(group, step_ms)


def sync_time_over(group: ClassicGroup) -> None:
    """Time to ask for assignments is up: who has not is dropped."""
    group.sync_due_ns = NEVER_NS
    if group.unsynced:
        absent = list(group.unsynced)
        for member_id in absent:
            group.forget(member_id)
        logger.info("group %s: %d members did not sync", group.group_id, len(absent))
        prepare(group)


def expire_pending(group: ClassicGroup, member_id: str) -> None:
    """One that was told its id has not come back with it."""
    group.forget(member_id)
    _complete_if_that_was_the_last(group)


def expire(group: ClassicGroup, member: Member) -> None:
    """A member has not been heard of; one that waits for an answer of ours lives."""
    if member.waits:
        member.deadline_ns = NEVER_NS  # until it is answered
        return
    logger.info("group %s: no heartbeat of member %s", group.group_id, member.member_id)
    member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.forget(member.member_id)
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        proceed(group)
    else:
        _complete_if_that_was_the_last(group)


def _complete_if_that_was_the_last(group: ClassicGroup) -> None:
    if group.state is ClassicState.PREPARING_REBALANCE and group.roster.all_joined:
        complete_join(group)


def _wait_for_joins(group: ClassicGroup, wait_ms: int) -> None:
    group.join_due_ns = group.host.clock.monotonic_ns() + wait_ms * MS_NS
    group.alarm.at_latest(group.join_due_ns)
