"""From one generation of a classic group to the next, and the deadlines of its members.

    proceed ── prepare ── (all joined, or time is up) _complete ── (the leader syncs) ── stable

A rebalance waits for every member to join again, as long as the most patient of them allows, and
for pending ones. Members that do not come are dropped, but for static ones: these have until the
end of their session (KIP-345). A group that was empty waits `group.initial.rebalance.delay.ms`
for others to come along, each newcomer prolonging it up to the rebalance timeout (KIP-134).
Then members have the same time to ask for their assignment, or are dropped, too.

A group has one alarm for all of this: for the joining, for the syncing, for the session of each
member, and for each pending id.
"""

from __future__ import annotations

import logging

from broker.groups.alarm import NEVER_NS
from broker.groups.classic.classic_member import ClassicGroupMember
from broker.groups.classic.generation import Generation
from broker.groups.errors import GroupError
from broker.groups.group import Host
from broker.groups.states import CLASSIC, ClassicGroupEvent, ClassicGroupState
from broker.runtime.clock import MS_NS
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

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


class Rebalance:
    """What a group waits for: members to join, then members to sync; and signs of life."""

    __slots__ = (
        "_alarm",
        "_initial_delay",
        "_join_due_ns",
        "_roster",
        "_sync_due_ns",
        "_unsynced",
        "generation",
        "host",
    )

    def __init__(self, generation: Generation, host: Host) -> None:
        self.generation = generation
        self.host = host
        self._roster = generation.roster
        self._alarm = host.alarm(self._ring)
        self._join_due_ns = NEVER_NS
        self._initial_delay: InitialDelay | None = None
        self._sync_due_ns = NEVER_NS
        self._unsynced: set[str] = set()

    # -- Members ----------------------------------------------------------------------------------

    def keep(self, member: ClassicGroupMember) -> None:
        """Note that a member lives: its session begins anew."""
        self.expect_within(member, member.session_timeout_ms)

    def expect_within(self, member: ClassicGroupMember, wait_ms: int) -> None:
        """Take a member for dead that is not heard of within `wait_ms`."""
        member.deadline_ns = self._due_ns(wait_ms)
        self._alarm.at_latest(member.deadline_ns)

    def expect_back(self, member_id: str, wait_ms: int) -> None:
        """Hold an id for a member that is to come back with it within `wait_ms` (KIP-394)."""
        self._roster.pending[member_id] = self._due_ns(wait_ms)
        self._alarm.at_latest(self._roster.pending[member_id])

    def _due_ns(self, wait_ms: int) -> int:
        return self.host.clock.monotonic_ns() + wait_ms * MS_NS

    def forget(self, member_id: str) -> None:
        """Take a member, pending or not, off every list; a SyncGroup of it that waits is refused.

        (Kafka leaves such a SyncGroup without an answer. Nobody should wait for nothing.)
        """
        member = self._roster.members.get(member_id)
        if member is not None:
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._roster.remove(member_id)
        self._unsynced.discard(member_id)

    def replace_static(self, member: ClassicGroupMember, new_id: str) -> None:
        """Give a static member another id, under which it has not synced yet."""
        old_id = member.member_id
        self._roster.replace_static(member, new_id)
        self._unsynced.discard(old_id)
        self.keep(member)

    def note_newcomer(self) -> None:
        """Note that a member has come: the first rebalance of a group waits on for others."""
        if self._initial_delay is not None:
            self._initial_delay.has_newcomer = True

    def note_synced(self, member_id: str) -> None:
        """Note that a member has asked for its assignment; after the last there is no hurry."""
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._sync_due_ns = NEVER_NS

    # -- From one generation to the next -----------------------------------------------------------

    def move(self, event: ClassicGroupEvent) -> None:
        """Change the state of the group."""
        self.generation.move(event, self.host.clock.now_ms())

    def proceed(self) -> None:
        """Begin a rebalance, or end the one under way if nobody is waited for any more."""
        if (self.generation.state, ClassicGroupEvent.REBALANCE) in CLASSIC:
            self.prepare()
        else:
            self.complete_if_all_joined()

    def prepare(self) -> None:
        """Begin a rebalance: all members are to join again."""
        if self.generation.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.reset_assignments(ErrorCode.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._sync_due_ns = NEVER_NS
        was_empty = self.generation.state is ClassicGroupState.EMPTY
        self.move(ClassicGroupEvent.REBALANCE)
        if was_empty:
            delay_ms = self.host.config.group_initial_rebalance_delay_ms
            remaining_ms = max(self._roster.rebalance_timeout_ms - delay_ms, 0)
            self._initial_delay = InitialDelay(delay_ms, remaining_ms)
            self._wait_for_joins(delay_ms)
        elif self._roster.all_joined:
            self._complete()
        else:
            self._wait_for_joins(self._roster.rebalance_timeout_ms)

    def complete_if_all_joined(self) -> None:
        """End the joining if everybody is there; the first one of a group takes its time."""
        if self.generation.previous_state is not ClassicGroupState.EMPTY:
            self._complete_if_that_was_the_last()

    def reset_assignments(self, code: ErrorCode) -> None:
        """Take all assignments back; members that wait for theirs are told why."""
        for member in list(self._roster):
            member.assignment = b""
            if member.answer_sync(SyncGroupResponse(error_code=code)):
                self.keep(member)

    def _wait_for_joins(self, wait_ms: int) -> None:
        self._join_due_ns = self._due_ns(wait_ms)
        self._alarm.at_latest(self._join_due_ns)

    def _complete_if_that_was_the_last(self) -> None:
        is_joining = self.generation.state is ClassicGroupState.PREPARING_REBALANCE
        if is_joining and self._roster.all_joined:
            self._complete()

    def _complete(self) -> None:
        """End the joining: the next generation is those who have come."""
        self._join_due_ns = NEVER_NS
        self._initial_delay = None
        roster = self._roster
        absent = [one for one in roster if one.join_answer is None and one.instance_id is None]
        for member in absent:
            self.forget(member.member_id)
        if roster.members and not roster.elect_joined_leader():
            # Static members only, and none of them there: until their sessions end.
            self._wait_for_joins(roster.rebalance_timeout_ms)
            return
        self._unsynced.clear()
        self.generation.begin_next(self.host.clock.now_ms())
        if self.generation.state is ClassicGroupState.EMPTY:
            self._write_empty()
            return
        for member in list(roster):
            member.is_new = False
            leads = roster.leader_id == member.member_id
            member.answer_join(self.generation.join_response(member, is_told_members=leads))
            self.keep(member)
            self._unsynced.add(member.member_id)
        self._sync_due_ns = self._due_ns(max(roster.rebalance_timeout_ms, SYNC_MS_MIN))
        self._alarm.at_latest(self._sync_due_ns)

    def _write_empty(self) -> None:
        group_id = self.generation.group_id
        try:
            self.host.write(group_id, [self.generation.record({})])
        except GroupError as error:
            # The last generation becomes active again should the broker stop before the next,
            # and times out: it has no members any more.
            logger.warning("group %s: being empty not written: %s", group_id, error)

    # -- Time is up -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let no deadline count any more."""
        self._alarm.cancel()

    def _ring(self, now_ns: int) -> int:
        """Do what is due; return when the next thing is."""
        roster = self._roster
        for member_id in [one for one, due_ns in roster.pending.items() if due_ns <= now_ns]:
            self._expire_pending(member_id)
        for member in [one for one in roster if one.deadline_ns <= now_ns]:
            self._expire(member)
        if self._join_due_ns <= now_ns:
            self._join_time_over()
        if self._sync_due_ns <= now_ns:
            self._sync_time_over()
        return min(
            self._join_due_ns,
            self._sync_due_ns,
            min(roster.pending.values(), default=NEVER_NS),
            min((member.deadline_ns for member in roster), default=NEVER_NS),
        )

    def _expire_pending(self, member_id: str) -> None:
        """One that was told its id has not come back with it."""
        self.forget(member_id)
        self._complete_if_that_was_the_last()

    def _expire(self, member: ClassicGroupMember) -> None:
        """A member has not been heard of; one that waits for an answer of ours lives."""
        if member.waits:
            member.deadline_ns = NEVER_NS  # until it is answered
            return
        logger.info(
            "group %s: no heartbeat of member %s", self.generation.group_id, member.member_id
        )
        member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.forget(member.member_id)
        state = self.generation.state
        if state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.proceed()
        else:
            self._complete_if_that_was_the_last()

    def _join_time_over(self) -> None:
        """Time to join is up; the first rebalance of a group may wait on for newcomers."""
        delay = self._initial_delay
        if delay is None or not delay.has_newcomer or not delay.remaining_ms:
            self._complete()
            return
        step_ms = min(self.host.config.group_initial_rebalance_delay_ms, delay.remaining_ms)
        self._initial_delay = InitialDelay(step_ms, max(delay.remaining_ms - delay.step_ms, 0))
        self._wait_for_joins(step_ms)

    def _sync_time_over(self) -> None:
        """Time to ask for assignments is up: who has not is dropped."""
        self._sync_due_ns = NEVER_NS
        if self._unsynced:
            absent = list(self._unsynced)
            for member_id in absent:
                self.forget(member_id)
            group_id = self.generation.group_id
            logger.info("group %s: %d members did not sync", group_id, len(absent))
            self.prepare()
