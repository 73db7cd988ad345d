"""What the coordinator asks of a group, of whatever kind, and what a group asks of it.

Two kinds of group share the names, the offsets and the log: classic groups (broker/groups/classic)
and those of KIP-848 (broker/groups/consumer). The coordinator finds the group of a request and
calls it; a group never looks for another one.

A group is plain state without I/O. What happens outside comes to it as calls, with the time taken
from `host.clock`; what it wants done it asks of its `Host`. The order of every operation:

    check ── host.write (raises: nothing has changed) ── change memory ── answer when durable

Records are pairs of the dataclasses of protocol/group_records.py: (key, value), None for a value
that is a tombstone.
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
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GroupRecord = tuple[Any, Any]
_T = TypeVar("_T")


class GroupKind(StrEnum):
    """Kafka's Group.GroupType; the values are what clients are told."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Caller(NamedTuple):
    """Who asks: what the coordinator remembers of a member's client, and the API's version."""

    client_id: str
    client_host: str
    version: int


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
    ) -> None:
        """Append `records` to the log of the group, in one batch.

        `done(code)` is called when they are durable (NONE) or cannot be: the code then is what a
        client of the group is told. Raises GroupError when nothing was appended.
        """

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Call `done(code)` as `write` does, when all is durable that was written until now."""

    def own_configs(self, group_id: str) -> Mapping[str, str]:
        """Return what is set on a group itself, as on a GROUP resource of AlterConfigs."""

    def put(self, group: Group) -> None:
        """Make `group` the one of its id: a group has changed its kind."""

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that is not set yet."""

    def compute(self, call: Callable[[], _T], done: Callable[[_T | None], None]) -> None:
        """Call in a thread, then `done` with what that returned; None if it raised."""

    def new_id(self) -> str:
        """Return a random UUID as text."""


class Expiry(NamedTuple):
    """From when on the offsets of a group age; None: each from its own commit on."""

    since_ms: int | None


class Group(Protocol):
    """One group; both kinds implement this.

    A method that refuses raises GroupError. `join` and `sync` answer through `answer`, now or
    later, and once.
    """

    group_id: str
    kind: GroupKind

    # -- What a group is ----------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The state as clients are told it."""

    @property
    def protocol_type(self) -> str | None:
        """`consumer`, `connect` …; None for a group that is only a name for offsets."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no member, so that it may be deleted or replaced by another kind."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`: then its offsets neither expire nor can be deleted."""

    # -- The classic APIs; a consumer group serves members that have not been upgraded ----------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Let a member join, or join again."""

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Tell a member its assignment."""

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Keep a member alive; the code is the answer."""

    def leave(self, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Let members go."""

    # -- Offsets and administration -------------------------------------------------------------

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int
    ) -> None:
        """Refuse an OffsetCommit; `generation` is the member's epoch in a consumer group."""

    def committed(self, member_id: str) -> None:
        """Note that a member has committed offsets: a classic member lives by that, too."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse an OffsetFetch."""

    def check_offset_delete(self) -> None:
        """Refuse an OffsetDelete of the group as a whole."""

    def check_delete(self) -> None:
        """Refuse a DeleteGroups."""

    def expiry(self) -> Expiry | None:
        """Say how the group's offsets age; None: not at all now."""

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that make the group have never been."""

    # -- Its beginning and end in memory ---------------------------------------------------------

    def loaded(self) -> None:
        """Replay has ended: let sessions begin. The coordinator serves from here on."""

    def topics_changed(self, name: str) -> None:
        """Note that a topic was created, deleted, or got more partitions."""

    def removed(self, code: ErrorCode) -> None:
        """End: answer whoever waits with `code`, and cancel the alarm. No record is written."""
