"""What clients of groups saw, as plain events: written by the clients, read by the judge of groups.

Each event begins when its request was sent. `ended_ns` is the time of the answer, FOREVER if none
came; `code` is the error code of the answer, None if none came. A client appends its event to
`Record.group_events` before it sends the request, so that requests in flight at a crash are in it.

Members are told partitions as pairs of topic and number: a name in the classic protocol, an id in
hexadecimal digits in the consumer protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FOREVER: Final = 1 << 62
Partition = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class Event:
    """A request to a group, and its answer."""

    who: str
    group: str
    began_ns: int
    ended_ns: int = FOREVER
    code: int | None = None

    def answered(self, now_ns: int, code: int) -> None:
        """Note the answer."""
        self.ended_ns = now_ns
        self.code = code


@dataclass(slots=True, kw_only=True)
class Commit(Event):
    """One offset was sent. No two commits of a history have the same offset."""

    topic: str
    partition: int
    offset: int
    metadata: str
    topic_id: str = ""  # in hexadecimal digits
    member_id: str = ""
    epoch: int = -1  # or generation
    retention_ms: int = -1
    is_transactional: bool = False  # it ends with its transaction: also in a later life


@dataclass(slots=True, kw_only=True)
class Fetched(Event):
    """One committed offset was read; -1: there was none. Only answers without an error."""

    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(slots=True, kw_only=True)
class Removed(Event):
    """Offsets were to be removed: by OffsetDelete, DeleteGroups or DeleteTopics.

    An empty `group` stands for all groups, an empty `topic` for all topics, and None for all
    partitions.
    """

    topic: str = ""
    partition: int | None = None
    is_group: bool = False  # the group itself too: the next of that name begins anew


@dataclass(slots=True, kw_only=True)
class Synced(Event):
    """A member of a classic group was told its share; the leader also says what it sent."""

    generation: int
    member_id: str
    instance_id: str = ""
    leader: str
    share: frozenset[Partition] = frozenset()
    shares: dict[str, frozenset[Partition]] | None = None  # as the leader


@dataclass(slots=True, kw_only=True)
class Beat(Event):
    """A heartbeat of a consumer group's member, or a leave (`epoch` below 0).

    `owned` is what the member said it owns; None: it did not say. `told_epoch` and `assigned` are
    the answer's; None: no news.
    """

    member_id: str
    instance_id: str = ""
    epoch: int
    owned: frozenset[Partition] | None
    session_ms: int
    rebalance_ms: int
    told_epoch: int = 0
    assigned: frozenset[Partition] | None = None


@dataclass(slots=True, kw_only=True)
class Joined(Event):
    """A JoinGroup. `member_id` is the one that was sent, or else the one that was answered."""

    member_id: str
    instance_id: str = ""
    generation: int = -1
    members: frozenset[str] = frozenset()  # as the leader is told them


@dataclass(slots=True, kw_only=True)
class Pulse(Event):
    """A heartbeat of a classic group's member; `generation` is the one that it is in."""

    generation: int
    member_id: str
    instance_id: str = ""
    session_ms: int
    rebalance_ms: int


@dataclass(slots=True, kw_only=True)
class Acted(Event):
    """A client of the classic protocol asks to join or to leave.

    With an instance id it does so as that static member, whoever that was before.
    """

    instance_id: str = ""


@dataclass(slots=True, kw_only=True)
class Described(Event):
    """A group was described, by DescribeGroups or (`is_consumer`) by ConsumerGroupDescribe."""

    is_consumer: bool
    state: str
    epoch: int = 0  # of a consumer group
    target_epoch: int = 0
    members: list[DescribedMember] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribedMember:
    """A member in a description; epochs and partitions only in consumer groups."""

    member_id: str
    epoch: int = 0
    owned: frozenset[Partition] = frozenset()
    target: frozenset[Partition] = frozenset()
    is_classic: bool = False
    has_metadata: bool = False
