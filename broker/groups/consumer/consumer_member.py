"""One member of a consumer group: its subscription, its partitions, and its epoch.

Members are immutable. A change makes a new member from the records that were written, so memory
always holds what a restart would load.

`assigned` and `pending_revocation` map topic id -> partition -> the epoch in which the member got
the partition. The member's own epoch is that of the last target it has reconciled to. A member
with `classic` uses the classic protocol within a consumer group (KIP-848's migration), and sees
its epoch as the generation.

Its state tells how far it is from its target: STABLE has reached it; UNREVOKED_PARTITIONS must
revoke partitions first; UNRELEASED_PARTITIONS waits for partitions that other members have not
released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.group_records import MemberState

Assigned = Mapping[bytes, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What only a member of the classic protocol has: a session timeout and protocols."""

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

    def held_since(self, topic_id: bytes, partition: int) -> int | None:
        """Return the epoch in which it got a partition that it has or has yet to revoke."""
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
