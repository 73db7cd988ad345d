"""A classic group as the coordinator sees it: one generation of members after another.

    join: all members send the protocols they support ── the broker chooses one, and a leader
    sync: the leader sends an assignment ── the broker writes it, and sends each member its part

The log holds the last stable generation, so its members continue after a restart without a
rebalance. A generation that is not stable yet is lost with the process, and the clients rejoin.

`generation` holds what the members have agreed on, and `rebalance` leads to the next generation.
`joining` and `syncing` serve JoinGroup and SyncGroup. The rules are those of Kafka's ClassicGroup
and the classic part of its GroupMetadataManager (KIP-62, 134, 345, 394, 559, 814).
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
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

logger = logging.getLogger("barnabas.groups")

REBALANCED_AT_ONCE: Final = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE)


class ClassicGroup:
    """One classic group. Implements broker.groups.group.Group."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, host: Host, generation: Generation | None = None) -> None:
        """Make a group with `generation`, which is in the log, or one that only holds offsets."""
        self.group_id = group_id
        self._has_record = generation is not None
        self.generation = generation or Generation(group_id)
        self.rebalance = Rebalance(self.generation, host)
        self._roster = self.generation.roster
        self._host = host

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, host: Host) -> ClassicGroup:
        """Return the group with the last generation in the log."""
        return cls(group_id, host, Generation.from_record(group_id, value))

    # -- What a group is --------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients see it."""
        return self.generation.state.value

    @property
    def protocol_type(self) -> str | None:
        """`consumer`, `connect` …; None for a group that holds only offsets."""
        return self.generation.protocol_type

    @property
    def is_empty(self) -> bool:
        """Whether it is in state Empty; pending members may exist."""
        return self.generation.state is ClassicGroupState.EMPTY

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self._roster.members)

    @property
    def holds_only_offsets(self) -> bool:
        """Whether the log has nothing but offsets of it, and no member is about to join."""
        generation = self.generation
        return (
            not self._has_record
            and generation.generation_id == 0
            and self.is_empty
            and not self._roster.pending
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; consumers with unknown subscriptions read every topic."""
        return self.generation.is_subscribed_to(topic)

    # -- Members --------------------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Add a member, or let it rejoin."""
        joining.join(self.rebalance, body, caller, answer)

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Answer with the member's assignment."""
        syncing.sync(self.rebalance, body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Renew a member's session; return the code of the answer."""
        generation = self.generation
        state = generation.state
        if state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = self._roster.check(body.member_id, body.group_instance_id)
        except GroupError as error:
            return error.code
        if body.generation_id != generation.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if state is ClassicGroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.rebalance.renew_session(member)
        if state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Remove members by id; an administrator may name a static member by its instance id."""
        if self.generation.state is ClassicGroupState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        responses = []
        for leaving in members:
            response = MemberResponse(
                member_id=leaving.member_id, group_instance_id=leaving.group_instance_id
            )
            responses.append(response)
            try:
                self._remove(leaving)
            except GroupError as error:
                response.error_code = error.code
        if any(not response.error_code for response in responses):
            if self.generation.state in REBALANCED_AT_ONCE:
                self.rebalance.proceed()
            elif self.generation.state is ClassicGroupState.PREPARING_REBALANCE:
                self.rebalance.complete_if_all_joined()
        return responses

    def _remove(self, leaving: MemberIdentity) -> None:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id:
            if instance_id is None or instance_id not in self._roster.static:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            member_id = self._roster.static[instance_id]
        if member_id not in self._roster.pending:
            member = self._roster.check(member_id, instance_id)
            refusal = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            member.answer_join(refusal)
        self.rebalance.remove_member(member_id)

    # -- Offsets and administration ---------------------------------------------------------------

    def check_commit(
        self,
        body: OffsetCommitRequest,
        places: Sequence[tuple[str, int]],  # noqa: ARG002 -- of consumer groups
        version: int,  # noqa: ARG002 -- of consumer groups
    ) -> None:
        """Check an OffsetCommit; without a generation, its sender is not a member."""
        generation = body.generation_id_or_member_epoch
        if self._is_open_to(generation):
            return
        if generation < 0 and not body.member_id and body.group_instance_id is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._check_member(body.member_id, body.group_instance_id, generation)
        if self.generation.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_txn_commit(
        self,
        body: TxnOffsetCommitRequest,
        places: Sequence[tuple[str, int]],  # noqa: ARG002 -- of consumer groups
    ) -> None:
        """Check a TxnOffsetCommit: accepted without a member, also beside members."""
        generation = body.generation_id
        if self._is_open_to(generation):
            return
        if generation >= 0 or body.member_id or body.group_instance_id is not None:
            self._check_member(body.member_id, body.group_instance_id, generation)

    def _is_open_to(self, generation: int) -> bool:
        """Whether a commit needs no member: the group has none, and it names no generation."""
        state = self.generation.state
        if state is ClassicGroupState.DEAD:
            raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return generation < 0 and state is ClassicGroupState.EMPTY

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> None:
        self._roster.check(member_id, instance_id)
        if generation != self.generation.generation_id:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def committed(self, member_id: str) -> None:
        """Renew the session of a member that has committed offsets."""
        member = self._roster.members.get(member_id)
        if member is not None:
            self.rebalance.renew_session(member)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check an OffsetFetch: every client may fetch the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Check an OffsetDelete: refused while the group has members that are not consumers."""
        if not self.is_empty and not self.generation.is_consumers:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Check a DeleteGroups: refused while the group has members."""
        if not self.is_empty:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def expiry(self) -> Expiry | None:
        """Return how its offsets age (KIP-211): since it became empty, or since each commit."""
        generation = self.generation
        if generation.protocol_type is None:
            return Expiry(None)
        if self.is_empty:
            return Expiry(generation.state_since_ms)
        knows_topics = generation.is_consumers and generation.subscribed_topics is not None
        is_stable = generation.state is ClassicGroupState.STABLE
        return Expiry(None) if knows_topics and is_stable else None

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all records of the group."""
        return self.generation.tombstones()

    def describe(self) -> DescribedGroup:
        """Return the answer to DescribeGroups; only a stable group includes subscriptions."""
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
        """Start the sessions of the members that were loaded from the log."""
        for member in self._roster:
            self.rebalance.renew_session(member)
        size_max = self._host.config.group_max_size
        if len(self._roster) > size_max:
            logger.info(
                "group %(group)s has more than %(members_max)d members",
                {"group": self.group_id, "members_max": size_max},
            )
            self.rebalance.prepare()

    def topics_changed(self, name: str) -> None:
        """Do nothing: the leader rejoins when a topic has changed."""

    def removed(self, code: ErrorCode) -> None:
        """End the group: answer waiting requests with `code`, and cancel the alarm."""
        self.rebalance.stop()
        self.rebalance.move(ClassicGroupEvent.REMOVED)
        for member in self._roster:
            member.answer_join(JoinGroupResponse(member_id=member.member_id, error_code=code))
            member.answer_sync(SyncGroupResponse(error_code=code))
