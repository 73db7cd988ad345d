"""A party of members that make mistakes: one group, some callers, requests that are nearly right.

Each caller knows what the broker has told it: its member id, its generation or epoch. It mostly
says that, and now and then something else: the id of another, an old generation, another protocol,
a subscription that nobody can read. The callers act at once, join as static and as dynamic members
of both protocols, forget to leave, and fill the group. So all refusals of groups are heard, and
states are met that members who keep to the rules never enter.

The group is their own. What they are answered must be a code that Kafka has for groups. Nobody is
heard who is no member, who names a generation that never was, or whose static id another client has
taken over since.
"""

from __future__ import annotations

import random
from typing import Any, Final

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.clients.caller import Caller, codes_of
from tests.simulation.context import Context
from tests.simulation.judges.offsets import UNCERTAIN
from tests.simulation.plan import ClientPlan
from tests.simulation.world import Actor

CALLERS: Final = 4
PREFIX: Final = "rude"  # of its groups
MISTAKES: Final = 0.3
NOBODY: Final = "nobody"
FAR: Final = 1_000  # generations ahead: no group of a history has so many
GARBAGE: Final = b"\x00\x09garbage"
JOIN_MS: Final = (500, 3_000)
E: Final = ErrorCode
CODES: Final = frozenset(
    {
        0,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.UNSUPPORTED_VERSION,  # of commits of a consumer group
        E.ILLEGAL_GENERATION,
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.INVALID_GROUP_ID,
        E.UNKNOWN_MEMBER_ID,
        E.INVALID_SESSION_TIMEOUT,
        E.REBALANCE_IN_PROGRESS,
        E.INVALID_REQUEST,
        E.NON_EMPTY_GROUP,
        E.GROUP_ID_NOT_FOUND,
        E.MEMBER_ID_REQUIRED,
        E.GROUP_MAX_SIZE_REACHED,
        E.FENCED_INSTANCE_ID,
        E.GROUP_SUBSCRIBED_TO_TOPIC,
        E.FENCED_MEMBER_EPOCH,
        E.UNRELEASED_INSTANCE_ID,
        E.UNSUPPORTED_ASSIGNOR,
        E.STALE_MEMBER_EPOCH,
        E.INVALID_REGULAR_EXPRESSION,
        *UNCERTAIN,
    }
)


