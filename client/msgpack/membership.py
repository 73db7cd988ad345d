"""A member of a consumer group (KIP-848): its next request, and its state after an answer.

No I/O and no clock: the shell (client/msgpack/group_consumer.py) passes in the time, sends what
`request` returns, and reports the result. The states:

    JOINING   the next request has epoch 0 and carries everything
    MEMBER    the broker assigned an epoch; requests carry changes, or are mere heartbeats
    FENCED    the broker no longer knows us, or we left because nobody polled: the partitions are
              lost. Nothing is sent until the shell has noted the loss (`take_loss`), then JOINING
    LEFT      `leave` was called: the end
    FAILED    refused permanently: `error` says why, and the partitions are lost

A partition never has two owners. The target is what the broker wants us to own. `change` returns
what to give up and what to take for it; the shell first gives up (`give_up`), then takes (`take`),
and the next request, sent at once, says what we own. The broker assigns a partition to another
member only after we said that we do not own it any more (Kafka: CurrentAssignmentBuilder). A
partition is not taken while the name of its topic is unknown.

An answer that was lost may have changed our epoch, so the next request carries everything again: a
broker accepts its previous epoch from a member that says what it owns, and answers with the target.

Sources: KIP-848, KIP-1082 (the member creates its id and keeps it), Kafka's
AbstractMembershipManager. That one fails if another member has our instance id; here we retry for
`unreleased_ms`, the time after which a broker removes a member that was killed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from client.codes import code_of, code_text
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH

_ELSEWHERE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_UNKNOWN: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


class GroupRefused(Exception):
    """The broker refuses this member or its requests permanently."""

    def __init__(self, text: str, code: ErrorCode) -> None:
        super().__init__(text)
        self.code = code


class Partition(NamedTuple):
    """A partition by topic id."""

    topic_id: bytes
    number: int


class Subscription(NamedTuple):
    """What a member subscribes to: topics by name, or those that match a regex (RE2)."""

    topics: tuple[str, ...] = ()
    regex: str = ""


class Change(NamedTuple):
    """The steps to the target: `give_up` the revoked, then `take` the assigned."""

    revoked: frozenset[Partition]
    assigned: frozenset[Partition]


class State(Enum):
    """The states of a membership; see the module."""

    JOINING = auto()
    MEMBER = auto()
    FENCED = auto()
    LEFT = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """`rebalance_ms` limits how long revoking may take, and the time between polls."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 300_000  # Kafka's max.poll.interval.ms
    retry_ms: int = 100  # Kafka's retry.backoff.ms and retry.backoff.max.ms
    retry_ms_max: int = 1_000
    unreleased_ms: int = 60_000


