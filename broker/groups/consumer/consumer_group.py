"""A consumer group (KIP-848): its state, its members' deadlines, and what the coordinator asks it.

    heartbeat ── draft (consumer/heartbeat.py) ── host.write ── the draft is the state ── answer

Two deadlines a member: the session, put off by every heartbeat, and the time it has for the next
step that is its own: to give partitions up, or, for a member of the classic protocol, to join
again and to sync. A member that misses one is out, as if it had left; a static one that has left
for a while keeps the session it had.

What members of the classic protocol ask is in consumer/classic_side.py, how a group changes its
kind in consumer/migration.py.

Its state (Empty, Assigning …) follows from epochs and members; the steps are the table of
broker/groups/states.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.alarm import NEVER_NS
from broker.groups.consumer import classic_side, migration
from broker.groups.consumer.assignors import Partitions
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.member_heartbeat import (
    WAITING_EPOCH,
    Surroundings,
    follow,
    leave,
    remove,
)
from broker.groups.consumer.state import ConsumerState, Draft
from broker.groups.consumer.subscriptions import topic_names
from broker.groups.consumer.targets import put_targets, search
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Expiry, GroupKind, GroupRecord, Host
from broker.groups.states import (
    CONSUMER,
    ConsumerGroupEvent,
    ConsumerGroupState,
    next_state,
)
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
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger("barnabas.groups")

HeartbeatAnswer = Callable[[ConsumerGroupHeartbeatResponse], None]

# What may be set on a group itself; the rest is the broker's.
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
EPOCH_COMMIT_VERSION: Final = 9  # of OffsetCommit: from here on it names a member's epoch


class ConsumerGroup:
    """One consumer group."""

    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str, host: Host, replaced: Sequence[GroupRecord] = ()) -> None:
        """Make a group of nobody; `replaced` takes back what has its id, with the first write."""
        self.group_id = group_id
        self.state = ConsumerState(group_id)
        self._replaced = replaced
        self.host = host
        self._topics_changed = True  # the targets may not be right for the topics that are now
        self._sessions: dict[str, int] = {}  # member id -> when it is given up (monotonic ns)
        self._steps: dict[str, tuple[int, int]] = {}  # member id -> its epoch, deadline of a step
        self._phase = ConsumerGroupState.EMPTY
        self._is_searching = False  # for targets, in the pool
        self._is_over = False
        self._alarm = host.alarm(self._ring)

    # -- What a group is ----------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients are told it."""
        return self._phase.value

    def _event(self) -> ConsumerGroupEvent:
        """Say what the state has come to."""
        state = self.state
        if not state.members:
            return ConsumerGroupEvent.DESERTED
        if state.epoch > state.target_epoch:
            return ConsumerGroupEvent.CHANGED
        for member in state.members.values():
            if member.state != MemberState.STABLE or member.member_epoch != state.target_epoch:
                return ConsumerGroupEvent.ASSIGNED
        return ConsumerGroupEvent.REACHED

    @property
    def protocol_type(self) -> str:
        """Always `consumer`."""
        return PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether it has no member."""
        return not self.state.members

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`."""
        state = self.state
        return any(topic in topic_names(member, state.regexes) for member in state.members.values())

    def topics_changed(self, name: str) -> None:  # noqa: ARG002 - an expression may match any
        """Look at the topics again with the next heartbeat."""
        self._topics_changed = True

    # -- KIP-848 --------------------------------------------------------------------------------

    def follow(
        self, body: ConsumerGroupHeartbeatRequest, caller: Caller, answer: HeartbeatAnswer
    ) -> None:
        """Serve a ConsumerGroupHeartbeat that `heartbeat.check` has let through."""
        if body.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            self._leave(body, answer)
            return
        member = self.state.members.get(body.member_id)
        if member is not None and self._is_settled(member, body):
            self.put_off(member.member_id)
            answer(self._nothing_new(member))
            return
        draft = Draft(self.state)
        member_id = body.member_id or self.host.new_id()
        response = follow(draft, body, member_id, caller, self.around())
        self.write(draft, lambda code: answer(_failed(code) if code else response))
        self._topics_changed = False
        self.put_off(member_id)
        self.find_targets()

    def _is_settled(self, member: ConsumerGroupMember, body: ConsumerGroupHeartbeatRequest) -> bool:
        """Whether there is nothing to do: the member says nothing, and has what it should."""
        state = self.state
        return (
            body.member_epoch == member.member_epoch == state.target_epoch == state.epoch
            and member.state == MemberState.STABLE
            and member.classic is None
            and not self._topics_changed
            and body.subscribed_topic_names is None
            and body.subscribed_topic_regex is None
            and body.server_assignor is None
            and body.rack_id is None
            and body.instance_id == member.instance_id
            and body.rebalance_timeout_ms == -1
        )

    def _nothing_new(self, member: ConsumerGroupMember) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
        )

    def _leave(self, body: ConsumerGroupHeartbeatRequest, answer: HeartbeatAnswer) -> None:
        draft = Draft(self.state)
        member = leave(draft, body, self.around())
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=body.member_epoch
        )
        self.write_removal(draft, lambda code: answer(_failed(code) if code else response))

    def write(self, draft: Draft, done: Callable[[ErrorCode], None] | None) -> None:
        """Write a draft's records; then the draft is the state. GroupError: nothing happened.

        An answer that needs no record waits, too: what it tells may not be durable yet, as when
        a member asks again because the answer to its first heartbeat was lost.
        """
        if draft.records:
            self.host.write(self.group_id, [*self._replaced, *draft.records], done)
            self._replaced = ()
        self.state = draft.state
        self._phase = next_state(CONSUMER, self._phase, self._event())
        for member_id in self._sessions.keys() - self.state.members.keys():
            del self._sessions[member_id]
        for member_id in self._steps.keys() - self.state.members.keys():
            del self._steps[member_id]
        if not draft.records and done is not None:
            self.host.when_durable(self.group_id, done)

    def write_removal(self, draft: Draft, done: Callable[[ErrorCode], None] | None) -> None:
        """As `write`; if only members of the classic protocol are left, the group is theirs."""
        if migration.may_be_classic(draft.state, self.host.config):
            migration.downgrade(self, draft, done)
            return
        self.write(draft, done)

    def write_replacement(self, draft: Draft, done: Callable[[ErrorCode], None]) -> bool:
        """As `write`, when a member of the classic protocol took the place of one of the new.

        If it was the last one of the new, the group is theirs who are left. Return whether it is.
        """
        is_theirs = migration.may_be_classic(draft.state, self.host.config)
        if is_theirs:
            migration.downgrade(self, draft, done, replaces=True)
        else:
            self.write(draft, done)
        return is_theirs

    def find_targets(self) -> None:
        """Have targets found for the group's epoch, where the heartbeat left that to the group."""
        searched = self.state
        if self._is_searching or self._is_over or searched.epoch == searched.target_epoch:
            return
        wanted = search(searched, self.host.topics, self.host.config.group_consumer_assignors)
        self._is_searching = True
        self.host.compute(wanted.run, lambda found: self._found(searched, found))

    def _found(self, searched: ConsumerState, found: dict[str, Partitions] | None) -> None:
        self._is_searching = False
        if self._is_over or found is None:
            return  # after a failure the next heartbeat tries again
        draft = Draft(self.state)
        put_targets(draft, searched, found, self.host.clock.now_ms())
        try:
            self.write(draft, None)
        except GroupError as error:
            logger.warning("group %s gets no new targets: %s", self.group_id, error)
            return
        self.find_targets()

    @property
    def reachable_epoch(self) -> int:
        """The epoch to which a member can move now, once it has asked for it."""
        state = self.state
        return state.target_epoch or WAITING_EPOCH if self._is_searching else state.epoch

    def around(self) -> Surroundings:
        """Return what a step needs to know beside the group."""
        config = self.host.config
        return Surroundings(
            self.host.topics,
            self._topics_changed,
            self.host.clock.now_ms(),
            config.group_consumer_assignors,
            config.group_consumer_max_size,
            self._heartbeat_interval_ms,
        )

    @property
    def _session_timeout_ms(self) -> int:
        default_ms = self.host.config.group_consumer_session_timeout_ms
        return int(self.host.own_configs(self.group_id).get(SESSION_TIMEOUT, default_ms))

    @property
    def _heartbeat_interval_ms(self) -> int:
        default_ms = self.host.config.group_consumer_heartbeat_interval_ms
        return int(self.host.own_configs(self.group_id).get(HEARTBEAT_INTERVAL, default_ms))

    # -- The classic APIs -----------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Let a member of the classic protocol join, or join again."""
        classic_side.join(self, body, caller, answer)

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Tell a member of the classic protocol its assignment."""
        classic_side.sync(self, body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Keep a member of the classic protocol alive; the code is the answer."""
        return classic_side.heartbeat(self, body)

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Let members of the classic protocol go."""
        return classic_side.leave(self, members)

    # -- Deadlines ------------------------------------------------------------------------------

    def put_off(self, member_id: str) -> None:
        """Begin a member's session anew, and the time to give partitions up, if it has to."""
        member = self.state.members[member_id]
        now_ns = self.host.clock.monotonic_ns()
        timeout_ms = (
            self._session_timeout_ms
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self._sessions[member_id] = now_ns + timeout_ms * MS_NS
        self._alarm.at_latest(self._sessions[member_id])
        if member.classic is None:
            if member.state == MemberState.UNREVOKED_PARTITIONS:
                self.expect_step(member)
            else:
                self.step_done(member_id)

    def expect_step(self, member: ConsumerGroupMember) -> None:
        """Give a member its rebalance timeout for a step out of its epoch, if it has none yet."""
        epoch, _ = self._steps.get(member.member_id, (-1, 0))
        if epoch != member.member_epoch:
            due_ns = self.host.clock.monotonic_ns() + member.rebalance_timeout_ms * MS_NS
            self._steps[member.member_id] = member.member_epoch, due_ns
            self._alarm.at_latest(due_ns)

    def step_done(self, member_id: str) -> None:
        """Note that a member has done what it was given time for."""
        self._steps.pop(member_id, None)

    def _ring(self, now_ns: int) -> int:
        """Take out who has missed a deadline; return the next one."""
        silent = [member_id for member_id, due_ns in self._sessions.items() if due_ns <= now_ns]
        holding = [member_id for member_id, (_, due_ns) in self._steps.items() if due_ns <= now_ns]
        for member_id in silent:
            logger.info(
                "member %s fenced from the group %s because its session expired",
                member_id,
                self.group_id,
            )
        for member_id in holding:
            logger.info(
                "member %s fenced from the group %s because it failed to transition from epoch %d"
                " to epoch %d within its rebalance timeout",
                member_id,
                self.group_id,
                self.state.members[member_id].member_epoch,
                self.state.target_epoch,
            )
        gone = dict.fromkeys((*silent, *holding))
        if gone:
            draft = Draft(self.state)
            remove(draft, list(gone), self.around())
            try:
                self.write_removal(draft, None)
            except GroupError as error:
                logger.warning("group %s keeps members that are gone: %s", self.group_id, error)
                return now_ns + self._session_timeout_ms * MS_NS
        dues = (*self._sessions.values(), *(due_ns for _, due_ns in self._steps.values()))
        return min(dues, default=NEVER_NS)

    # -- Offsets and administration -------------------------------------------------------------

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002 - of classic groups
        generation: int,
        version: int,
    ) -> None:
        """Refuse an OffsetCommit of who is no member, or of an older epoch."""
        if generation < 0 and not self.state.members:
            return
        member = self.state.member(member_id)
        if member.classic is None and version < EPOCH_COMMIT_VERSION:
            raise GroupError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the modern group"
                " protocol",
            )
        _check_epoch(member, generation)

    def committed(self, member_id: str) -> None:
        """Note nothing: only heartbeats keep a member of a consumer group alive."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch of who is no member, or of an older epoch."""
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self.state.member(member_id or ""), member_epoch)

    def check_offset_delete(self) -> None:
        """Refuse no OffsetDelete: topics that members read are refused one by one."""

    def check_delete(self) -> None:
        """Refuse to delete a group that has members."""
        if self.state.members:
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)

    def expiry(self) -> Expiry:
        """Say that every offset ages from its own commit on."""
        return Expiry(None)

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that make the group have never been."""
        draft = Draft(self.state)
        draft.remove_group()
        return draft.records

    # -- Its beginning and end in memory ---------------------------------------------------------

    def loaded(self) -> None:
        """Let every member's session begin: it has this long to be heard of."""
        self._phase = next_state(CONSUMER, self._phase, self._event())
        for member_id in self.state.members:
            self.put_off(member_id)

    def removed(self, code: ErrorCode) -> None:  # noqa: ARG002 - nobody waits here
        """End: no deadline counts any more."""
        self._is_over = True
        self._phase = next_state(CONSUMER, self._phase, ConsumerGroupEvent.REMOVED)
        self._alarm.cancel()


def _check_epoch(member: ConsumerGroupMember, epoch: int) -> None:
    if epoch == member.member_epoch:
        return
    if member.classic is not None:
        raise GroupError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {epoch} does not match the expected member epoch"
            f" {member.member_epoch}.",
        )
    raise GroupError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch"
        f" {member.member_epoch}.",
    )


def _failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=code.message)