class Rude:
    """One caller of a party."""

    def __init__(
        self, caller: Caller, party: list[Rude], group: str, fenced: set[tuple[str, str, int]]
    ) -> None:
        self.caller = caller
        # Static ids with members of the party that have them no more, and since which life: one who
        # joins and does not sync is not in the log, so the next life may know the other one.
        self.fenced = fenced
        self.rng: random.Random = caller.rng
        self.party = party
        self.group = group
        self.member_id = ""
        self.generation = -1  # or epoch
        self.instance_id: str | None = None
        self.kind = "consumer"  # its protocol type
        self.topics: list[str] = []

    async def act(self, steps: int) -> None:
        """Send requests, one after the other."""
        for _ in range(steps):
            if self.caller.context.is_finale:
                break
            self.topics = [topic.name for topic in await self.caller.topics()][:3]
            acts = (
                self.join,
                self.join,
                self.sync,
                self.beat,
                self.leave,
                self.commit,
                self.forget,
            )
            await self.rng.choice((*acts, self.consume, self.consume, self.quit))()
            await self.caller.rest(self.rng.choice((1, 20, 200)))
        self.caller.wire.close()

    # -- What is said ---------------------------------------------------------------------------

    def _errs(self) -> bool:
        return self.rng.random() < MISTAKES

    def _id(self) -> str:
        if self._errs():
            return self.rng.choice(("", NOBODY, *[other.member_id for other in self.party]))
        return self.member_id

    def _known_id(self) -> str:
        """Return an id to join with: a consumer group takes any, and then has such a member."""
        member_id = self._id()
        return "" if member_id == NOBODY else member_id

    def _instance(self) -> str | None:
        if self._errs():
            return self.rng.choice((None, "", "i0", "i1", "i2"))
        return self.instance_id

    def _number(self) -> int:
        return self.generation + (self.rng.choice((-1, 1, FAR)) if self._errs() else 0)

    def _group(self) -> str:
        return self.rng.choice(("", " ")) if self.rng.random() < MISTAKES / 10 else self.group

    def _subscription(self) -> bytes:
        if self._errs():
            return self.rng.choice((b"", GARBAGE))
        return encode_subscription(ConsumerProtocolSubscription(topics=self.topics))

    async def _ask(self, body: Any, lowest: int = 0, timeout_ms: int = 0) -> Any:
        """Send a request; return the answer if its codes are of groups and one is 0."""
        version = self.caller.version_of(type(body), lowest)
        is_fenced = isinstance(body, _STATIC) and self._static_id(body) in self.fenced
        answer = await self.caller.ask(body, version, timeout_ms=timeout_ms, what=self.group)
        if answer is None:
            return None
        codes = codes_of(answer)
        strange = [code for code in codes if code not in CODES]
        name = type(body).__name__
        if strange:
            self.caller.record.fail(self.caller.name, f"{name} {version}: codes {strange}: {body}")
        is_heard = 0 in codes
        if is_heard and isinstance(body, _FOR_MEMBERS) and body.member_id == NOBODY:
            self.caller.record.fail(self.caller.name, f"{name} of a member that is none: {body}")
        if is_heard and _generation(body) >= FAR:
            self.caller.record.fail(self.caller.name, f"{name} of no generation: {body}")
        if is_heard and is_fenced and self._static_id(body) in self.fenced:
            self.caller.record.fail(self.caller.name, f"{name} of a fenced member: {body}")
        return answer if is_heard or E.MEMBER_ID_REQUIRED in codes else None

    # -- Members of the classic protocol ----------------------------------------------------------

    async def join(self) -> None:
        """Join, anew or again."""
        if self.rng.random() < 0.3:
            self.member_id, self.instance_id = "", self.rng.choice((None, None, "i0", "i1"))
        if self.rng.random() < 0.1:
            self.kind = self.rng.choice(("consumer", "consumer", "connect"))
        names = self.rng.choice(
            (("range",), ("range", "x"), ("x",) if self._errs() else ("range",))
        )
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=self._subscription()) for name in names
        ]
        instance_id = self._instance()
        body = JoinGroupRequest(
            group_id=self._group(),
            session_timeout_ms=1 if self.rng.random() < 0.05 else self.rng.choice((1_000, 10_000)),
            rebalance_timeout_ms=self.rng.choice((100, 1_000)),
            member_id=self._known_id(),
            group_instance_id=instance_id,
            protocol_type="" if self.rng.random() < 0.05 else self.kind,
            protocols=[] if self.rng.random() < 0.05 else protocols,
        )
        answer = await self._ask(body, 5 if instance_id else 0, self.rng.choice(JOIN_MS))
        if answer is not None:
            self.member_id = answer.member_id
            if not answer.error_code:
                self.generation, self.instance_id = answer.generation_id, instance_id
                self._take_over(answer.member_id)
                if answer.leader == answer.member_id and not self._errs():
                    await self.sync([one.member_id for one in answer.members])

    def _take_over(self, member_id: str) -> None:
        """Note that others of the party have lost their static id to this member."""
        if self.instance_id:
            ids = {other.member_id for other in self.party if other.instance_id == self.instance_id}
            gone = ids - {member_id, ""}
            self.fenced.update((self.instance_id, one, self._life) for one in gone)

    @property
    def _life(self) -> int:
        return len(self.caller.context.lives)

    def _static_id(self, body: Any) -> tuple[str, str, int]:
        return body.group_instance_id or "", body.member_id, self._life

    async def sync(self, members: list[str] | None = None) -> None:
        """Ask for an assignment; the leader gives them."""
        content = self.rng.choice(
            (
                b"",
                encode_assignment(ConsumerProtocolAssignment()),
                encode_assignment(ConsumerProtocolAssignment(user_data=b"x")),
                GARBAGE,
            )
        )
        instance_id = self._instance()
        body = SyncGroupRequest(
            group_id=self._group(),
            generation_id=self._number(),
            member_id=self._id(),
            group_instance_id=instance_id,
            protocol_type="x" if self.rng.random() < 0.1 else self.kind,
            protocol_name="y" if self.rng.random() < 0.1 else "range",
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=content)
                for one in members or ()
            ],
        )
        await self._ask(body, 5, self.rng.choice(JOIN_MS))

    async def beat(self) -> None:
        """Send a heartbeat."""
        body = HeartbeatRequest(
            group_id=self._group(),
            generation_id=self._number(),
            member_id=self._id(),
            group_instance_id=self._instance(),
        )
        await self._ask(body, 3)

    async def leave(self) -> None:
        """Leave, or let others leave."""
        if self.rng.random() < 0.4:
            members = [
                MemberIdentity(member_id=self._id(), group_instance_id=self._instance())
                for _ in range(self.rng.choice((1, 2)))
            ]
            body = LeaveGroupRequest(group_id=self._group(), member_id="", members=members)
            await self._ask(body, 3)

    async def commit(self) -> None:
        """Commit an offset, perhaps twice in one request."""
        name = self.rng.choice([*self.topics, "no.topic"])
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name=name, topic_id=bytes(16), partitions=[partition])
        body = OffsetCommitRequest(
            group_id=self._group(),
            generation_id_or_member_epoch=self._number(),
            member_id=self._id(),
            group_instance_id=self._instance(),
            topics=[topic, topic] if self._errs() else [topic],
        )
        await self._ask(body, 7)

    async def forget(self) -> None:
        """Delete an offset."""
        name = self.rng.choice([*self.topics, "no.topic"])
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name=name, partitions=[partition])
        await self._ask(OffsetDeleteRequest(group_id=self._group(), topics=[topic]))

    # -- Members of the consumer protocol ---------------------------------------------------------

    async def consume(self) -> None:
        """Send a heartbeat of a consumer group, often the first one."""
        joins = self.rng.random() < 0.5
        if joins and self._errs():
            self.member_id = f"{self.caller.name}-{self.rng.randrange(4)}"
        epoch = 0 if joins else self.rng.choice((self._number(), self._number(), -3))
        if not epoch:  # a consumer group takes any id, and then it is somebody's again
            self.fenced -= {one for one in self.fenced if one[1] == self.member_id}
        owned: Any = [TopicPartitions(topic_id=bytes(16), partitions=[0])]
        body = ConsumerGroupHeartbeatRequest(
            group_id=self._group(),
            member_id=self._id() if epoch else self.member_id,
            member_epoch=epoch,
            instance_id=self._instance(),
            rack_id=self.rng.choice((None, None, "r", "" if self._errs() else None)),
            rebalance_timeout_ms=-1 if self._errs() else 500,
            subscribed_topic_names=self.rng.choice((self.topics, [], None)),
            subscribed_topic_regex=self.rng.choice((None, None, ".*", "(" if self._errs() else "")),
            server_assignor="best" if self.rng.random() < 0.1 else None,
            topic_partitions=self.rng.choice((owned, None)) if self._errs() else [],
        )
        answer = await self._ask(body)
        if answer is not None:
            self.member_id, self.generation = answer.member_id, answer.member_epoch
            self.instance_id = body.instance_id

    async def quit(self) -> None:
        """Leave a consumer group, for good or for a while."""
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self._id(),
            member_epoch=self.rng.choice((-1, -2)),
            instance_id=self._instance(),
        )
        await self._ask(body)


