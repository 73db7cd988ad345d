"""What a classic group has agreed on: its generation, protocol and members, and its state.

A generation begins when all members have joined, and is stable when the leader's assignment is
durable. The log holds the last stable or empty generation: `record` writes it, `from_record` reads
it. Nothing here waits: the time is an argument, and the timers are in
`broker.groups.classic.rebalance`.

The states are a table (broker/groups/states.py). The broker does not read the members' metadata,
except for the topics that consumers subscribe to.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.groups.classic.classic_member import ClassicGroupMember
from broker.groups.classic.roster import Roster
from broker.groups.group import GroupRecord
from broker.groups.states import CLASSIC, ClassicGroupEvent, ClassicGroupState, next_state
from protocol.consumer_protocol import decode_subscribed_topics
from protocol.errors import DecodeError
from protocol.group_records import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

logger = logging.getLogger("barnabas.groups")

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class Generation:
    """The current generation of a group, and the group's state."""

    __slots__ = (
        "generation_id",
        "group_id",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "roster",
        "state",
        "state_since_ms",
        "subscribed_topics",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.generation_id = 0
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.EMPTY
        self.state_since_ms: int | None = None  # wall clock
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.roster = Roster()

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> Generation:
        """Return the generation that the log holds."""
        read = cls(group_id)
        read.generation_id = value.generation
        read.protocol_type = value.protocol_type or None
        read.protocol_name = value.protocol
        since_ms = value.current_state_timestamp
        read.state_since_ms = None if since_ms == NO_TIMESTAMP else since_ms
        for member in value.members:
            read.roster.add(_from_metadata(member, value.protocol or ""))
        if value.members:
            read.state = ClassicGroupState.STABLE
            read.roster.leader_id = value.leader
        read.subscribed_topics = read._subscriptions()
        return read

    @property
    def is_consumers(self) -> bool:
        """Whether its members are consumers, not, for example, Connect workers."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; consumers with unknown subscriptions read every topic."""
        if self.subscribed_topics is None:
            return self.is_consumers
        return topic in self.subscribed_topics

    def move(self, event: ClassicGroupEvent, now_ms: int) -> None:
        """Change the state."""
        self.previous_state = self.state
        self.state = next_state(CLASSIC, self.state, event)
        self.state_since_ms = now_ms

    def begin_next(self, now_ms: int) -> None:
        """Begin the generation of the current members."""
        self.generation_id += 1
        if self.roster.members:
            self.protocol_name = self.roster.choose_protocol()
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicGroupEvent.JOINED, now_ms)
        else:
            self.protocol_name = None
            self.subscribed_topics = self._subscriptions()
            self.move(ClassicGroupEvent.NOBODY_JOINED, now_ms)

    def _subscriptions(self) -> frozenset[str] | None:
        if not self.is_consumers:
            return None
        topics: set[str] = set()
        if self.roster.members and self.protocol_name is None:
            return None
        # Most members of a group say the same, and to read 100 topics takes 40 us.
        said = dict.fromkeys(bytes(one.metadata(self.protocol_name)) for one in self.roster)
        try:
            for metadata in said:
                topics.update(decode_subscribed_topics(metadata))
        except DecodeError as error:
            logger.warning(
                "group %(group)s: unreadable subscriptions: %(error)s",
                {"group": self.group_id, "error": error},
            )
            return None
        return frozenset(topics)

    def join_response(
        self,
        member: ClassicGroupMember,
        *,
        is_told_members: bool,
        skip_assignment: bool = False,
    ) -> JoinGroupResponse:
        """Return the JoinGroup answer for a member of this generation."""
        members = [
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata(self.protocol_name),
            )
            for each in (self.roster if is_told_members else ())
        ]
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=members,
        )

    # -- Its records ------------------------------------------------------------------------------

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        """Return the record of this generation with `assignments` by member id."""
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
        since_ms = self.state_since_ms
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.roster.leader_id,
            current_state_timestamp=NO_TIMESTAMP if since_ms is None else since_ms,
            members=members,
        )
        return GroupMetadataKey(group=self.group_id), value

    def first_record(self) -> GroupRecord:
        """Return the record of a new group, which has no members or protocol yet."""
        value = GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, members=[]
        )
        return GroupMetadataKey(group=self.group_id), value

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all records of the group."""
        return [(GroupMetadataKey(group=self.group_id), None)]


def _from_metadata(member: MemberMetadata, protocol: str) -> ClassicGroupMember:
    """Return a member from its record; rebalance timeout -1 stands for the session timeout."""
    return ClassicGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=(
            member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
        ),
        protocols=[JoinGroupRequestProtocol(name=protocol, metadata=member.subscription)],
        assignment=member.assignment,
    )
