"""Targets of large groups: computed in a thread, and applied to a group that may have changed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from broker.groups.consumer import targets
from broker.groups.consumer.assignors import PartitionsByTopic, assign_uniform
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.targets import SMALL_MAX, TargetSearch
from broker.groups.group import Caller
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support import failures
from tests.support.broker_rig import Rig
from tests.support.fake_topics import FakeTopics, topic_id
from tests.support.group_host import FakeHost
from tests.support.group_rig import find
from tests.support.rig_client import ask, create

CALLER = Caller("client", "/127.0.0.1", 1)
COUNT = SMALL_MAX + 1


class House:
    """A group that reads `a`, whose partitions are too many to assign on the loop."""

    def __init__(self, partition_count: int = COUNT) -> None:
        self.host = FakeHost(group_consumer_migration_policy="disabled")
        self.host.topics = FakeTopics(a=partition_count)
        self.group = ConsumerGroup("g", self.host)
        self.owned: dict[str, set[int]] = {}
        self.epochs: dict[str, int] = {}

    def beat(self, member_id: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        owned = sorted(self.owned.setdefault(member_id, set()))
        answers: list[ConsumerGroupHeartbeatResponse] = []
        said.setdefault("member_epoch", self.epochs.get(member_id, 0))
        body = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member_id,
            topic_partitions=[TopicPartitions(topic_id=topic_id("a"), partitions=owned)]
            if owned
            else [],
            **said,
        )
        self.group.consumer_group_heartbeat(body, CALLER, answers.append)
        self.epochs[member_id] = answers[0].member_epoch
        if answers[0].assignment is not None:
            self.owned[member_id] = {
                number
                for topic in answers[0].assignment.topic_partitions
                for number in topic.partitions
            }
        return answers[0]

    def join(self, member_id: str, instance_id: str | None = None) -> None:
        self.beat(
            member_id,
            member_epoch=0,
            instance_id=instance_id,
            subscribed_topic_names=["a"],
            rebalance_timeout_ms=60_000,
        )

    def compute(self) -> None:
        """Run the calls that the pool has now."""
        calls, self.host.computing = self.host.computing, []
        for call in calls:
            call()


def test_few_partitions_are_assigned_at_once() -> None:
    house = House(partition_count=SMALL_MAX - 1)
    house.join("m1")
    assert house.host.computing == []
    assert len(house.owned["m1"]) == SMALL_MAX - 1


def test_many_partitions_are_assigned_in_the_pool() -> None:
    house = House()
    house.join("m1")
    assert (house.epochs["m1"], house.owned["m1"]) == (1, set())
    assert house.group.state_name == "Assigning"
    house.compute()
    house.beat("m1")
    assert (house.epochs["m1"], len(house.owned["m1"])) == (2, COUNT)
    assert house.group.state_name == "Stable"
    assert house.host.computing == []


def test_computations_of_targets_run_one_after_the_other() -> None:
    house = House()
    house.join("m1")
    house.join("m2")
    house.beat("m1")
    assert len(house.host.computing) == 1
    house.compute()  # for the epoch of m1 alone
    house.beat("m1")
    assert (house.epochs["m1"], len(house.owned["m1"])) == (2, COUNT)
    house.compute()  # for both
    assert house.host.computing == []
    for _ in range(3):
        for member_id in ("m1", "m2"):
            house.beat(member_id)
    assert house.epochs == {"m1": 3, "m2": 3}
    assert house.owned["m1"] | house.owned["m2"] == set(range(COUNT))
    assert not house.owned["m1"] & house.owned["m2"]


def test_the_target_of_a_member_that_left_is_dropped() -> None:
    house = House()
    house.join("m1")
    house.join("m2")
    house.compute()
    house.beat("m2", member_epoch=-1)
    house.compute()  # for both members, one of which has left
    assert set(house.group.state.targets) == {"m1"}
    house.compute()
    house.beat("m1")
    assert len(house.owned["m1"]) == COUNT


def test_the_target_of_a_replaced_static_member_goes_to_its_successor() -> None:
    house = House()
    house.join("m1", instance_id="one")
    house.beat("m1", member_epoch=-2, instance_id="one")
    house.join("m2", instance_id="one")
    house.compute()
    house.beat("m2", instance_id="one")
    assert len(house.owned["m2"]) == COUNT


def test_a_dead_group_applies_no_targets() -> None:
    house = House()
    house.join("m1")
    house.group.removed(ErrorCode.NOT_COORDINATOR)
    written = len(house.host.records)
    house.compute()
    assert len(house.host.records) == written
    assert house.host.computing == []


def test_targets_that_come_after_those_of_a_later_epoch_are_dropped() -> None:
    house = House()
    house.join("m1")
    house.host.topics.set("a", 4)  # created again: few enough now to assign at once
    house.group.topics_changed("a")
    house.join("m2")
    for _ in range(3):
        for member_id in ("m1", "m2"):
            house.beat(member_id)
    assert house.epochs == {"m1": 3, "m2": 3}
    targets_now = house.group.state.targets
    house.compute()  # for m1 alone, with the partitions of before
    assert (house.group.state.target_epoch, house.group.state.targets) == (3, targets_now)
    assert house.host.computing == []
    house.beat("m1")
    assert house.epochs["m1"] == 3
    assert house.owned["m1"] | house.owned["m2"] == set(range(4))
    assert house.group.state_name == "Stable"


def test_targets_that_cannot_be_written_are_computed_again_at_the_next_heartbeat(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House()
    house.join("m1")
    house.host.refuses = ErrorCode.NOT_COORDINATOR
    house.compute()
    assert "group g: new targets not written" in caplog.text
    house.beat("m1")
    house.compute()
    house.beat("m1")
    assert len(house.owned["m1"]) == COUNT


def test_a_classic_member_is_asked_to_rejoin_only_once_there_is_a_target() -> None:
    house = House()
    house.join("m1")
    assert house.group.membership.reachable_epoch == 1
    house.compute()
    assert house.group.membership.reachable_epoch == 2


async def beat(rig: Rig, epoch: int) -> ConsumerGroupHeartbeatResponse:
    joins: dict[str, Any] = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000}
    body = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        topic_partitions=[],
        **({} if epoch else joins),
    )
    answer: ConsumerGroupHeartbeatResponse = await ask(rig, body, 1)
    return answer


async def until_it_has_all(rig: Rig, epoch: int) -> None:
    async with asyncio.timeout(60):
        while epoch < 2:
            await asyncio.sleep(0.01)
            epoch = (answer := await beat(rig, epoch)).member_epoch
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]


async def test_a_broker_computes_targets_off_its_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an unexpected failure of the computation, the group continues."""
    rig = Rig(tmp_path)
    await create(rig, count=4)
    await find(rig)
    threads: list[threading.Thread] = []

    def assign(*facts: Any) -> dict[str, PartitionsByTopic]:
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise RuntimeError("the first search fails")
        return assign_uniform(*facts)

    monkeypatch.setattr(targets, "SMALL_MAX", 0)
    monkeypatch.setitem(targets.ASSIGNORS, "uniform", assign)
    joined = await beat(rig, 0)
    assert joined.member_epoch == 1
    await until_it_has_all(rig, 1)
    assert threading.main_thread() not in threads
    assert len(threads) == 2
    (told,) = failures.take()
    assert "the first search fails" in told
    await rig.close()


def test_a_computation_reads_a_copy_that_does_not_change() -> None:
    house = House()
    house.join("m1")
    searched = house.group.state
    members = dict(searched.members)
    house.join("m2")
    assert house.group.state is not searched
    assert searched.members == members
    assert TargetSearch(searched, {"a": (topic_id("a"), 2)}, "range").run() == {
        "m1": {topic_id("a"): frozenset({0, 1})}
    }
