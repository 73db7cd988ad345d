"""The rebalance of a classic group, from one generation to the next, and its members' deadlines.

    proceed ── prepare ── (all joined, or timeout) _complete ── (the leader syncs) ── stable

A rebalance waits for every member to rejoin, and for pending members, up to the longest rebalance
timeout of a member. Dynamic members that do not rejoin in time are removed. Static members stay
until their session expires (KIP-345). A group that was empty waits
`group.initial.rebalance.delay.ms` for more members; each new member prolongs the wait, up to the
rebalance timeout (KIP-134). After joining, members have the rebalance timeout to send SyncGroup.
Those that do not are removed.

One alarm per group serves all deadlines: of joining, of syncing, of each session and pending id.
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

# kafkajs joins with a rebalance timeout of 0 by default. Kafka's timer fires some milliseconds
# late, which leaves such clients time to sync. Here this constant does.
SYNC_MS_MIN = 100
# How often a group looks whether static members have joined. With their rebalance timeout alone, 0
# would ring in every turn of the loop until their sessions expire.
STATIC_WAIT_MS_MIN = 1_000


class InitialDelay:
    """The wait for more members: its current step, the time left, and whether a member joined."""

    __slots__ = ("has_newcomer", "remaining_ms", "step_ms")

    def __init__(self, step_ms: int, remaining_ms: int) -> None:
        self.step_ms = step_ms
        self.remaining_ms = remaining_ms
        self.has_newcomer = False


class Rebalance:
    """The deadlines of a group, and the steps from one generation to the next."""

    __slots__ = (
        "_alarm",
        "_initial_delay",
        "_join_due_ns",
        "_roster",
        "_sync_due_ns",
        "_unsynced",
        "assigned_generation_id",
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
        self._unsynced: dict[str, None] = {}
        self.assigned_generation_id = 0  # the last one whose leader has sent an assignment

    # -- Members ----------------------------------------------------------------------------------

    def renew_session(self, member: ClassicGroupMember) -> None:
        """Renew a member's session."""
        self.expect_within(member, member.session_timeout_ms)

    def expect_within(self, member: ClassicGroupMember, wait_ms: int) -> None:
        """Expire a member unless it sends a request within `wait_ms`."""
        deadline_ns = self.host.clock.monotonic_ns() + wait_ms * MS_NS  # every heartbeat comes here
        member.deadline_ns = deadline_ns
        self._alarm.at_latest(deadline_ns)

    def reserve_id(self, member_id: str, wait_ms: int) -> None:
        """Reserve an id for a member that must rejoin with it within `wait_ms` (KIP-394)."""
        self._roster.pending[member_id] = self._due_ns(wait_ms)
        self._alarm.at_latest(self._roster.pending[member_id])

    def _due_ns(self, wait_ms: int) -> int:
        return self.host.clock.monotonic_ns() + wait_ms * MS_NS

    def remove_member(self, member_id: str) -> None:
        """Remove a member or a pending id; refuse its waiting SyncGroup.

        Kafka leaves such a SyncGroup without an answer.
        """
        member = self._roster.members.get(member_id)
        if member is not None:
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._roster.remove(member_id)
        self._unsynced.pop(member_id, None)

    def replace_static(self, member: ClassicGroupMember, new_id: str) -> None:
        """Give a static member a new id, and start its session."""
        old_id = member.member_id
        self._roster.replace_static(member, new_id)
        self._unsynced.pop(old_id, None)
        self.renew_session(member)

    def note_newcomer(self) -> None:
        """Note that a member has joined: the first rebalance of a group waits longer."""
        if self._initial_delay is not None:
            self._initial_delay.has_newcomer = True

    def note_synced(self, member_id: str) -> None:
        """Note that a member has sent SyncGroup; after the last one, drop the deadline."""
        self._unsynced.pop(member_id, None)
        if not self._unsynced:
            self._sync_due_ns = NEVER_NS

    # -- From one generation to the next -----------------------------------------------------------

    def move(self, event: ClassicGroupEvent) -> None:
        """Change the state of the group."""
        self.generation.move(event, self.host.clock.now_ms())

    def proceed(self) -> None:
        """Begin a rebalance, or complete the current one if all members have joined."""
        if (self.generation.state, ClassicGroupEvent.REBALANCE) in CLASSIC:
            self.prepare()
        else:
            self.complete_if_all_joined()

    def prepare(self) -> None:
        """Begin a rebalance: all members must rejoin."""
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
        """Complete joining if all have joined, except during a group's initial delay."""
        if self.generation.previous_state is not ClassicGroupState.EMPTY:
            self._complete_if_none_is_missing()

    def reset_assignments(self, code: ErrorCode) -> None:
        """Clear all assignments, and answer waiting SyncGroups with `code`."""
        for member in list(self._roster):
            member.assignment = b""
            if member.answer_sync(SyncGroupResponse(error_code=code)):
                self.renew_session(member)

    def _wait_for_joins(self, wait_ms: int) -> None:
        self._join_due_ns = self._due_ns(wait_ms)
        self._alarm.at_latest(self._join_due_ns)

    def _complete_if_none_is_missing(self) -> None:
        is_joining = self.generation.state is ClassicGroupState.PREPARING_REBALANCE
        if is_joining and self._roster.all_joined:
            self._complete()

    def _complete(self) -> None:
        """Complete joining: the members that have joined are the next generation."""
        self._join_due_ns = NEVER_NS
        self._initial_delay = None
        roster = self._roster
        absent = [one for one in roster if one.join_answer is None and one.instance_id is None]
        for member in absent:
            self.remove_member(member.member_id)
        if roster.members and not roster.elect_joined_leader():
            # Only static members are left, and none has joined: wait until their sessions expire.
            self._wait_for_joins(max(roster.rebalance_timeout_ms, STATIC_WAIT_MS_MIN))
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
            self.renew_session(member)
            self._unsynced[member.member_id] = None
        self._sync_due_ns = self._due_ns(max(roster.rebalance_timeout_ms, SYNC_MS_MIN))
        self._alarm.at_latest(self._sync_due_ns)

    def _write_empty(self) -> None:
        group_id = self.generation.group_id
        try:
            self.host.write(group_id, [self.generation.record({})])
        except GroupError as error:
            # If the broker stops before the next write, a restart loads the last generation. Its
            # members then expire.
            logger.warning(
                "group %(group)s: empty generation not written: %(error)s",
                {"group": group_id, "error": error},
            )

    # -- Deadlines --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Cancel all deadlines."""
        self._alarm.cancel()

    def _ring(self, now_ns: int) -> int:
        """Handle missed deadlines; return the next one."""
        roster = self._roster
        for member_id in [one for one, due_ns in roster.pending.items() if due_ns <= now_ns]:
            self._expire_pending(member_id)
        for member in [one for one in roster if one.deadline_ns <= now_ns]:
            # Without the one before, joining may be complete: it is answered then, or removed.
            if member.deadline_ns <= now_ns and member.member_id in roster.members:
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
        """Release an id that its member has not rejoined with."""
        self.remove_member(member_id)
        self._complete_if_none_is_missing()

    def _expire(self, member: ClassicGroupMember) -> None:
        """Remove a silent member, unless it waits for an answer."""
        if member.waits:
            member.deadline_ns = NEVER_NS  # the answer renews the session
            return
        logger.info(
            "group %(group)s: member %(member)s expired: no heartbeat",
            {"group": self.generation.group_id, "member": member.member_id},
        )
        member.answer_join(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.remove_member(member.member_id)
        state = self.generation.state
        if state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.proceed()
        else:
            self._complete_if_none_is_missing()

    def _join_time_over(self) -> None:
        """Complete joining at its deadline, or prolong the initial delay after new members."""
        delay = self._initial_delay
        if delay is None or not delay.has_newcomer or not delay.remaining_ms:
            self._complete()
            return
        step_ms = min(self.host.config.group_initial_rebalance_delay_ms, delay.remaining_ms)
        self._initial_delay = InitialDelay(step_ms, max(delay.remaining_ms - delay.step_ms, 0))
        self._wait_for_joins(step_ms)

    def _sync_time_over(self) -> None:
        """Remove the members that have not sent SyncGroup in time, and rebalance."""
        self._sync_due_ns = NEVER_NS
        if self._unsynced:
            absent = list(self._unsynced)
            for member_id in absent:
                self.remove_member(member_id)
            group_id = self.generation.group_id
            logger.info(
                "group %(group)s: removed %(members)d members that did not sync",
                {"group": group_id, "members": len(absent)},
            )
            self.prepare()
