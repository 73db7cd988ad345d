"""A member of a consumer group (KIP-848): what it says next, and what an answer makes of it.

No I/O and no clock: the shell (client/msgpack/group_consumer.py) says what time it is, sends what
`request` returns and reports what came of it. The states:

    JOINING   the next request has epoch 0 and tells everything
    MEMBER    the broker has given an epoch; requests tell what is new, or only that we are here
    FENCED    the broker knows us no more, or we left because nobody polled: what is held is lost.
              Nothing is sent until the shell has taken note of it (`take_loss`), then JOINING
    LEFT      `leave` was called: the end
    FAILED    refused for good: `error` says why, and what is held is lost

Never two owners. What the broker wants us to hold is the target. `change` says what has to be given
up for it and what comes new; the shell gives up first (`give_up`), takes then (`take`), and the
next request, at once, tells what is held: the broker gives a partition to another member only when
it has heard that we hold it no more (Kafka: CurrentAssignmentBuilder). A partition whose topic the
shell cannot name yet is not taken.

An answer that was lost may have changed our epoch, so after it everything is told again: a broker
takes the epoch before its own from a member that tells what it holds, and answers with the target.

Sources: KIP-848, KIP-1082 (the member makes its id and keeps it), Kafka's
AbstractMembershipManager, which fails where an instance id is held by another: here that is tried
again for `unreleased_ms`, the time in which a broker gives up a member that was killed.
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
    """The broker does not take us, or not what we say; trying again is no use."""

    def __init__(self, text: str, code: ErrorCode) -> None:
        super().__init__(text)
        self.code = code


class Partition(NamedTuple):
    """A partition, by its topic's id."""

    topic_id: bytes
    number: int


class Subscription(NamedTuple):
    """What a member wants: topics by name, or those a regular expression (RE2) matches."""

    topics: tuple[str, ...] = ()
    regex: str = ""


class Change(NamedTuple):
    """The way to the target: `give_up` what is revoked, then `take` what is assigned."""

    revoked: frozenset[Partition]
    assigned: frozenset[Partition]


class State(Enum):
    """Where a membership stands; the module says what each means."""

    JOINING = auto()
    MEMBER = auto()
    FENCED = auto()
    LEFT = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """`rebalance_ms`: how long giving up may take, and how long nobody may poll."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_ms: int = 300_000  # Kafka's max.poll.interval.ms
    retry_ms: int = 100  # Kafka's retry.backoff.ms and retry.backoff.max.ms
    retry_ms_max: int = 1_000
    unreleased_ms: int = 60_000


class Membership:
    """One member. Times are ms of any clock that does not go back."""

    def __init__(self, settings: MemberSettings, subscription: Subscription, now_ms: float) -> None:
        self.settings = settings
        self.state = State.JOINING
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[Partition] = frozenset()
        self.target: frozenset[Partition] = frozenset()
        self.error: GroupRefused | None = None
        self.seeks_coordinator = False  # FindCoordinator comes before the next request
        self._subscription = subscription
        self._told_subscription = False
        self._told_owned = False
        self._interval_ms = 0.0
        self._due_ms = now_ms
        self._polled_ms = now_ms
        self._failures = 0
        self._unreleased_since_ms: float | None = None
        self._asked_epoch: int | None = None
        self._target_is_old = False  # told what is held: the rest may be another's, till answered
        self._may_be_known = False  # a join has been sent, and not undone since

    @property
    def is_member(self) -> bool:
        """Whether what is held may be read and committed."""
        return self.state is State.MEMBER

    @property
    def is_settled(self) -> bool:
        """Whether the member holds what it shall hold."""
        return self.is_member and self.owned == self.target

    def subscribe(self, subscription: Subscription, now_ms: float) -> None:
        """Want something else from now on; the broker is told at once."""
        if subscription != self._subscription:
            self._subscription = subscription
            self._told_subscription = False
            self._due_ms = now_ms

    def polled(self, now_ms: float) -> None:
        """Note that the reader is alive."""
        self._polled_ms = now_ms

    def due_ms(self) -> float | None:
        """Return when `request` has something, or None if only an answer or the shell can tell."""
        if self._asked_epoch is not None or self.state not in (State.JOINING, State.MEMBER):
            return None
        if self.state is State.MEMBER:
            return min(self._due_ms, self._poll_until_ms)
        return self._due_ms

    @property
    def _poll_until_ms(self) -> float:
        return self._polled_ms + self.settings.rebalance_ms

    def request(self, now_ms: float) -> dict[str, Any] | None:
        """Return the body of the heartbeat that is due; it is under way from now on."""
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
        """Note that a request has no answer: what it did is not known."""
        self._asked_epoch = None
        self._again(now_ms)

    def answered(self, answer: Mapping[str, Any], now_ms: float) -> None:
        """Take the answer of the request under way."""
        asked_epoch, self._asked_epoch = self._asked_epoch, None
        if self.state not in (State.JOINING, State.MEMBER) or asked_epoch != self.epoch:
            return  # it is about a membership that has ended
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
                self._tell_owned(now_ms)  # nothing changes here, but the broker waits to hear it

    def _refused(self, number: int, message: str | None, now_ms: float) -> None:
        code = code_of(number)
        was_member = self.state is State.MEMBER
        if code.retriable:  # as all that a coordinator says that is away, or not ready
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
        """End it: the broker will not take us."""
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
        """Take note from another answer (a commit's) that the broker does not know us any more."""
        if self.state is State.MEMBER:
            self._lose()

    def take_loss(self) -> frozenset[Partition]:
        """Return what is lost, held by others perhaps; nothing of it is held any more."""
        if self.state not in (State.FENCED, State.FAILED):
            return frozenset()
        lost, self.owned = self.owned, frozenset()
        if self.state is State.FENCED:
            self.state = State.JOINING
        return lost

    def change(self, named: Collection[bytes]) -> Change | None:
        """Return the way to the target, as far as its topics are `named`; None if there is none."""
        target = self.target & self.owned if self._target_is_old else self.target
        wanted = frozenset(one for one in target if one.topic_id in named)
        if not self.is_member or wanted == self.owned:
            return None
        return Change(self.owned - wanted, wanted - self.owned)

    def give_up(self, revoked: frozenset[Partition], now_ms: float) -> None:
        """Hold this no more: nothing of it is read or committed from now on."""
        self.owned -= revoked
        self._tell_owned(now_ms)

    def take(self, assigned: frozenset[Partition], now_ms: float) -> None:
        """Hold this from now on, if we are a member still and nothing was asked meanwhile."""
        if self.is_member and not self._target_is_old:
            self.owned |= assigned
            self._tell_owned(now_ms)

    def _tell_owned(self, now_ms: float) -> None:
        self._told_owned = False
        if self.is_member:
            self._due_ms = now_ms

    def leave(self) -> dict[str, Any] | None:
        """Return the last request, None where nobody would miss us; what is held is given up."""
        is_known = self._may_be_known and self.state is not State.FAILED
        self.state = State.LEFT
        self.owned = frozenset()
        return self._leaving() if is_known else None


def by_topic(partitions: Collection[Partition]) -> list[dict[str, Any]]:
    """Return partitions as requests name them."""
    numbers: dict[bytes, list[int]] = {}
    for one in sorted(partitions):
        numbers.setdefault(one.topic_id, []).append(one.number)
    return [{"topic_id": topic_id, "partitions": found} for topic_id, found in numbers.items()]
