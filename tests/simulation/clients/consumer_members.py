"""Members of consumer groups (KIP-848): heartbeats that join, acknowledge step by step, and leave.

A member gives up at once, or after some heartbeats, what it shall no longer own, and takes what is
new. After an answer that got lost it says everything again. Some members are static and come back;
some subscribe with an expression. `run_mixed` moves between both protocols in one group.
"""

from __future__ import annotations

from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.simulation.clients.caller import Caller, Topic
from tests.simulation.clients.classic_members import STILL_A_MEMBER, ClassicMember
from tests.simulation.clients.committed import Member, Place, commit, fetch
from tests.simulation.clients.described import describe_consumer_groups
from tests.simulation.context import Context
from tests.simulation.group_events import Beat, Partition
from tests.simulation.plan import ClientPlan

CONSUMER_GROUPS: Final = ("consumer-0", "consumer-0", "consumer-1")
MIXED_GROUP: Final = "mixed"
WITH_EPOCHS: Final = 9  # the first version of OffsetCommit and OffsetFetch with epochs
WITH_REGEX: Final = 1
REBALANCES_MS: Final = (300, 2_000, 20_000)
ASSIGNORS: Final = (None, None, "uniform", "range", "sticky")
REGEXES: Final = (".*", "t.*", "[a-m].*", "topic-[0-9]", "(")