class Membership:
    """One member. Times are ms of any monotonic clock."""

    def __init__(self, settings: MemberSettings, subscription: Subscription, now_ms: float) -> None:
        self.settings = settings
        self.state = State.JOINING
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[Partition] = frozenset()
        self.target: frozenset[Partition] = frozenset()
        self.error: GroupRefused | None = None
        self.seeks_coordinator = False  # send FindCoordinator before the next request
        self._subscription = subscription
        self._told_subscription = False
        self._told_owned = False
        self._interval_ms = 0.0
        self._due_ms = now_ms
        self._polled_ms = now_ms
        self._failures = 0
        self._unreleased_since_ms: float | None = None
        self._asked_epoch: int | None = None
        self._target_is_old = False  # until answered, others may own the rest of it
        self._may_be_known = False  # a join was sent, and not reverted since

    @property
    def is_member(self) -> bool:
        """Whether the partitions may be read and committed."""
        return self.state is State.MEMBER

    @property
    def is_settled(self) -> bool:
        """Whether the member owns its target."""
        return self.is_member and self.owned == self.target

    def subscribe(self, subscription: Subscription, now_ms: float) -> None:
        """Change the subscription; a request is due at once."""
        if subscription != self._subscription:
            self._subscription = subscription
            self._told_subscription = False
            self._due_ms = now_ms

    def polled(self, now_ms: float) -> None:
        """Note that the caller has polled."""
        self._polled_ms = now_ms

    def due_ms(self) -> float | None:
        """Return when the next request is due, None if it depends on an answer or the shell."""
        if self._asked_epoch is not None or self.state not in (State.JOINING, State.MEMBER):
            return None
        if self.state is State.MEMBER:
            return min(self._due_ms, self._poll_until_ms)
        return self._due_ms

    @property
    def _poll_until_ms(self) -> float:
        return self._polled_ms + self.settings.rebalance_ms

    def request(self, now_ms: float) -> dict[str, Any] | None:
        """Return the body of the heartbeat if one is due; it then counts as sent."""
        due_ms = self.due_ms()
        if due_ms is None or now_ms < due_ms:
            return None
        if self.state is State.MEMBER and now_ms >= self._poll_until_ms:
            self._lose()
            self.state = State.FENCED  # until somebody polls
            body = self._leaving()
        else:
            body = self._body(self.epoch)
            if not self._told_subscription:
                body["subscribed_topic_names"] = list(self._subscription.topics)
                body["subscribed_topic_regex"] = self._subscription.regex
                body["rebalance_timeout_ms"] = self.settings.rebalance_ms
                body["server_assignor"] = self.settings.assignor
                self._told_subscription = True
            if not self._told_owned:
                body["topic_partitions"] = by_topic(self.owned)
                self._told_owned = True
                self._target_is_old = True
            self._may_be_known = True
        self._asked_epoch = body["member_epoch"]
        return body

    def _body(self, epoch: int) -> dict[str, Any]:
        return {
            "group_id": self.settings.group_id,
            "member_id": self.settings.member_id,
            "member_epoch": epoch,
            "instance_id": self.settings.instance_id,
        }

    def _leaving(self) -> dict[str, Any]:
        is_static = self.settings.instance_id is not None
        return self._body(LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH)

    def unanswered(self, now_ms: float) -> None:
        """Note that a request was not answered: its effect is unknown."""
        self._asked_epoch = None
        self._again(now_ms)

    def answered(self, answer: Mapping[str, Any], now_ms: float) -> None:
        """Process the answer to the last request."""
        asked_epoch, self._asked_epoch = self._asked_epoch, None
        if self.state not in (State.JOINING, State.MEMBER) or asked_epoch != self.epoch:
            return  # it is for an earlier membership
        if answer["error_code"]:
            self._refused(answer["error_code"], answer.get("error_message"), now_ms)
            return
        self._failures = 0
        self._unreleased_since_ms = None
        self._target_is_old = False
        self.state = State.MEMBER
        self.epoch = answer["member_epoch"]
        self._interval_ms = answer["heartbeat_interval_ms"]
        everything_told = self._told_subscription and self._told_owned
        self._due_ms = now_ms + (self._interval_ms if everything_told else 0)
        if answer["assignment"] is not None:
            self.target = frozenset(
                Partition(topic["topic_id"], number)
                for topic in answer["assignment"]["topic_partitions"]
                for number in topic["partitions"]
            )
            if self.target == self.owned:
                self._tell_owned(now_ms)  # nothing changes here, but the broker waits for it

    def _refused(self, number: int, message: str | None, now_ms: float) -> None:
        code = code_of(number)
        was_member = self.state is State.MEMBER
        if code.retriable:  # includes all errors of a coordinator that is not ready
            self.seeks_coordinator = code in _ELSEWHERE
            self._again(now_ms)
        elif code in _UNKNOWN or (code is ErrorCode.GROUP_ID_NOT_FOUND and was_member):
            self._lose()
            self._again(now_ms)
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID and not self._unreleased_too_long(now_ms):
            self._again(now_ms)
        else:
            self.fail(code_text(number, message), code)

    def fail(self, reason: str, code: ErrorCode) -> None:
        """End the membership: the broker refuses it permanently."""
        self.state = State.FAILED
        self.error = GroupRefused(f"group {self.settings.group_id!r}: {reason}", code)

    def _unreleased_too_long(self, now_ms: float) -> bool:
        if self._unreleased_since_ms is None:
            self._unreleased_since_ms = now_ms
        return now_ms - self._unreleased_since_ms >= self.settings.unreleased_ms

    def _again(self, now_ms: float) -> None:
        self._told_subscription = self._told_owned = False
        doubled_ms = self.settings.retry_ms << min(self._failures, 16)
        self._due_ms = now_ms + min(doubled_ms, self.settings.retry_ms_max)
        self._failures += 1

    def _lose(self) -> None:
        self.epoch = JOIN_EPOCH
        self.target = frozenset()
        self.state = State.FENCED if self.owned else State.JOINING
        self._may_be_known = False
        self._told_subscription = self._told_owned = False

    def disowned(self) -> None:
        """Note, from another answer (a commit's), that the broker does not know us any more."""
        if self.state is State.MEMBER:
            self._lose()

    def take_loss(self) -> frozenset[Partition]:
        """Return and drop the partitions that are lost; other members may own them."""
        if self.state not in (State.FENCED, State.FAILED):
            return frozenset()
        lost, self.owned = self.owned, frozenset()
        if self.state is State.FENCED:
            self.state = State.JOINING
        return lost

    def change(self, named: Collection[bytes]) -> Change | None:
        """Return the steps to the target for topics that are `named`; None if there are none."""
        target = self.target & self.owned if self._target_is_old else self.target
        wanted = frozenset(one for one in target if one.topic_id in named)
        if not self.is_member or wanted == self.owned:
            return None
        return Change(self.owned - wanted, wanted - self.owned)

    def give_up(self, revoked: frozenset[Partition], now_ms: float) -> None:
        """Drop these partitions: they are not read or committed any more."""
        self.owned -= revoked
        self._tell_owned(now_ms)

    def take(self, assigned: frozenset[Partition], now_ms: float) -> None:
        """Own these from now on, if still a member and no request is unanswered."""
        if self.is_member and not self._target_is_old:
            self.owned |= assigned
            self._tell_owned(now_ms)

    def _tell_owned(self, now_ms: float) -> None:
        self._told_owned = False
        if self.is_member:
            self._due_ms = now_ms

    def leave(self) -> dict[str, Any] | None:
        """Give everything up; return the last request, None if the broker does not know us."""
        is_known = self._may_be_known and self.state is not State.FAILED
        self.state = State.LEFT
        self.owned = frozenset()
        return self._leaving() if is_known else None


def by_topic(partitions: Collection[Partition]) -> list[dict[str, Any]]:
    """Return partitions in the form of requests."""
    numbers: dict[bytes, list[int]] = {}
    for one in sorted(partitions):
        numbers.setdefault(one.topic_id, []).append(one.number)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in numbers.items()]
