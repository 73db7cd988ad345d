"""Members against the broker's own rules, with answers lost and reordered: never two owners.

The client's `Membership` on one side, the broker's heartbeats (broker/groups/consumer) on the
other. Members join, leave, die and are fenced, requests and answers are lost, and a member revokes
and takes partitions at random moments. No partition ever has two members that may read it; and
when all members have had time, all partitions are assigned.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from random import Random

import pytest

from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_heartbeat import heartbeat, leave
from broker.groups.consumer.member_steps import StepContext, remove
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from client.msgpack.membership import MemberSettings, Membership, State, Subscription
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.fake_topics import FakeTopics, topic_id

NAMED = {topic_id("a"), topic_id("b")}
CALLER = Caller("client", "/127.0.0.1", 1)
STEPS = 300


class World:
    """A group of topics `a` (4 partitions) and `b` (3), and its members."""

    def __init__(self, seed):
        self.chance = Random(seed)
        self.state = ConsumerState("g")
        self.topics = FakeTopics(a=4, b=3)
        self.members = []
        self.now_ms = 0
        self.count = 0

    def context(self):
        return StepContext(self.topics, False, self.now_ms, ("uniform",), 100, 50, set())

    def join(self):
        self.count += 1
        settings = MemberSettings(group_id="g", member_id=f"m{self.count}")
        topics = self.chance.choice([("a",), ("a", "b"), ("b", "a")])
        self.members.append(Membership(settings, Subscription(topics), self.now_ms))

    def serve(self, body):
        """Answer as the broker would."""
        told = dict(body)
        told["topic_partitions"] = (
            None
            if told.get("topic_partitions") is None
            else [TopicPartitions(**one) for one in told["topic_partitions"]]
        )
        request = ConsumerGroupHeartbeatRequest(**told)
        draft = Draft(self.state)
        try:
            if request.member_epoch < 0:
                leave(draft, request, self.context())
                response = ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
            else:
                response = heartbeat(draft, request, request.member_id, CALLER, self.context())
        except GroupError as error:
            return asdict(ConsumerGroupHeartbeatResponse(error_code=error.code))
        self.state = draft.state
        return asdict(response)

    def beat(self, member, *, safe=False):
        body = member.request(self.now_ms)
        if body is None:
            return
        fate = 9 if safe else self.chance.randrange(10)
        if fate == 0:  # the request is lost
            member.unanswered(self.now_ms)
            return
        answer = self.serve(body)
        if fate == 1:
            member.unanswered(self.now_ms)
        else:
            member.answered(answer, self.now_ms)

    def reconcile(self, member):
        member.take_loss()
        change = member.change(NAMED)
        if change is not None:
            member.give_up(change.revoked, self.now_ms)
            if self.chance.random() < 0.8:
                member.take(change.assigned, self.now_ms)

    def remove(self, member):
        """Expire a member's session in the broker; the member may not read on."""
        if member.settings.member_id in self.state.members:
            draft = Draft(self.state)
            remove(draft, [member.settings.member_id], self.context())
            self.state = draft.state

    def step(self):
        self.now_ms += self.chance.randrange(200)
        kind = self.chance.randrange(40)
        if kind == 0 and len(self.members) < 6:
            self.join()
        if not self.members:
            return
        member = self.chance.choice(self.members)
        member.polled(self.now_ms)
        if kind == 1:  # leaves cleanly
            body = member.leave()
            if body is not None:
                self.serve(body)
            self.members.remove(member)
        elif kind == 2:  # is killed
            self.members.remove(member)
            self.remove(member)
        elif kind == 3:  # learns from a commit that its session has expired
            self.remove(member)
            member.disowned()
        elif kind % 2:
            self.beat(member)
        else:
            self.reconcile(member)

    def owners(self):
        return Counter(
            partition for member in self.members if member.is_member for partition in member.owned
        )


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_ever_has_two_owners_and_each_ends_with_one(seed):
    world = World(seed)
    world.join()
    for _ in range(STEPS):
        world.step()
        assert max(world.owners().values(), default=0) <= 1
    world.join()
    world.members[-1].subscribe(Subscription(("a", "b")), world.now_ms)
    for _ in range(30):
        world.now_ms += 1_000
        for member in world.members:
            member.polled(world.now_ms)
            world.beat(member, safe=True)
            member.take_loss()
            world.reconcile(member)
        assert max(world.owners().values(), default=0) <= 1
    assert all(member.state is State.MEMBER for member in world.members)
    assert len(world.owners()) == 7
    assert all(member.is_settled for member in world.members)
