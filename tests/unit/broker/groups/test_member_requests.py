"""A heartbeat finds or creates its group, whatever group has its id."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.group import Caller, Group
from broker.groups.member_requests import consumer_group_heartbeat
from broker.groups.registry import Registry
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.support.fake_topics import FakeTopics
from tests.support.group_host import FakeHost

SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["a"]))

ONE_MEMBER = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="old",
    members=[
        MemberMetadata(
            member_id="old",
            client_id="c",
            client_host="/h",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=SUBSCRIPTION,
        )
    ],
)


class Coordinator(FakeHost):
    """As much of broker.groups.coordinator.Coordinator as heartbeats need."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = FakeTopics(a=2)
        self.registry = Registry()

    def group(self, group_id: str) -> Group | None:
        return self.registry.get(group_id)

    def registry_of(self, group_id: str) -> Registry:
        assert group_id, "a request without a group"
        return self.registry

    def put(self, group: Group) -> None:
        self.registry.put(group)

    def ask(self, member_id: str, epoch: int, **said: Any) -> ConsumerGroupHeartbeatResponse:
        if epoch == 0:
            said = {
                "topic_partitions": [],
                "subscribed_topic_names": ["a"],
                "rebalance_timeout_ms": 1_000,
                **said,
            }
        answers: list[ConsumerGroupHeartbeatResponse] = []
        body = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **said
        )
        consumer_group_heartbeat(self, body, Caller("c", "/h", 1), answers.append)  # type: ignore[arg-type]
        (answer,) = answers
        return answer


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_joining_member_creates_the_group(coordinator: Coordinator) -> None:
    assert coordinator.ask("m1", 0).member_epoch == 2
    assert isinstance(coordinator.registry.get("g"), ConsumerGroup)
    assert coordinator.ask("m2", 0).member_epoch == 3
    group = coordinator.registry.get("g")
    assert isinstance(group, ConsumerGroup)
    assert set(group.state.members) == {"m1", "m2"}


@pytest.mark.parametrize(("epoch", "words"), [(1, "Consumer group g"), (-1, "Group g")])
def test_other_heartbeats_create_no_group(coordinator: Coordinator, epoch: int, words: str) -> None:
    answer = coordinator.ask("m1", epoch)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"{words} not found."
    assert coordinator.registry.groups == {}


def test_a_failed_first_write_creates_no_group(coordinator: Coordinator) -> None:
    coordinator.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.ask("m1", 0).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.registry.groups == {}


def test_a_bad_request_gets_the_reason(coordinator: Coordinator) -> None:
    answer = coordinator.ask("m1", 0, rebalance_timeout_ms=-1)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "RebalanceTimeoutMs must be provided in first request."


def test_a_group_of_the_other_protocol_is_refused(coordinator: Coordinator) -> None:
    coordinator.put(ClassicGroup("g", coordinator))
    assert coordinator.ask("m1", 1).error_message == "Group g is not a consumer group."


def test_an_empty_classic_group_is_replaced(coordinator: Coordinator) -> None:
    coordinator.put(ClassicGroup("g", coordinator))
    assert coordinator.ask("m1", 0).error_code == 0
    assert coordinator.records[0] == (GroupMetadataKey(group="g"), None)
    assert isinstance(coordinator.registry.get("g"), ConsumerGroup)


def test_a_classic_group_with_members_is_converted(coordinator: Coordinator) -> None:
    classic = ClassicGroup.from_record("g", ONE_MEMBER, coordinator)
    coordinator.put(classic)
    waiting: list[JoinGroupResponse] = []
    classic.join(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        ),
        Caller("c", "/h", 9),
        waiting.append,
    )
    assert waiting == [], "it waits for the other member"

    assert coordinator.ask("new", 0).member_epoch == 5
    group = coordinator.registry.get("g")
    assert isinstance(group, ConsumerGroup)
    assert {"old", "new"} < set(group.state.members)
    assert waiting[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(10_000)
    assert "old" not in group.state.members, "its session continues"


def test_the_last_consumer_leaves_a_classic_group_behind(coordinator: Coordinator) -> None:
    coordinator.put(ClassicGroup.from_record("g", ONE_MEMBER, coordinator))
    assert coordinator.ask("new", 0).error_code == 0
    assert isinstance(coordinator.registry.get("g"), ConsumerGroup)
    assert coordinator.ask("new", -1).error_code == 0
    assert isinstance(coordinator.registry.get("g"), ClassicGroup)
