"""What comes back from the log: groups, their ends, and what older brokers wrote."""

from __future__ import annotations

from typing import Any

from broker.groups.apply import APPLY
from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.state import ConsumerState
from broker.groups.group import GroupRecord
from broker.groups.registry import Registry
from protocol.group_records import (
    RECORDS,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from tests.support.group_host import FakeHost

HOST: Any = FakeHost()


def replayed(*records: GroupRecord, registry: Registry | None = None) -> Registry:
    registry = registry or Registry()
    for key, value in records:
        APPLY[type(key)](registry, HOST, key, value)
    return registry


def draft() -> Draft:
    made = Draft(ConsumerState("g"))
    made.put_epoch(3, 5)
    made.put_member(ConsumerGroupMember(member_id="m"))
    return made


def test_a_group_comes_back() -> None:
    group = replayed(*draft().records).get("g")
    assert isinstance(group, ConsumerGroup)
    assert (group.state.epoch, list(group.state.members)) == (3, ["m"])


def test_a_group_that_was_deleted_does_not() -> None:
    made = draft()
    made.remove_group()
    assert replayed(*made.records).groups == {}


def test_tombstones_of_what_is_not_there_mean_nothing() -> None:
    gone = (
        (ConsumerGroupMetadataKey(group_id="g"), None),
        (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), None),
    )
    assert replayed(*gone).groups == {}


def test_it_takes_the_place_of_an_older_classic_group_and_its_tombstones_do_not() -> None:
    registry = Registry()
    classic = ClassicGroup("g", HOST)
    registry.put(classic)
    replayed((ConsumerGroupMetadataKey(group_id="g"), None), registry=registry)
    assert registry.get("g") is classic
    replayed(*draft().records, registry=registry)
    assert isinstance(registry.get("g"), ConsumerGroup)


def test_topics_as_kafka_4_0_wrote_them_are_passed_over() -> None:
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    assert replayed((key, ConsumerGroupPartitionMetadataValue())).groups == {}


def test_every_record_that_is_declared_is_known() -> None:
    assert set(APPLY) == {key for key, _ in RECORDS.values()}
