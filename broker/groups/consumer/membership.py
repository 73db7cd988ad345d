"""The members of a consumer group as they are written: the state, its deadlines, its targets.

    a request ── draft ── host.write ── the draft is the state ── answer

Whatever a request makes of the group goes through `write`, so memory is never ahead of the log.
The group's state for others (Empty, Assigning …) follows from epochs and members; its steps are the
table of broker/groups/states.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.consumer.assignors import Partitions
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_steps import WAITING_EPOCH, Surroundings
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.targets import put_targets, search
from broker.groups.errors import GroupError
from broker.groups.group import GroupRecord, Host
from broker.groups.states import CONSUMER, ConsumerGroupEvent, ConsumerGroupState, next_state
from protocol.errors import ErrorCode
from protocol.group_records import MemberState

logger = logging.getLogger("barnabas.groups")

# What may be set on a group itself; the rest is the broker's.
SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"


class Membership:
    """The state of one group, and what changes it."""

    def __init__(
        self,
        state: ConsumerState,
        host: Host,
        deadlines: Deadlines,
        replaced: Sequence[GroupRecord],
    ) -> None:
        """`replaced` takes back what has the group's id, with the first write."""
        self.state = state
        self.group_id = state.group_id
        self.host = host
        self.deadlines = deadlines
        self.group_state = ConsumerGroupState.EMPTY
        self.topics_changed = True  # the targets may not be right for the topics that are now
        self._replaced = replaced
        self._is_searching = False  # for targets, in the pool
        self._is_over = False

    # -- Writing ----------------------------------------------------------------------------------

    def write(self, draft: Draft, done: Callable[[ErrorCode], None] | None) -> None:
        """Write a draft's records; then the draft is the state. GroupError: nothing happened.

        An answer that needs no record waits, too: what it tells may not be durable yet, as when
        a member asks again because the answer to its first heartbeat was lost.
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
        """Move the group to the state that its epochs and members have come to."""
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
        """Let no deadline count any more, and take no targets that are still being found."""
        self._is_over = True
        self.group_state = next_state(CONSUMER, self.group_state, ConsumerGroupEvent.REMOVED)
        self.deadlines.stop()

    # -- Targets ----------------------------------------------------------------------------------

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
            self.topics_changed,
            self.host.clock.now_ms(),
            config.group_consumer_assignors,
            config.group_consumer_max_size,
            self.heartbeat_interval_ms,
        )

    # -- Time -------------------------------------------------------------------------------------

    def put_off(self, member_id: str) -> None:
        """Begin a member's session anew, and the time to give partitions up, if it has to."""
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
        """How long a member of the new protocol may be silent."""
        default_ms = self.host.config.group_consumer_session_timeout_ms
        return int(self.host.own_configs(self.group_id).get(SESSION_TIMEOUT, default_ms))

    @property
    def heartbeat_interval_ms(self) -> int:
        """How often a member is to send a heartbeat."""
        default_ms = self.host.config.group_consumer_heartbeat_interval_ms
        return int(self.host.own_configs(self.group_id).get(HEARTBEAT_INTERVAL, default_ms))
