"""One step per heartbeat: by a table, and by simulated groups with moving targets."""

from __future__ import annotations

import random

import pytest

from broker.groups.consumer.assignors import PartitionsByTopic, Subscriber, assign_uniform
from broker.groups.consumer.consumer_member import Assigned, ConsumerGroupMember
from broker.groups.consumer.reconciliation import Target, next_step
from protocol.group_records import MemberState

A, B = b"a" * 16, b"b" * 16
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


def owned(epoch: int, **topics: list[int]) -> Assigned:
    ids = {"a": A, "b": B}
    return {ids[name]: dict.fromkeys(numbers, epoch) for name, numbers in topics.items()}


def of(**topics: list[int]) -> PartitionsByTopic:
    return {topic_id: frozenset(numbers) for topic_id, numbers in owned(0, **topics).items()}


def member(
    epoch: int, assigned: Assigned, state: MemberState = STABLE, revoking: Assigned | None = None
) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned=assigned,
        pending_revocation=revoking or {},
    )


def target(
    epoch: int,
    partitions: PartitionsByTopic,
    *,
    taken: PartitionsByTopic | None = None,
    subscribed: tuple[bytes, ...] = (A, B),
) -> Target:
    def is_free(topic_id: bytes, partition: int) -> bool:
        return partition not in (taken or {}).get(topic_id, ())

    return Target(epoch=epoch, partitions=partitions, subscribed=subscribed, is_free=is_free)


