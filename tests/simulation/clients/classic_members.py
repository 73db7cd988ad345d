"""Members of classic groups, as consumers are: they join, sync, stay, die, come back and commit.

The leader assigns for real: each partition of the topics that members subscribe to goes to one of
those. Some members are static, some subscribe to other topics later, some offer more protocols.
A member that dies says nothing; its session ends in virtual time.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.committed import Member, Place, commit, fetch
from tests.simulation.context import Context
from tests.simulation.group_events import Acted, Joined, Partition, Pulse, Synced
from tests.simulation.plan import ClientPlan

CLASSIC_GROUPS: Final = ("classic-0", "classic-0", "classic-1")
STATIC: Final = 5  # the first version of JoinGroup with static members
STATIC_SYNC: Final = 3  # ... of SyncGroup, Heartbeat and LeaveGroup
MANY_KEYS: Final = 4  # the first version of FindCoordinator with many keys
SESSIONS_MS: Final = (500, 1_000, 3_000, 10_000)
REBALANCES_MS: Final = (300, 2_000, 6_000)
HURRIES_MS: Final = (1, 20, 200)  # of a leader that does not wait for its answer
OFFERS: Final = (
    ("range",),
    ("range", "roundrobin"),
    ("roundrobin", "range"),
    ("cooperative-sticky", "range"),
)
STILL_A_MEMBER: Final = frozenset(
    {
        0,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class ClassicMember:
    """One member of one group."""

    def __init__(self, caller: Caller, group: str, instance_id: str | None = None) -> None:
        rng = caller.rng
        self.caller = caller
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        lowest_ms = caller.context.loaded.config.group_min_session_timeout_ms
        self.session_ms = max(rng.choice(SESSIONS_MS), lowest_ms)
        self.rebalance_ms = rng.choice(REBALANCES_MS)
        self.offer = rng.choice(OFFERS)
        self.is_calm = caller.chance(0.2)  # does nothing but stay
        self.topics: list[str] = []  # subscribed to; empty: not chosen yet
        self.owned: list[Place] = []
        self._old_generation = -1

    async def step(self) -> None:
        """Do one thing that a member may do."""
        if self.generation < 0:
            await self.join()
            return
        chance = self.caller.rng.random()
        if chance < 0.35 or self.is_calm:
            await self.beat()
        elif chance < 0.65:
            await self.commit()
        elif chance < 0.75:
            await self.read()
        elif chance < 0.83:
            await self.join()
        elif chance < 0.88:
            await self.change()
        elif chance < 0.93:
            await self.leave()
        elif chance < 0.96:
            await self.die()
        else:
            await self.commit_late()

    def version_of(self, cls: Any) -> int:
        """Return a version that has what this member says."""
        lowest = 0
        if self.instance_id is not None:
            lowest = STATIC if cls is JoinGroupRequest else STATIC_SYNC
        return self.caller.version_of(cls, lowest)

    def _act(self) -> None:
        who, at = self.caller.name, self.caller.now_ns
        self.caller.record.group_events.append(
            Acted(who=who, group=self.group, began_ns=at, instance_id=self.instance_id or "")
        )

    async def find(self) -> None:
        """Find the coordinator, as clients do before they join."""
        version = self.caller.version_of(FindCoordinatorRequest)
        body = FindCoordinatorRequest(key=self.group, coordinator_keys=[self.group])
        answer = await self.caller.ask(body, version, what=self.group)
        if answer is None:
            return
        for one in [answer] if version < MANY_KEYS else answer.coordinators:
            if one.error_code == 0 and (one.node_id < 0 or not one.host):
                self.caller.record.fail(self.caller.name, f"no coordinator of {self.group}")

    async def join(self) -> None:
        """Join or join again, and sync."""
        caller = self.caller
        if not self.member_id or caller.chance(0.1):
            await self.find()
        if not self.topics:
            known = [topic.name for topic in await caller.topics()]
            self.topics = caller.rng.sample(known, min(len(known), caller.rng.randint(1, 3)))
        body = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._subscription())
                for name in self.offer
            ],
            reason="the seed wants it",
        )
        self._act()
        event = Joined(
            who=caller.name,
            group=self.group,
            began_ns=caller.now_ns,
            member_id=self.member_id,
            instance_id=self.instance_id or "",
        )
        caller.record.group_events.append(event)
        answer = await caller.ask(body, self.version_of(JoinGroupRequest), what=self.group)
        if answer is None:
            self.generation = -1
            return
        event.answered(caller.now_ns, answer.error_code)
        event.member_id = self.member_id or answer.member_id
        event.generation = answer.generation_id
        event.members = frozenset(member.member_id for member in answer.members)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if not self._took(answer.error_code):
            return
        self.member_id = answer.member_id
        if caller.chance(0.05):
            await self.caller.rest(self.rebalance_ms)  # the others wait for its sync
        await self._sync(answer)

    def _subscription(self) -> bytes:
        owned = [TopicPartition(topic=topic.name, partitions=[at]) for topic, at in self.owned]
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=self.topics, owned_partitions=owned, generation_id=self.generation
            ),
            self.caller.rng.randint(0, 3),
        )

    async def _sync(self, joined: Any) -> None:
        caller = self.caller
        is_leader = joined.leader == joined.member_id and bool(joined.members)
        hurries = is_leader and caller.chance(0.2)
        event = await self._event(joined, is_leader=is_leader)
        answer = await self._ask_to_sync(joined, event, hurries=hurries)
        if answer is None and hurries:  # another assignment while the first is written
            event = await self._event(joined, is_leader=True)
            answer = await self._ask_to_sync(joined, event, hurries=False)
        if answer is None:
            self.generation = -1
            return
        event.answered(caller.now_ns, answer.error_code)
        caller.record.told(event)
        if not self._took(answer.error_code):
            return
        try:
            told = decode_assignment(answer.assignment) if answer.assignment else None
        except DecodeError as error:
            caller.record.fail(caller.name, f"{self.group}: an assignment: {error}")
            return
        named = told.assigned_partitions if told is not None else []
        event.share = frozenset((one.topic, number) for one in named for number in one.partitions)
        by_name = {topic.name: topic for topic in caller.known}
        self.owned = [(by_name[n], at) for n, at in sorted(event.share) if n in by_name]
        if self.generation != joined.generation_id:
            self._old_generation = self.generation
        self.generation = joined.generation_id

    async def _event(self, joined: Any, *, is_leader: bool) -> Synced:
        shares = await self._assign(joined) if is_leader else None
        event = Synced(
            who=self.caller.name,
            group=self.group,
            began_ns=self.caller.now_ns,
            generation=joined.generation_id,
            member_id=self.member_id,
            instance_id=self.instance_id or "",
            leader=joined.leader,
            shares=shares,
        )
        self.caller.record.group_events.append(event)
        return event

    async def _ask_to_sync(self, joined: Any, event: Synced, *, hurries: bool) -> Any:
        caller = self.caller
        body = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(share))
                for member_id, share in (event.shares or {}).items()
            ],
        )
        timeout_ms = caller.rng.choice(HURRIES_MS) if hurries else 0
        what = f"{self.group} {joined.generation_id}"
        version = self.version_of(SyncGroupRequest)
        return await caller.ask(body, version, timeout_ms=timeout_ms, what=what)

    async def _assign(self, joined: Any) -> dict[str, frozenset[Partition]]:
        """Share all partitions among the members that subscribe to them."""
        wishes: dict[str, list[str]] = {}
        for member in joined.members:
            try:
                topics = decode_subscription(member.metadata).topics
            except DecodeError as error:
                self.caller.record.fail(self.caller.name, f"{self.group}: metadata: {error}")
                topics = []
            for name in topics:
                wishes.setdefault(name, []).append(member.member_id)
        shares: dict[str, set[Partition]] = {member.member_id: set() for member in joined.members}
        for topic in await self.caller.topics():
            for number in range(topic.count if topic.name in wishes else 0):
                shares[self.caller.rng.choice(wishes[topic.name])].add((topic.name, number))
        return {member_id: frozenset(share) for member_id, share in shares.items()}

    async def beat(self) -> None:
        """Send a heartbeat."""
        body = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        event = Pulse(
            who=self.caller.name,
            group=self.group,
            began_ns=self.caller.now_ns,
            generation=self.generation,
            member_id=self.member_id,
            instance_id=self.instance_id or "",
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
        self.caller.record.group_events.append(event)
        what = f"{self.group} {self.generation}"
        answer = await self.caller.ask(body, self.version_of(HeartbeatRequest), what=what)
        if answer is not None:
            event.answered(self.caller.now_ns, answer.error_code)
            self._took(answer.error_code)

    async def commit(self) -> None:
        """Commit offsets of owned partitions."""
        if not self.owned:
            return
        places = self.owned[: self.caller.rng.randint(1, 4)]
        me = Member(self.member_id, self.generation, self.instance_id)
        for code in sorted(await commit(self.caller, self.group, places, me)):
            self._took(code)

    async def commit_late(self) -> None:
        """Commit as a member of an older generation: it must be refused."""
        if self._old_generation >= 0 and self.owned:
            me = Member(self.member_id, self._old_generation, self.instance_id)
            await commit(self.caller, self.group, self.owned[:2], me)

    async def read(self) -> None:
        """Read committed offsets."""
        await fetch(self.caller, [self.group], self.owned or await self.caller.some_partitions())

    async def change(self) -> None:
        """Subscribe to other topics, and join with them."""
        self.topics = []
        self.offer = self.caller.rng.choice(OFFERS)
        await self.join()

    async def leave(self) -> None:
        """Leave the group."""
        version = self.version_of(LeaveGroupRequest)
        me = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        body = LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=[me])
        self._act()
        await self.caller.ask(body, version, what=self.group)
        self.forget()

    async def die(self) -> None:
        """Say nothing for longer than a session, and mostly come back as somebody else."""
        self.caller.wire.reset()
        await self.caller.rest(2 * self.session_ms)
        if self.caller.chance(0.6):
            self.forget()

    def forget(self) -> None:
        """Be no member any more."""
        self.member_id = ""
        self.generation = -1
        self.owned = []

    def _took(self, code: int) -> bool:
        if code in FORGOTTEN:
            self.forget()
        elif code not in STILL_A_MEMBER:
            self.generation = -1
        return code == 0


def _encoded(share: frozenset[Partition]) -> bytes:
    named: dict[str, list[int]] = {}
    for topic, number in sorted(share):
        named.setdefault(topic, []).append(number)
    assigned = [TopicPartition(topic=topic, partitions=at) for topic, at in named.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned))


async def run(context: Context, plan: ClientPlan) -> None:
    """Be a member of a classic group; see the module."""
    caller = Caller(context, plan)
    is_static = caller.chance(0.4)  # members that take one another's place
    instance_id = f"static-{caller.rng.randint(0, 1)}" if is_static else None
    member = ClassicMember(caller, caller.rng.choice(CLASSIC_GROUPS), instance_id)
    for _ in caller.steps:
        await member.step()
        await caller.pause()
    caller.wire.close()
