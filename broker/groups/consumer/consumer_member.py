"""One member of a consumer group: what it asked for, what it has, and how far it has followed.

Members are values: a change is a new one, made from the records that were written for it. So
what is in memory is what a restart reads back.

`assigned` and `pending_revocation` are topic id -> partition -> the epoch in which the partition
was given to this member. The member's own epoch is the last target it follows. A member with
`classic` speaks the classic protocol within a group of this kind (KIP-848's migration): its epoch
is what it knows as the generation.

Its state is how far it is on its way to its target: STABLE has it, or what of it was free with no
more to come; UNREVOKED_PARTITIONS must give partitions up before it goes on;
UNRELEASED_PARTITIONS waits for partitions that others have not given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.group_records import MemberState

Assigned = Mapping[bytes, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What only a member of the classic protocol has: its session, and its own assignors."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # name, subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    classic: ClassicSide | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=dict)
    pending_revocation: Assigned = field(default_factory=dict)