CASES = {
    "nothing new": (
        member(5, owned(3, a=[0])), target(5, of(a=[0])), None, None,
    ),
    "a new target that is all free": (
        member(5, owned(3, a=[0])), target(6, of(a=[0, 1])), None,
        (6, STABLE, {A: {0: 3, 1: 6}}, {}),
    ),
    "the first target of a new member": (
        member(0, {}), target(1, of(a=[0, 1])), of(),
        (1, STABLE, owned(1, a=[0, 1]), {}),
    ),
    "something to give up: stays in its epoch": (
        member(5, owned(3, a=[0, 1])), target(6, of(a=[0])), of(a=[0, 1]),
        (5, UNREVOKED, owned(3, a=[0]), owned(3, a=[1])),
    ),
    "something to give up, and the member did not say what it has": (
        member(5, owned(3, a=[0, 1])), target(6, of(a=[0])), None,
        (5, UNREVOKED, owned(3, a=[0]), owned(3, a=[1])),
    ),
    "something to give up that it has given up already": (
        member(5, owned(3, a=[0, 1])), target(6, of(a=[0])), of(a=[0]),
        (6, STABLE, owned(3, a=[0]), {}),
    ),
    "still giving up": (
        member(5, owned(3, a=[0]), UNREVOKED, owned(3, a=[1])), target(6, of(a=[0])), of(a=[0, 1]),
        None,
    ),
    "given up: on to the target's epoch": (
        member(5, owned(3, a=[0]), UNREVOKED, owned(3, a=[1])), target(7, of(a=[0, 2])), of(a=[0]),
        (7, STABLE, {A: {0: 3, 2: 7}}, {}),
    ),
    "given up, and the newest target gives it back": (
        member(5, owned(3, a=[0]), UNREVOKED, owned(3, a=[1])),
        target(7, of(a=[0, 1]), taken=of(a=[1])), of(a=[0]),
        (7, STABLE, {A: {0: 3, 1: 7}}, {}),
    ),
    "others have some of it": (
        member(5, owned(3, a=[0])), target(6, of(a=[0, 1, 2]), taken=of(a=[2])), None,
        (6, UNRELEASED, {A: {0: 3, 1: 6}}, {}),
    ),
    "others have all of it": (
        member(5, owned(3, a=[0])), target(6, of(a=[0, 2]), taken=of(a=[2])), None,
        (6, UNRELEASED, owned(3, a=[0]), {}),
    ),
    "what it waited for is free": (
        member(6, owned(3, a=[0]), UNRELEASED), target(6, of(a=[0, 2])), None,
        (6, STABLE, {A: {0: 3, 2: 6}}, {}),
    ),
    "a topic it no longer asks for goes before there is a target": (
        member(5, owned(3, a=[0], b=[1])), target(5, of(a=[0], b=[1]), subscribed=(A,)),
        of(a=[0], b=[1]),
        (5, UNREVOKED, owned(3, a=[0]), owned(3, b=[1])),
    ),
    "a topic it no longer asks for and no longer owns": (
        member(5, owned(3, a=[0], b=[1])), target(5, of(a=[0], b=[1]), subscribed=(A,)), of(a=[0]),
        (5, STABLE, owned(3, a=[0]), {}),
    ),
    "one more topic to give up while giving up": (
        member(5, owned(3, a=[0], b=[1]), UNREVOKED, owned(3, a=[1])),
        target(6, of(a=[0]), subscribed=(A,)), of(a=[0, 1], b=[1]),
        (5, UNREVOKED, owned(3, a=[0]), owned(3, a=[1], b=[1])),
    ),
    "a target of a topic it no longer asks for": (
        member(5, owned(3, a=[0])), target(6, of(a=[0], b=[0]), subscribed=(A,)), None,
        (6, STABLE, owned(3, a=[0]), {}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str) -> None:
    before, goal, reported, expected = CASES[name]
    after = next_step(before, goal, reported)
    if expected is None:
        assert after is before
        return
    assert (after.member_epoch, after.state, after.assigned, after.pending_revocation) == expected
    assert after.previous_member_epoch == before.member_epoch


class Simulation:
    """A group whose clients revoke late, and do not always name the partitions they own."""

    def __init__(self, seed: int) -> None:
        self.randomness = random.Random(seed)
        self.counts = {A: self.randomness.randint(1, 9), B: self.randomness.randint(1, 9)}
        self.members: dict[str, ConsumerGroupMember] = {}
        self.reads: dict[str, set[tuple[bytes, int]]] = {}
        self.goals: dict[str, PartitionsByTopic] = {}
        self.epoch = 0

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        return not any(
            partition in held.get(topic_id, ())
            for other in self.members.values()
            for held in (other.assigned, other.pending_revocation)
        )

    def change(self) -> None:
        """Let a member join or leave, which makes a new target."""
        if self.members and self.randomness.random() < 0.4:
            gone = self.randomness.choice(sorted(self.members))
            del self.members[gone], self.reads[gone], self.goals[gone]
        else:
            member_id = f"m{self.epoch}"
            self.members[member_id] = ConsumerGroupMember(member_id=member_id)
            self.reads[member_id] = set()
        self.epoch += 1
        subscribers = {
            member_id: Subscriber(None, frozenset({A, B}), self.goals.get(member_id, {}))
            for member_id in self.members
        }
        self.goals = assign_uniform(subscribers, self.counts)

    def heartbeat(self, member_id: str, *, gives_up: bool, says: bool) -> None:
        """Let the client apply its last answer, and send it the next one."""
        told = self.told(member_id)
        if gives_up:
            self.reads[member_id] &= told
        reported: dict[bytes, frozenset[int]] = {}
        for topic_id, partition in self.reads[member_id]:
            reported[topic_id] = reported.get(topic_id, frozenset()) | {partition}
        goal = Target(
            epoch=self.epoch,
            partitions=self.goals[member_id],
            subscribed=(A, B),
            is_free=self.is_free,
        )
        self.members[member_id] = next_step(
            self.members[member_id], goal, reported if says else None
        )
        self.reads[member_id] |= self.told(member_id)
        held = [partition for client in self.reads.values() for partition in client]
        assert len(held) == len(set(held)), "two members read one partition"

    def told(self, member_id: str) -> set[tuple[bytes, int]]:
        return {
            (topic_id, partition)
            for topic_id, numbers in self.members[member_id].assigned.items()
            for partition in numbers
        }


@pytest.mark.parametrize("seed", range(30))
def test_no_partition_ever_has_two_owners_and_all_reach_their_target(seed: int) -> None:
    group = Simulation(seed)
    chance = group.randomness.random
    for _ in range(80):
        if chance() < 0.3 or not group.members:
            group.change()
        else:
            member_id = group.randomness.choice(sorted(group.members))
            group.heartbeat(member_id, gives_up=chance() < 0.5, says=chance() < 0.7)
    for _ in range(4):
        for member_id in sorted(group.members):
            group.heartbeat(member_id, gives_up=True, says=True)
    for member_id, settled in group.members.items():
        assert (settled.state, settled.member_epoch) == (STABLE, group.epoch)
        has = {topic_id: frozenset(numbers) for topic_id, numbers in settled.assigned.items()}
        assert has == group.goals[member_id]
        assert group.reads[member_id] == group.told(member_id)
