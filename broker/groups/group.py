"""The two interfaces between the coordinator and its groups: `Group` and `Host`.

Two kinds of group share ids, offsets and the log: classic groups (broker/groups/classic) and
consumer groups (KIP-848, broker/groups/consumer). The coordinator finds the group of a request and
calls it. A group never looks up another group.

A group is plain state without I/O. The coordinator calls it; the group reads the time from
`host.clock` and asks its `Host` for everything else. The order of every operation:

    check ── host.write (raises: nothing has changed) ── change memory ── answer when durable

Records are pairs (key, value) of the dataclasses of protocol/group_records.py. A tombstone has None
for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from broker.groups.alarm import Alarm
from broker.runtime.clock import Clock
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

GroupRecord = tuple[Any, Any]
_T = TypeVar("_T")


class GroupKind(StrEnum):
    """Kafka's Group.GroupType; clients see the values."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """The client of a request, as the coordinator remembers it, and the API version it used.

    `may_describe` tells which topics the client may describe; None: all of them. `rights_version`
    grows with each change of rights; the client's own may have changed at `rights_changed_at`.
    """

    client_id: str
    client_host: str
    version: int
    may_describe: Callable[[str], bool] | None = None
    rights_changed_at: int = -1
    rights_version: int = -1


class Host(Protocol):
    """The coordinator, as a group sees it."""

    config: BrokerConfig
    clock: Clock
    topics: Topics

    def write(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Callable[[ErrorCode], None] | None = None,
    ) -> int:
        """Append `records` to the log of the group, in one batch; return the offset of the first.

        Calls `done(code)` when they are durable (NONE) or have failed to become so; `code` is then
        the one for the group's client. Raises GroupError if nothing was appended.
        """

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Call `done(code)` as `write` does, when everything written so far is durable."""

    def own_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the configs of a group itself: of a GROUP resource of AlterConfigs."""

    def put(self, group: Group) -> None:
        """Make `group` the group of its id: a group has changed its kind."""

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that is not set."""

    def compute(self, call: Callable[[], _T], done: Callable[[_T | None], None]) -> None:
        """Run `call` in a thread, then call `done` with its result; None if it raised."""

    def new_id(self) -> str:
        """Return a random UUID as text."""


class Expiry(NamedTuple):
    """The time from which a group's offsets age; None: each ages from its own commit."""

    since_ms: int | None


class Group(Protocol):
    """One group; both kinds implement this.

    A method raises GroupError to refuse. `join` and `sync` call `answer` once, now or later.
    """

    group_id: str
    kind: GroupKind

    # -- What a group is ----------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients see it."""

    @property
    def protocol_type(self) -> str | None:
        """`consumer`, `connect` …; None for a group that holds only offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no member. Such a group may be deleted or replaced by the other kind."""

    @property
    def member_count(self) -> int:
        """How many members it has."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`; if so, its offsets neither expire nor can be deleted."""

    # -- The classic APIs; a consumer group serves members that have not been upgraded ----------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Add a member, or let it rejoin."""

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Answer with the member's assignment."""

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Renew a member's session; return the code of the answer."""

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Remove members."""

    # -- Offsets and administration -------------------------------------------------------------

    def check_commit(
        self, body: OffsetCommitRequest, places: Sequence[tuple[str, int]], version: int
    ) -> None:
        """Check an OffsetCommit for `places`: names of topics, and partitions.

        The request's generation is the member's epoch in a consumer group.
        """

    def check_txn_commit(
        self, body: TxnOffsetCommitRequest, places: Sequence[tuple[str, int]]
    ) -> None:
        """Check a TxnOffsetCommit for `places`, as `check_commit` does."""

    def committed(self, member_id: str) -> None:
        """Note that a member has committed offsets; this renews a classic member's session."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check an OffsetFetch."""

    def check_offset_delete(self) -> None:
        """Check an OffsetDelete for the group as a whole."""

    def check_delete(self) -> None:
        """Check a DeleteGroups."""

    def expiry(self) -> Expiry | None:
        """Return how the group's offsets age; None: they do not age now."""

    def tombstones(self) -> list[GroupRecord]:
        """Return the tombstones of all records of the group."""

    # -- Its beginning and end in memory ---------------------------------------------------------

    def loaded(self) -> None:
        """Start the members' sessions: the log is read, and the coordinator serves from here on."""

    def topics_changed(self, name: str) -> None:
        """Note that a topic was created or deleted, or has more partitions."""

    def removed(self, code: ErrorCode) -> None:
        """End the group: answer waiting requests with `code`, cancel the alarm, write nothing."""
