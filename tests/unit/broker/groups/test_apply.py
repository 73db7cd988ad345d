"""What the log restores: groups, their deletions, and records of older brokers."""

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
    OffsetCommitKey,
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


def test_a_group_is_restored() -> None:
    group = replayed(*draft().records).get("g")
    assert isinstance(group, ConsumerGroup)
    assert (group.state.epoch, list(group.state.members)) == (3, ["m"])


def test_a_deleted_group_is_not_restored() -> None:
    made = draft()
    made.remove_group()
    assert replayed(*made.records).groups == {}


def test_tombstones_of_missing_groups_are_ignored() -> None:
    gone = (
        (ConsumerGroupMetadataKey(group_id="g"), None),
        (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), None),
    )
    assert replayed(*gone).groups == {}


def test_a_consumer_group_replaces_an_older_classic_group_but_its_tombstones_do_not() -> None:
    registry = Registry()
    classic = ClassicGroup("g", HOST)
    registry.put(classic)
    replayed((ConsumerGroupMetadataKey(group_id="g"), None), registry=registry)
    assert registry.get("g") is classic
    replayed(*draft().records, registry=registry)
    assert isinstance(registry.get("g"), ConsumerGroup)


def test_topic_records_of_kafka_4_0_are_skipped() -> None:
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    assert replayed((key, ConsumerGroupPartitionMetadataValue())).groups == {}


def test_every_declared_record_type_is_handled() -> None:
    assert {*APPLY, OffsetCommitKey} == {key for key, _ in RECORDS.values()}
