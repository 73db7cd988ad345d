"""A consumer group (KIP-848), as the coordinator sees it.

    heartbeat ── draft (consumer/member_heartbeat.py) ── membership.write ── answer

`consumer/membership.py` holds and writes the state. `consumer/deadlines.py` knows when a member
expires: it is then removed as if it had left. A static member that has left temporarily keeps the
session it had. `consumer/classic_members.py` serves members of the classic protocol, and
`consumer/migration.py` converts a group from one kind to the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from broker.groups.consumer import classic_members, commit_checks, member_heartbeat, migration
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_steps import remove
from broker.groups.consumer.membership import Membership
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import topic_sets
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Expiry, GroupKind, GroupRecord, Host
from broker.runtime.clock import MS_NS
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.errors import ErrorCode
from protocol.group_records import MemberState
from protocol.messages.consumer_group_heartbeat import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

logger = logging.getLogger("barnabas.groups")

HeartbeatAnswer = Callable[[ConsumerGroupHeartbeatResponse], None]


class ConsumerGroup:
    """One consumer group. Implements broker.groups.group.Group."""

    kind = GroupKind.CONSUMER

    def __init__(
        self,
        group_id: str,
        host: Host,
        replaced: Sequence[GroupRecord] = (),
        state: ConsumerState | None = None,
    ) -> None:
        """Make a group with `state`, or an empty one.

        `replaced` are tombstones of a former group of that id; the first write includes them.
        """
        self.group_id = group_id
        self._host = host
        self.membership = Membership(
            state or ConsumerState(group_id),
            host,
            Deadlines(host.clock, host.alarm(self._ring)),
            replaced,
        )

    # -- What a group is ----------------------------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        """The state of the group as it is written."""
        return self.membership.state

    @property
    def state_name(self) -> str:
        """The state as clients see it."""
        return self.membership.group_state.value

    @property
    def protocol_type(self) -> str:
        """Always `consumer`."""
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether it has no member."""
        return not self.state.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.state.members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`."""
        state = self.state
        return any(
            topic in names for names in topic_sets(state.subscriptions.keys(), state.regexes)
        )

    def topics_changed(self, name: str) -> None:  # noqa: ARG002 - an expression may match any
        """Make the next heartbeats look at the topics again."""
        self.membership.look_again()

    # -- KIP-848 --------------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, body: ConsumerGroupHeartbeatRequest, caller: Caller, answer: HeartbeatAnswer
    ) -> None:
        """Serve a ConsumerGroupHeartbeat that `member_heartbeat.check` has accepted."""
        if body.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            self._leave(body, answer)
            return
        membership = self.membership
        member = membership.state.members.get(body.member_id)
        if member is not None and self._says_nothing_new(member, body, caller):
            membership.renew_session(member.member_id)
            answer(
                ConsumerGroupHeartbeatResponse(
                    member_id=member.member_id,
                    member_epoch=member.member_epoch,
                    heartbeat_interval_ms=membership.heartbeat_interval_ms,
                )
            )
            return
        draft = Draft(membership.state)
        member_id = body.member_id or self._host.new_id()
        context = membership.context(caller)
        response = member_heartbeat.heartbeat(draft, body, member_id, caller, context)
        membership.write(draft, lambda code: answer(_failed(code) if code else response))
        membership.looked(caller, context.resolved)
        membership.renew_session(member_id)
        membership.find_targets()

    def _says_nothing_new(
        self, member: ConsumerGroupMember, body: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> bool:
        """Whether the request changes nothing, and the member has reached its target."""
        state = self.state
        return (
            body.member_epoch == member.member_epoch == state.target_epoch == state.epoch
            and member.state == MemberState.STABLE
            and member.classic is None
            and not self.membership.is_outdated(caller)
            and body.subscribed_topic_names is None
            and body.subscribed_topic_regex is None
            and body.server_assignor is None
            and body.rack_id is None
            and body.instance_id == member.instance_id
            and body.rebalance_timeout_ms == -1
        )

    def _leave(self, body: ConsumerGroupHeartbeatRequest, answer: HeartbeatAnswer) -> None:
        membership = self.membership
        draft = Draft(self.state)
        member = member_heartbeat.leave(draft, body, membership.context())
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=body.member_epoch
        )

        def done(code: ErrorCode) -> None:
            answer(_failed(code) if code else response)

        if member.member_id not in draft.state.members:
            migration.write_removal(membership, draft, done)
            return
        membership.write(draft, done)  # a static member that will come back
        membership.deadlines.step_done(member.member_id)

    # -- The classic APIs -----------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Add a member of the classic protocol, or let it rejoin."""
        classic_members.join(self.membership, body, caller, answer)

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Answer with the assignment of a member of the classic protocol."""
        classic_members.sync(self.membership, body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Renew the session of a classic member; return the code of the answer."""
        return classic_members.heartbeat(self.membership, body)

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Remove members of either protocol."""
        return classic_members.leave(self.membership, members)

    # -- Deadlines ------------------------------------------------------------------------------

    def _ring(self, now_ns: int) -> int:
        """Remove members that have missed a deadline; return the next deadline."""
        membership = self.membership
        missed = membership.deadlines.missed(now_ns)
        for member_id in missed.sessions:
            logger.info(
                "member %(member)s fenced from the group %(group)s because its session expired",
                {"member": member_id, "group": self.group_id},
            )
        for member_id in missed.steps:
            logger.info(
                "member %(member)s fenced from the group %(group)s because it failed to transition"
                " from epoch %(member_epoch)d to epoch %(target_epoch)d within its rebalance"
                " timeout",
                {
                    "member": member_id,
                    "group": self.group_id,
                    "member_epoch": self.state.members[member_id].member_epoch,
                    "target_epoch": self.state.target_epoch,
                },
            )
        gone = dict.fromkeys((*missed.sessions, *missed.steps))
        if gone:
            draft = Draft(self.state)
            remove(draft, list(gone), membership.context())
            try:
                migration.write_removal(membership, draft, None)
            except GroupError as error:
                logger.warning(
                    "group %(group)s: expired members not removed: %(error)s",
                    {"group": self.group_id, "error": error},
                )
                return now_ns + membership.session_timeout_ms * MS_NS
        return membership.deadlines.next_ns()

    # -- Offsets and administration -------------------------------------------------------------

    def check_commit(
        self, body: OffsetCommitRequest, places: Sequence[tuple[str, int]], version: int
    ) -> None:
        """Check an OffsetCommit: refused for non-members and for another epoch."""
        commit_checks.check_commit(self.state, self._host.topics, body, places, version)

    def check_txn_commit(
        self, body: TxnOffsetCommitRequest, places: Sequence[tuple[str, int]]
    ) -> None:
        """Check a TxnOffsetCommit: one without a member is accepted."""
        commit_checks.check_txn_commit(self.state, self._host.topics, body, places)

    def committed(self, member_id: str) -> None:
        """Do nothing: only heartbeats renew a session in a consumer group."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check an OffsetFetch: refused for unknown members and for another epoch."""
        if member_id is None and member_epoch < 0:
            return
        commit_checks.check_epoch(self.state.member(member_id or ""), member_epoch)

    def check_offset_delete(self) -> None:
        """Check an OffsetDelete: the coordinator refuses topics with subscribers one by one."""

    def check_delete(self) -> None:
        """Check a DeleteGroups: refused while the group has members."""
        if self.state.members:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def expiry(self) -> Expiry:
        """Return how its offsets age: each from its own commit."""
        return Expiry(None)

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all records of the group."""
        draft = Draft(self.state)
        draft.remove_group()
        return draft.records

    # -- Its beginning and end in memory ---------------------------------------------------------

    def loaded(self) -> None:
        """Start the session of every member."""
        self.membership.note_change()
        for member_id in self.state.members:
            self.membership.renew_session(member_id)

    def removed(self, code: ErrorCode) -> None:  # noqa: ARG002 - no request waits here
        """End the group and cancel its deadlines."""
        self.membership.end()


def _failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
