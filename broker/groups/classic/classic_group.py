"""A classic group: one generation of members after another.

    join: all members tell what they speak ── the broker chooses, and lets one lead
    sync: the leader tells who does what ── the broker writes it down, and tells each

What is in the log is the last stable generation, so members of one go on after a restart as if
nothing had been. Everything about a generation that is not stable yet is lost with the process,
and the clients begin it anew.

What the members have agreed on is in `generation`, what leads to the next one in `rebalance`;
`joining` and `syncing` serve JoinGroup and SyncGroup with both. This is the group as the
coordinator sees it. As Kafka's ClassicGroup and the classic part of its GroupMetadataManager
(KIP-62, 134, 345, 394, 559, 814).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.classic import joining, syncing
from broker.groups.classic.generation import Generation
from broker.groups.classic.rebalance import Rebalance
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Expiry, GroupKind, GroupRecord, Host
from broker.groups.states import ClassicGroupEvent, ClassicGroupState
from protocol.errors import ErrorCode
from protocol.group_records import GroupMetadataValue
from protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

REBALANCED_AT_ONCE: Final = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE)


class ClassicGroup:
    """One classic group. Implements broker.groups.group.Group."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, host: Host, generation: Generation | None = None) -> None:
        """Make a group that begins with `generation`, or empty."""
        self.group_id = group_id
        self.generation = generation or Generation(group_id)
        self.rebalance = Rebalance(self.generation, host)
        self._roster = self.generation.roster
        self._host = host

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, host: Host) -> ClassicGroup:
        """Return the group as its last stable or empty generation left it."""
        return cls(group_id, host, Generation.from_record(group_id, value))

    # -- What it is -----------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients are told it."""
        return self.generation.state.value

    @property
    def protocol_type(self) -> str | None:
        """`consumer`, `connect` …; None for a group that is only a name for offsets."""
        return self.generation.protocol_type

    @property
    def is_empty(self) -> bool:
        """Whether it has no member and waits for none that is known."""
        return self.generation.state is ClassicGroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; where that is not known, consumers read everything."""
        return self.generation.is_subscribed_to(topic)

    # -- Members --------------------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Let a member join, or join again."""
        joining.join(self.rebalance, body, caller, answer)

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Tell a member its assignment."""
        syncing.sync(self.rebalance, body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Keep a member alive; the code is the answer."""
        state = self.generation.state
        if state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = self._roster.check(body.member_id, body.group_instance_id)
        except GroupError as error:
            return error.code
        if body.generation_id != self.generation.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if state is ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.rebalance.keep(member)
        if state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Let members go: each by its id, or an administrator by the static id alone."""
        if self.generation.state is ClassicGroupState.DEAD:
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
            if self.generation.state in REBALANCED_AT_ONCE:
                self.rebalance.proceed()
            elif self.generation.state is ClassicGroupState.PREPARING_REBALANCE:
                self.rebalance.complete_if_all_joined()
        return responses

    def _let_go(self, leaving: MemberIdentity) -> None:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id:
            if instance_id is None or instance_id not in self._roster.static:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            member_id = self._roster.static[instance_id]
        if member_id not in self._roster.pending:
            member = self._roster.check(member_id, instance_id)
            refusal = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            member.answer_join(refusal)
        self.rebalance.forget(member_id)

    # -- Offsets and administration ---------------------------------------------------------------

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,  # noqa: ARG002 -- of consumer groups
    ) -> None:
        """Refuse an OffsetCommit. Without a generation it comes from outside of the group."""
        state = self.generation.state
        if state is ClassicGroupState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and state is ClassicGroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._roster.check(member_id, instance_id)
        if generation != self.generation.generation_id:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def committed(self, member_id: str) -> None:
        """Note that a member has committed offsets: it lives."""
        member = self._roster.members.get(member_id)
        if member is not None:
            self.rebalance.keep(member)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch: never, anyone may ask what a classic group has committed."""

    def check_offset_delete(self) -> None:
        """Refuse an OffsetDelete while members that are not consumers are there."""
        if not self.is_empty and not self.generation.is_consumers:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Refuse a DeleteGroups while members are there."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def expiry(self) -> Expiry | None:
        """Say how its offsets age (KIP-211): since it is empty, or since each was committed."""
        generation = self.generation
        if generation.protocol_type is None:
            return Expiry(None)
        if self.is_empty:
            return Expiry(generation.state_since_ms)
        knows_topics = generation.is_consumers and generation.subscribed_topics is not None
        is_stable = generation.state is ClassicGroupState.STABLE
        return Expiry(None) if knows_topics and is_stable else None

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that make the group have never been."""
        return self.generation.tombstones()

    def describe(self) -> DescribedGroup:
        """Return what DescribeGroups tells; subscriptions only of a stable group."""
        generation = self.generation
        is_stable = generation.state is ClassicGroupState.STABLE
        protocol = generation.protocol_name
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=generation.protocol_type or "",
            protocol_data=(protocol or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(protocol) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self._roster
            ],
        )

    # -- Beginning and end ------------------------------------------------------------------------

    def loaded(self) -> None:
        """Let the sessions of the members that were found in the log begin."""
        for member in self._roster:
            self.rebalance.keep(member)
        size_max = self._host.config.group_max_size
        if len(self._roster) > size_max:
            logger.info("group %s has more than %d members", self.group_id, size_max)
            self.rebalance.prepare()

    def topics_changed(self, name: str) -> None:
        """Note that a topic has changed: the clients see to that, the leader asks again."""

    def removed(self, code: ErrorCode) -> None:
        """End: answer whoever waits with `code`, and cancel the alarm."""
        self.rebalance.stop()
        self.rebalance.move(ClassicGroupEvent.REMOVED)
        for member in self._roster:
            member.answer_join(JoinGroupResponse(member_id=member.member_id, error_code=code))
            member.answer_sync(SyncGroupResponse(error_code=code))
