"""The members of a classic group, its leader, static ids, and the protocols that all support.

Members are in the order in which they joined. An id is `pending` from the answer that assigns it
until its member rejoins with it (KIP-394). A pending id is no member, but a rebalance waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from broker.groups.classic.classic_member import ClassicGroupMember
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse


class Roster:
    """Members by id; `pending` maps ids to deadlines (monotonic ns)."""

    __slots__ = ("_supporters", "leader_id", "members", "pending", "static")

    def __init__(self) -> None:
        self.members: dict[str, ClassicGroupMember] = {}
        self.static: dict[str, str] = {}  # instance id: member id
        self.pending: dict[str, int] = {}
        self.leader_id: str | None = None
        self._supporters: Counter[str] = Counter()  # protocol: number of members that support it

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        return iter(self.members.values())

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one leads."""
        assert member.instance_id not in self.static, f"{member.instance_id} is a member already"
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        self._supporters.update(self._names(member.protocols))
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id; if it led, the earliest member leads next."""
        self.pending.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._supporters.subtract(self._names(member.protocols))
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)

    def replace_static(self, member: ClassicGroupMember, new_id: str) -> None:
        """Give a static member a new id; fence the requests that wait under the old one.

        The successor is known by its instance id: it does not count as new while it waits.
        """
        old_id = member.member_id
        fenced = ErrorCode.FENCED_INSTANCE_ID
        member.answer_join(JoinGroupResponse(member_id=old_id, error_code=fenced))
        member.answer_sync(SyncGroupResponse(error_code=fenced))
        assert member.instance_id is not None, "only static members are replaced"
        self.static[member.instance_id] = member.member_id = new_id
        member.is_new = False
        self.members = {one.member_id: one for one in self.members.values()}
        if self.leader_id == old_id:
            self.leader_id = new_id

    def set_protocols(
        self, member: ClassicGroupMember, protocols: Sequence[JoinGroupRequestProtocol]
    ) -> None:
        """Replace the protocols of a member."""
        self._supporters.subtract(self._names(member.protocols))
        member.protocols = protocols
        self._supporters.update(self._names(protocols))

    def check(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """Return a member. Raises GroupError if it is unknown, or fenced by its successor."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    @property
    def joining_count(self) -> int:
        """The number of members that wait in JoinGroup."""
        return sum(member.join_answer is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether every member waits in JoinGroup and no id is pending."""
        return not self.pending and all(
            member.join_answer is not None for member in self.members.values()
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def all_support_one_of(self, protocols: Iterable[JoinGroupRequestProtocol]) -> bool:
        """Whether every member supports one of `protocols`."""
        count = len(self.members)
        return any(self._supporters[protocol.name] == count for protocol in protocols)

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes; each member votes for the first common one."""
        count = len(self.members)
        candidates = {name for name, speakers in self._supporters.items() if speakers == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; return whether there is one."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_answer is not None:
            return True
        for member in self.members.values():
            if member.join_answer is not None:
                self.leader_id = member.member_id
                return True
        return False

    @staticmethod
    def _names(protocols: Sequence[JoinGroupRequestProtocol]) -> set[str]:
        return {protocol.name for protocol in protocols}
