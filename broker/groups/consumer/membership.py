"""The membership of a consumer group: its state, its deadlines, and the search for targets.

    request ── draft ── host.write ── the draft becomes the state ── answer

Every change goes through `write`, so memory is never ahead of the log. The state that clients see
(Empty, Assigning …) follows from epochs and members, by the table of broker/groups/states.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_steps import WAITING_EPOCH, StepContext
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.targets import put_targets, search
from broker.groups.errors import GroupError
from broker.groups.group import Caller, GroupRecord, Host
from broker.groups.states import CONSUMER, ConsumerGroupEvent, ConsumerGroupState, next_state
from protocol.errors import ErrorCode
from protocol.group_records import MemberState

logger = logging.getLogger("barnabas.groups")

# The configs of a group itself; all others are the broker's.
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


class Membership:
    """The state of one group, and the operations that change it."""

    def __init__(
        self,
        state: ConsumerState,
        host: Host,
        deadlines: Deadlines,
        replaced: Sequence[GroupRecord],
    ) -> None:
        """`replaced` are tombstones of a former group of that id, for the first write."""
        self.state = state
        self.group_id = state.group_id
        self.host = host
        self.deadlines = deadlines
        self.group_state = ConsumerGroupState.EMPTY
        self.topics_changed = True  # since the last heartbeat; the targets may be outdated
        self._resolved: set[str] = set()  # expressions, since topics or rights changed
        self._rights_version = -1  # with which expressions were resolved
        self._rights_now = -1  # with which those in `_resolved` were
        self._replaced = replaced
        self._is_searching = False  # for targets, in the pool
        self._is_over = False

    # -- Writing ----------------------------------------------------------------------------------

    def write(self, draft: Draft, done: Callable[[ErrorCode], None] | None) -> None:
        """Write a draft's records and make its state the group's.

        `done` also waits if there are no records: the state may not be durable yet, for example
        when a member repeats a heartbeat whose answer was lost. Raises GroupError if nothing was
        written; the group is then unchanged.
        """
        if draft.records:
            self.host.write(self.group_id, [*self._replaced, *draft.records], done)
            self._replaced = ()
        self.state = draft.state
        self.note_change()
        self.deadlines.keep_only(self.state.members)
        if not draft.records and done is not None:
            self.host.when_durable(self.group_id, done)

    def note_change(self) -> None:
        """Set the group's state by its epochs and members."""
        self.group_state = next_state(CONSUMER, self.group_state, self._event())

    def _event(self) -> ConsumerGroupEvent:
        state = self.state
        if not state.members:
            return ConsumerGroupEvent.DESERTED
        if state.epoch > state.target_epoch:
            return ConsumerGroupEvent.CHANGED
        for member in state.members.values():
            if member.state != MemberState.STABLE or member.member_epoch != state.target_epoch:
                return ConsumerGroupEvent.ASSIGNED
        return ConsumerGroupEvent.REACHED

    def end(self) -> None:
        """Cancel the deadlines, and ignore targets that a thread is still finding."""
        self._is_over = True
        self.group_state = next_state(CONSUMER, self.group_state, ConsumerGroupEvent.REMOVED)
        self.deadlines.stop()

    # -- Targets ----------------------------------------------------------------------------------

    def find_targets(self) -> None:
        """Let a thread find the targets of the group's epoch, if they are missing."""
        searched = self.state
        if self._is_searching or self._is_over or searched.epoch == searched.target_epoch:
            return
        wanted = search(searched, self.host.topics, self.host.config.group_consumer_assignors)
        self._is_searching = True
        self.host.compute(wanted.run, lambda found: self._found(searched, found))

    def _found(self, searched: ConsumerState, found: dict[str, PartitionsByTopic] | None) -> None:
        self._is_searching = False
        if self._is_over or found is None:
            return  # after a failure, the next heartbeat tries again
        if searched.epoch <= self.state.target_epoch:
            # The group has become small meanwhile, and a heartbeat has found later targets: with
            # these, epochs would go back.
            self.find_targets()
            return
        draft = Draft(self.state)
        put_targets(draft, searched, found, self.host.clock.now_ms())
        try:
            self.write(draft, None)
        except GroupError as error:
            logger.warning(
                "group %(group)s: new targets not written: %(error)s",
                {"group": self.group_id, "error": error},
            )
            return
        self.find_targets()

    @property
    def reachable_epoch(self) -> int:
        """The epoch that a member can reach with its next request."""
        state = self.state
        return state.target_epoch or WAITING_EPOCH if self._is_searching else state.epoch

    def is_outdated(self, caller: Caller) -> bool:
        """Return whether topics, or the rights to see them in expressions, may have changed."""
        return self.topics_changed or (
            caller.rights_changed_at > self._rights_version and bool(self.state.regexes)
        )

    def look_again(self) -> None:
        """Have the next heartbeats look at the topics, and resolve all expressions again."""
        self.topics_changed = True
        self._resolved = set()

    def looked(self, caller: Caller, resolved: set[str]) -> None:
        """Note that a step of `caller` has looked at topics, and which expressions are `resolved`.

        If some are left, the next steps go on.
        """
        if self.is_outdated(caller):
            if not self.state.regexes.keys() <= resolved:
                self._resolved = resolved
                return
        elif self._resolved:
            return
        self.topics_changed = False
        self._resolved = set()
        self._rights_version = caller.rights_version

    def context(self, caller: Caller | None = None) -> StepContext:
        """Return what a step needs beside the group; `caller` has the step made."""
        config = self.host.config
        if caller is not None and caller.rights_version != self._rights_now:
            self._rights_now = caller.rights_version
            self._resolved = set()
        return StepContext(
            self.host.topics,
            self.topics_changed if caller is None else self.is_outdated(caller),
            self.host.clock.now_ms(),
            config.group_consumer_assignors,
            config.group_consumer_max_size,
            self.heartbeat_interval_ms,
            set(self._resolved),
            None if caller is None else caller.may_describe,
        )

    # -- Time -------------------------------------------------------------------------------------

    def renew_session(self, member_id: str) -> None:
        """Renew a member's session, and start its time to revoke partitions, if it must."""
        member = self.state.members[member_id]
        if member.classic is not None:
            self.deadlines.begin_session(member_id, member.classic.session_timeout_ms)
            return
        self.deadlines.begin_session(member_id, self.session_timeout_ms)
        if member.state == MemberState.UNREVOKED_PARTITIONS:
            self.deadlines.expect_step(member)
        else:
            self.deadlines.step_done(member_id)

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout of members of the new protocol."""
        default_ms = self.host.config.group_consumer_session_timeout_ms
        return int(self.host.own_configs(self.group_id).get(SESSION_TIMEOUT, default_ms))

    @property
    def heartbeat_interval_ms(self) -> int:
        """The interval at which members send heartbeats."""
        default_ms = self.host.config.group_consumer_heartbeat_interval_ms
        return int(self.host.own_configs(self.group_id).get(HEARTBEAT_INTERVAL, default_ms))