_FOR_MEMBERS: Final = (HeartbeatRequest, SyncGroupRequest, ConsumerGroupHeartbeatRequest)
_STATIC: Final = (HeartbeatRequest, SyncGroupRequest, OffsetCommitRequest)


def _generation(body: Any) -> int:
    """Return the generation or epoch that a request names, -1 if it names none."""
    if isinstance(body, OffsetCommitRequest):
        return body.generation_id_or_member_epoch
    if isinstance(body, ConsumerGroupHeartbeatRequest):
        return body.member_epoch
    return int(getattr(body, "generation_id", -1))


async def run(context: Context, plan: ClientPlan) -> None:
    """Be a party."""
    party: list[Rude] = []
    fenced: set[tuple[str, str, int]] = set()
    group = f"{PREFIX}-{plan.name}"
    for number in range(CALLERS):
        party.append(Rude(Caller(context, plan, suffix=f" {number}"), party, group, fenced))
    first, *others = party
    actors: list[Actor] = []
    try:
        actors += [
            context.world.spawn(other.caller.name, other.act(plan.steps)) for other in others
        ]
        await first.act(plan.steps)
        while not all(actor.ended.is_set for actor in actors):
            await context.world.sleep_ms(50)
    finally:
        for actor in actors:
            actor.stop()
        for one in party:
            one.caller.wire.close()