class ConsumerMember:
    """One member of one group."""

    def __init__(self, caller: Caller, group: str, instance_id: str | None = None) -> None:
        rng = caller.rng
        self.caller = caller
        self.group = group
        self.instance_id = instance_id
        self.session_ms = caller.context.loaded.config.group_consumer_session_timeout_ms
        self.rebalance_ms = rng.choice(REBALANCES_MS)
        self.regex: str | None = rng.choice(REGEXES) if caller.chance(0.2) else None
        self.assignor: str | None = rng.choice(ASSIGNORS)
        self.is_calm = caller.chance(0.2)  # does nothing but stay
        self.is_stubborn = caller.chance(0.15)  # gives nothing up
        self.topics: list[str] = []
        self.epoch = JOIN_EPOCH
        self.owned: set[Partition] = set()
        self.to_give_up: set[Partition] = set()
        self._says_all = True
        self._lives = 0
        self._old_epoch = -1
        self.member_id = self._new_id()

    def _new_id(self) -> str:
        self._lives += 1
        forged = "\nan ERROR" if self.caller.chance(0.1) else ""  # in the broker's log
        return f"{self.caller.name} {self._lives} {self.caller.rng.getrandbits(32):x}{forged}"

    async def step(self) -> None:
        """Do one thing that a member may do."""
        if self.epoch == JOIN_EPOCH:
            await self.beat()
            return
        chance = self.caller.rng.random()
        if chance < 0.55 or self.is_calm or (self.is_stubborn and self.to_give_up):
            await self.beat()
        elif chance < 0.72:
            await self.commit(self.epoch)
        elif chance < 0.77:
            await self.read()
        elif chance < 0.79:
            await describe_consumer_groups(self.caller, [self.group])
        elif chance < 0.81:
            await self.beat(max(self._old_epoch, 1))
        elif chance < 0.85:
            await self.change()
        elif chance < 0.92:
            await self.leave()
        elif chance < 0.94:
            await self.die()
        elif chance < 0.96:
            self._join_anew()  # with the id that it has
        else:
            await self.commit(self._old_epoch)

    async def beat(self, epoch: int | None = None) -> None:
        """Send a heartbeat, and obey its answer."""
        caller = self.caller
        lowest = WITH_REGEX if self.regex else 0
        version = caller.version_of(ConsumerGroupHeartbeatRequest, lowest)
        if epoch is None:
            epoch = self.epoch
        if epoch == JOIN_EPOCH:
            await self._prepare()
        is_late = 0 < epoch < self.epoch
        says_all = (self._says_all or epoch == JOIN_EPOCH) and not is_late
        if self.to_give_up and not self.is_stubborn and caller.chance(0.5):
            self.owned -= self.to_give_up
            self.to_give_up.clear()
        tells = says_all or caller.chance(0.3 if is_late or self.to_give_up else 0.8)
        owned = frozenset(self.owned) if tells else None
        event = Beat(
            who=caller.name,
            group=self.group,
            began_ns=caller.now_ns,
            member_id=self.member_id,
            instance_id=self.instance_id or "",
            epoch=epoch,
            owned=owned,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
        caller.record.group_events.append(event)
        body = self._body(epoch, owned, says_all=says_all)
        answer = await caller.ask(body, version, what=f"{self.group} {epoch}")
        if answer is None:
            self._says_all = True
            return
        event.answered(caller.now_ns, answer.error_code)
        if answer.error_code == 0:
            event.told_epoch = answer.member_epoch
            caller.record.told(event)
            if epoch >= 0:
                self._obey(event, answer)
        else:
            self._refused(answer.error_code)

    def _body(
        self, epoch: int, owned: frozenset[Partition] | None, *, says_all: bool
    ) -> ConsumerGroupHeartbeatRequest:
        partitions = None
        if owned is not None:
            by_id: dict[str, list[int]] = {}
            for topic_id, number in sorted(owned):
                by_id.setdefault(topic_id, []).append(number)
            partitions = [
                TopicPartitions(topic_id=bytes.fromhex(topic_id), partitions=numbers)
                for topic_id, numbers in by_id.items()
            ]
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            topic_partitions=partitions,
        )
        if says_all:
            body.rebalance_timeout_ms = self.rebalance_ms
            body.subscribed_topic_names = self.topics
            body.subscribed_topic_regex = self.regex
            body.server_assignor = self.assignor
        return body

    async def _prepare(self) -> None:
        caller = self.caller
        self.owned.clear()
        self.to_give_up.clear()
        if not self.topics or (caller.chance(0.1) and not self.is_calm):
            key = FindCoordinatorRequest(key=self.group, coordinator_keys=[self.group])
            await caller.ask(key, what=self.group)
            known = [topic.name for topic in await caller.look()]
            self.topics = caller.rng.sample(known, min(len(known), caller.rng.randint(1, 3)))

    def _obey(self, event: Beat, answer: Any) -> None:
        if self.epoch != answer.member_epoch:
            self._old_epoch = self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return
        self._says_all = False
        event.assigned = frozenset(
            (one.topic_id.hex(), number)
            for one in answer.assignment.topic_partitions
            for number in one.partitions
        )
        self.to_give_up = self.owned - event.assigned
        self.owned |= event.assigned

    def _refused(self, code: int) -> None:
        if code in STILL_A_MEMBER:
            self._says_all = True
            return
        if code == ErrorCode.UNSUPPORTED_ASSIGNOR:
            self.assignor = None
        if code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            self.regex = None
        if code == ErrorCode.FENCED_INSTANCE_ID or self.caller.chance(0.3):
            self.member_id = self._new_id()
        self._join_anew()

    def _join_anew(self) -> None:
        self.epoch = JOIN_EPOCH
        self._says_all = True
        self.owned.clear()
        self.to_give_up.clear()

    def places(self) -> list[Place]:
        """Return what it owns, as far as it knows the topics."""
        by_id: dict[str, Topic] = {topic.topic_id.hex(): topic for topic in self.caller.known}
        return [(by_id[one], number) for one, number in sorted(self.owned) if one in by_id]

    async def commit(self, epoch: int) -> None:
        """Commit offsets of owned partitions in an epoch, which may be an old one."""
        places = self.places()[: self.caller.rng.randint(1, 4)]
        if places and epoch >= 0:
            lowest = 0 if self.caller.chance(0.05) else WITH_EPOCHS
            me = Member(self.member_id, epoch, self.instance_id)
            await commit(self.caller, self.group, places, me, lowest)

    async def read(self) -> None:
        """Read committed offsets, as this member or as nobody."""
        places = self.places() or await self.caller.some_partitions()
        me = Member(self.member_id, self.epoch) if self.caller.chance(0.5) else Member()
        await fetch(self.caller, [self.group], places, me)

    async def change(self) -> None:
        """Subscribe to something else, and say so."""
        known = [topic.name for topic in await self.caller.look()]
        rng = self.caller.rng
        self.topics = rng.sample(known, min(len(known), rng.randint(0, 3)))
        self.regex = rng.choice(REGEXES[:-1]) if rng.random() < 0.3 else None
        self._says_all = True
        await self.beat()

    async def leave(self) -> None:
        """Leave: for good, or as a static member for a while."""
        is_static = self.instance_id is not None and self.caller.chance(0.6)
        await self.beat(LEAVE_STATIC_EPOCH if is_static else LEAVE_EPOCH)
        if self.caller.chance(0.3):
            await self.commit(self.epoch)  # which must be refused
        self._join_anew()
        self.member_id = self._new_id()

    async def die(self) -> None:
        """Say nothing for longer than a session."""
        self.caller.wire.reset()
        await self.caller.rest(1.5 * self.session_ms)
        if self.caller.chance(0.5):
            self._join_anew()
            self.member_id = self._new_id()


async def run(context: Context, plan: ClientPlan) -> None:
    """Be a member of a consumer group; see the module."""
    caller = Caller(context, plan)
    # A static id belongs to one client: another that took it would be refused again and again.
    instance_id = f"static {caller.name}" if caller.chance(0.3) else None
    member = ConsumerMember(caller, caller.rng.choice(CONSUMER_GROUPS), instance_id)
    for _ in caller.steps:
        await member.step()
        await caller.pause()
    caller.wire.close()


async def run_mixed(context: Context, plan: ClientPlan) -> None:
    """Be a member of one group in the one protocol, then in the other, again and again."""
    caller = Caller(context, plan)
    instance_id = f"static {caller.name}" if caller.chance(0.5) else None
    member: ClassicMember | ConsumerMember = ClassicMember(caller, MIXED_GROUP, instance_id)
    if caller.chance(0.5):
        member = ConsumerMember(caller, MIXED_GROUP, instance_id)
    for _ in caller.steps:
        if caller.chance(0.1):
            if caller.chance(0.7):
                await member.leave()
            if isinstance(member, ClassicMember):
                member = ConsumerMember(caller, MIXED_GROUP, instance_id)
            else:
                member = ClassicMember(caller, MIXED_GROUP, instance_id)
        await member.step()
        await caller.pause()
    caller.wire.close()
