"""A classic group: one generation of members after another.

    join: all members tell what they speak ── the broker chooses, and lets one lead
    sync: the leader tells who does what ── the broker writes it down, and tells each

The broker does not look into what members tell each other, but for the topics that consumers
subscribe to. What is in the log is the last stable generation, so members of one go on after a
restart as if nothing had been. Everything about a generation that is not stable yet is lost with
the process, and the clients begin it anew.

The states are a table (broker/groups/states.py). Joining is in `joining`, the assignment in
`syncing`, and what leads from one generation to the next in `rebalance`; this is what they share,
and everything that does not change the membership. As Kafka's ClassicGroup and the classic part
of its GroupMetadataManager (KIP-62, 134, 345, 394, 559, 814).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.alarm import NEVER_NS
from broker.groups.classic import joining, rebalance, syncing
from broker.groups.classic.member import Member
from broker.groups.classic.roster import Roster
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Expiry, GroupKind, GroupRecord, Host
from broker.groups.states import CLASSIC, ClassicEvent, ClassicState, next_state
from broker.runtime.clock import MS_NS
from protocol.consumer_protocol import decode_subscription
from protocol.errors import DecodeError, ErrorCode
from protocol.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
REBALANCED_AT_ONCE: Final = (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)


class ClassicGroup:
    """State of one group. Implements broker.groups.group.Group."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, host: Host) -> None:
        self.group_id = group_id
        self.host = host
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.EMPTY
        self.state_since_ms: int | None = None  # wall clock
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.roster = Roster()
        self.alarm = host.alarm(self._ring)
        # What a rebalance waits for: members to join, then members to sync.
        self.join_due_ns = NEVER_NS
        self.initial_delay: rebalance.InitialDelay | None = None
        self.sync_due_ns = NEVER_NS
        self.unsynced: set[str] = set()

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, host: Host) -> ClassicGroup:
        """Return the group as its last stable or empty generation left it."""
        group = cls(group_id, host)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.state_since_ms = (
            None if value.current_state_timestamp == -1 else value.current_state_timestamp
        )
        for member in value.members:
            spoken = JoinGroupRequestProtocol(
                name=value.protocol or "", metadata=member.subscription
            )
            group.roster.add(
                Member(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    session_timeout_ms=member.session_timeout,
                    rebalance_timeout_ms=(
                        member.session_timeout
                        if member.rebalance_timeout == -1
                        else member.rebalance_timeout
                    ),
                    protocols=[spoken],
                    assignment=member.assignment,
                )
            )
        if value.members:
            group.state = ClassicState.STABLE
            group.roster.leader_id = value.leader
        group.subscribed_topics = group._subscriptions()
        return group

    # -- What it is -----------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients are told it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no member and waits for none that is known."""
        return self.state is ClassicState.EMPTY

    @property
    def is_consumers(self) -> bool:
        """Whether its members are consumers of topics, and not Connect workers, say."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; where that is not known, consumers read everything."""
        if self.subscribed_topics is None:
            return self.is_consumers
        return topic in self.subscribed_topics

    def move(self, event: ClassicEvent) -> None:
        """Change the state."""
        self.previous_state = self.state
        self.state = next_state(CLASSIC, self.state, event)
        self.state_since_ms = self.host.clock.now_ms()

    def next_generation(self) -> None:
        """Begin the generation of the members that there are now."""
        self.generation += 1
        self.unsynced.clear()
        if self.roster.members:
            self.protocol_name = self.roster.choose_protocol()
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicEvent.JOINED)
        else:
            self.protocol_name = None
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicEvent.NOBODY_JOINED)

    def _subscriptions(self) -> frozenset[str] | None:
        if not self.is_consumers:
            return None
        topics: set[str] = set()
        if self.roster.members and self.protocol_name is None:
            return None
        try:
            for member in self.roster:
                topics.update(decode_subscription(member.metadata(self.protocol_name)).topics)
        except DecodeError as error:
            logger.warning("group %s: subscriptions cannot be read: %s", self.group_id, error)
            return None
        return frozenset(topics)

    # -- Members --------------------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Let a member join, or join again."""
        joining.join(self, body, caller, answer)

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Tell a member its assignment."""
        syncing.sync(self, body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Keep a member alive; the code is the answer."""
        state = self.state
        if state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = self.roster.check(body.member_id, body.group_instance_id)
        except GroupError as error:
            return error.code
        if body.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if state is ClassicState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.keep(member)
        if state is ClassicState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Let members go: each by its id, or an administrator by the static id alone."""
        if self.state is ClassicState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        responses = []
        for leaving in members:
            response = MemberResponse(
                member_id=leaving.member_id, group_instance_id=leaving.group_instance_id
            )
            responses.append(response)
            try:
                self._let_go(leaving)
            except GroupError as error:
                response.error_code = error.code
        if any(not response.error_code for response in responses):
            if self.state in REBALANCED_AT_ONCE:
                rebalance.proceed(self)
            elif self.state is ClassicState.PREPARING_REBALANCE:
                rebalance.complete_if_all_joined(self)
        return responses

    def _let_go(self, leaving: MemberIdentity) -> None:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id:
            if instance_id is None or instance_id not in self.roster.static:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            member_id = self.roster.static[instance_id]
        if member_id not in self.roster.pending:
            member = self.roster.check(member_id, instance_id)
            refusal = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            member.answer_join(refusal)
        self.forget(member_id)

    def forget(self, member_id: str) -> None:
        """Take a member, pending or not, off every list; a SyncGroup of it that waits is refused.

        (Kafka leaves such a SyncGroup without an answer. Nobody should wait for nothing.)
        """
        member = self.roster.members.get(member_id)
        if member is not None:
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self.roster.remove(member_id)
        self.unsynced.discard(member_id)

    def keep(self, member: Member) -> None:
        """Note that a member lives: its session begins anew."""
        self.expect_within(member, member.session_timeout_ms)

    def expect_within(self, member: Member, wait_ms: int) -> None:
        """Take a member for dead that is not heard of within `wait_ms`."""
        deadline_ns = self.host.clock.monotonic_ns() + wait_ms * MS_NS
        member.deadline_ns = deadline_ns
        self.alarm.at_latest(deadline_ns)

    # -- Offsets and administration ---------------------------------------------------------------

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,  # noqa: ARG002 -- of consumer groups
    ) -> None:
        """Refuse an OffsetCommit. Without a generation it comes from outside of the group."""
        state = self.state
        if state is ClassicState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and state is ClassicState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.check(member_id, instance_id)
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        if state is ClassicState.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def committed(self, member_id: str) -> None:
        """Note that a member has committed offsets: it lives."""
        member = self.roster.members.get(member_id)
        if member is not None:
            self.keep(member)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch: never, anyone may ask what a classic group has committed."""

    def check_offset_delete(self) -> None:
        """Refuse an OffsetDelete while members that are not consumers are there."""
        if self.state is not ClassicState.EMPTY and not self.is_consumers:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Refuse a DeleteGroups while members are there."""
        if self.state is not ClassicState.EMPTY:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def expiry(self) -> Expiry | None:
        """Say how its offsets age (KIP-211): since it is empty, or since each was committed."""
        if self.protocol_type is None:
            return Expiry(None)
        if self.state is ClassicState.EMPTY:
            return Expiry(self.state_since_ms)
        knows_topics = self.is_consumers and self.subscribed_topics is not None
        return Expiry(None) if knows_topics and self.state is ClassicState.STABLE else None

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        """Return the record of this generation with these assignments."""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.roster
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=members,
        )
        return GroupMetadataKey(group=self.group_id), value

    def first_record(self) -> GroupRecord:
        """Return the record of a group that has just been named, and has nothing yet."""
        value = GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, members=[]
        )
        return GroupMetadataKey(group=self.group_id), value

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that make the group have never been."""
        return [(GroupMetadataKey(group=self.group_id), None)]

    def members_of_generation(self) -> list[JoinGroupResponseMember]:
        """Return the members as the leader is told them."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.roster
        ]

    def describe(self) -> DescribedGroup:
        """Return what DescribeGroups tells; subscriptions only of a stable group."""
        is_stable = self.state is ClassicState.STABLE
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type or "",
            protocol_data=(self.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.roster
            ],
        )

    # -- Beginning, time, end ---------------------------------------------------------------------

    def loaded(self) -> None:
        """Let the sessions of the members that were found in the log begin."""
        for member in self.roster:
            self.keep(member)
        size_max = self.host.config.group_max_size
        if len(self.roster) > size_max:
            logger.info("group %s has more than %d members", self.group_id, size_max)
            rebalance.prepare(self)

    def _ring(self, now_ns: int) -> int:
        """Do what is due; return when the next thing is."""
        roster = self.roster
        for member_id in [one for one, due_ns in roster.pending.items() if due_ns <= now_ns]:
            rebalance.expire_pending(self, member_id)
        for member in [one for one in roster if one.deadline_ns <= now_ns]:
            rebalance.expire(self, member)
        if self.join_due_ns <= now_ns:
            rebalance.join_time_over(self)
        if self.sync_due_ns <= now_ns:
            rebalance.sync_time_over(self)
        return min(
            self.join_due_ns,
            self.sync_due_ns,
            min(roster.pending.values(), default=NEVER_NS),
            min((member.deadline_ns for member in roster), default=NEVER_NS),
        )

    def topics_changed(self, name: str) -> None:
        """Note that a topic has changed: the clients see to that, the leader asks again."""

    def removed(self, code: ErrorCode) -> None:
        """End: answer whoever waits with `code`, and cancel the alarm."""
        self.alarm.cancel()
        self.move(ClassicEvent.REMOVED)
        for member in self.roster:
            member.answer_join(JoinGroupResponse(member_id=member.member_id, error_code=code))
            member.answer_sync(SyncGroupResponse(error_code=code))
