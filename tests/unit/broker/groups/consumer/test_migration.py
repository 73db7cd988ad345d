"""Groups that change their protocol: members keep their partitions; impossible changes fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.consumer_member import ClassicSide, ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.migration import may_be_classic, upgraded
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import metadata_hash
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from config.broker import BrokerConfig
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.messages.sync_group import SyncGroupRequest
from tests.support.fake_topics import FakeTopics, topic_id
from tests.support.group_host import FakeHost

A = topic_id("a")
GENERATION = 7


def host(**settings: Any) -> FakeHost:
    made = FakeHost(**settings)
    made.topics = FakeTopics(a=4)
    made.put = lambda group: setattr(made, "group", group)
    return made


def held(numbers: list[int], user_data: bytes | None = None) -> bytes:
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartition(topic="a", partitions=numbers)],
            user_data=user_data,
        )
    )


def classic(
    of: FakeHost, *assignments: bytes, protocol_type: str = "consumer", subscription: bytes = b""
) -> ClassicGroup:
    """Return a stable classic group with one member per assignment."""
    subscription = subscription or encode_subscription(ConsumerProtocolSubscription(topics=["a"]))
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=GENERATION,
        protocol="range",
        leader="m0",
        members=[
            MemberMetadata(
                member_id=f"m{number}",
                client_id="c",
                client_host="/h",
                rebalance_timeout=60_000,
                session_timeout=10_000,
                subscription=subscription,
                assignment=assignment,
            )
            for number, assignment in enumerate(assignments)
        ],
    )
    return ClassicGroup.from_record("g", value, of)


def test_every_member_keeps_its_partitions() -> None:
    of = host()
    draft = upgraded(classic(of, held([0, 1]), held([2, 3])), of)
    state = draft.state
    assert (state.epoch, state.target_epoch) == (GENERATION, GENERATION)
    for member_id, numbers in (("m0", {0, 1}), ("m1", {2, 3})):
        member = state.members[member_id]
        assert member.classic is not None
        assert member.member_epoch == GENERATION
        assert set(member.assigned[A]) == numbers
        assert state.targets[member_id] == {A: frozenset(numbers)}
    assert draft.records[0] == (GroupMetadataKey(group="g"), None)


def test_the_first_new_member_starts_a_rebalance() -> None:
    of = host()
    draft = upgraded(classic(of, held([0, 1, 2, 3])), of)
    group = ConsumerGroup("g", of, replaced=draft.records, state=draft.state)
    answers: list[Any] = []
    group.consumer_group_heartbeat(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="new",
            member_epoch=0,
            topic_partitions=[],
            subscribed_topic_names=["a"],
            rebalance_timeout_ms=60_000,
        ),
        Caller("c", "/h", 1),
        answers.append,
    )
    assert answers[0].member_epoch == GENERATION + 1
    assert of.records[: len(draft.records)] == draft.records
    heartbeat = HeartbeatRequest(group_id="g", member_id="m0", generation_id=GENERATION)
    assert group.heartbeat(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    "case",
    ["policy", "downgrade only", "connect", "too many", "own assignor", "garbage"],
)
def test_groups_that_cannot_become_consumer_groups(case: str) -> None:
    policy = {"policy": "disabled", "downgrade only": "downgrade"}.get(case, "bidirectional")
    of = host(
        group_consumer_migration_policy=policy,
        group_consumer_max_size=1 if case == "too many" else 10,
    )
    first = {
        "own assignor": held([0], b"mine"),
        "garbage": b"\x00\x00\xff",
    }.get(case, held([0]))
    group = classic(
        of, first, held([1]), protocol_type="connect" if case == "connect" else "consumer"
    )
    with pytest.raises(GroupError) as refused:
        upgraded(group, of)
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_that_has_joined_again_may_offer_other_protocols() -> None:
    of = host()
    group = classic(of, held([0]), held([1]))
    roster = group.generation.roster
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["b"]))
    offer = [JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata)]
    roster.set_protocols(roster.members["m0"], offer)
    state = upgraded(group, of).state
    assert state.members["m0"].topic_names == {"b"}
    assert state.members["m1"].topic_names == {"a"}


def test_deleted_topics_are_dropped_in_the_migration() -> None:
    of = host()
    of.topics.set("a", 0)
    state = upgraded(classic(of, held([0, 1])), of).state
    assert state.members["m0"].assigned == {}


# -- And back -----------------------------------------------------------------------------------


def mixed(of: FakeHost) -> ConsumerGroup:
    """A group with one member of each protocol, both stable."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["a"]), 1)
    group = ConsumerGroup("g", of)
    draft = Draft(group.state)
    for member in (
        ConsumerGroupMember(member_id="new", topic_names=frozenset({"a"}), assigned={A: {0: 3}}),
        ConsumerGroupMember(
            member_id="old",
            topic_names=frozenset({"a"}),
            assigned={A: {1: 3, 2: 3}},
            rebalance_timeout_ms=60_000,
            classic=ClassicSide(10_000, (("range", subscription),)),
        ),
    ):
        draft.put_member(member)
        draft.put_current(member)
    draft.put_epoch(3, 1)
    draft.put_target_epoch(3, 0)
    group.membership.write(draft, None)
    return group


def leave(group: ConsumerGroup) -> None:
    group.consumer_group_heartbeat(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="new", member_epoch=-1),
        Caller("c", "/h", 1),
        lambda _: None,
    )


def test_the_group_becomes_classic_if_the_last_new_member_leaves() -> None:
    of = host()
    leave(mixed(of))
    group = of.group
    assert isinstance(group, ClassicGroup)
    assert (group.generation.generation_id, group.state_name) == (4, "PreparingRebalance")
    key, value = of.records[-1]
    assert key == GroupMetadataKey(group="g")
    (member,) = value.members
    assert (member.member_id, member.session_timeout) == ("old", 10_000)
    (topic,) = decode_assignment(member.assignment).assigned_partitions
    assert (topic.topic, topic.partitions) == ("a", [1, 2])
    heartbeat = HeartbeatRequest(group_id="g", member_id="old", generation_id=4)
    assert group.heartbeat(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    replayed = ConsumerState("g")
    for record in of.records[:-1]:
        replayed.apply(*record)
    assert (replayed.members, replayed.epoch) == ({}, 0)


def test_the_group_becomes_classic_if_the_last_new_members_session_expires() -> None:
    of = host(group_consumer_session_timeout_ms=5_000)
    mixed(of).loaded()
    of.advance(5_000)
    assert isinstance(of.group, ClassicGroup)


def test_the_group_keeps_its_protocol_if_downgrades_are_disabled() -> None:
    of = host(group_consumer_migration_policy="upgrade")
    group = mixed(of)
    leave(group)
    assert not hasattr(of, "group")
    assert set(group.state.members) == {"old"}


def test_only_a_group_of_classic_members_can_become_classic() -> None:
    of = host()
    assert not may_be_classic(ConsumerState("g"), of.config)
    assert not may_be_classic(mixed(of).state, of.config)


def subscription_of(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 1)


def spoken_by(member_id: str, *names: str) -> ConsumerGroupMember:
    protocols = tuple((name, subscription_of("a")) for name in names)
    return ConsumerGroupMember(
        member_id=member_id,
        topic_names=frozenset({"a"}),
        rebalance_timeout_ms=60_000,
        classic=ClassicSide(10_000, protocols),
    )


def test_a_group_that_is_classic_again_knows_the_protocols_of_its_members() -> None:
    of = host()
    group = ConsumerGroup("g", of)
    draft = Draft(group.state)
    for member in (
        ConsumerGroupMember(member_id="new", topic_names=frozenset({"a"})),
        spoken_by("one", "range", "sticky", "own"),
        spoken_by("two", "sticky", "range"),
        spoken_by("three", "sticky", "range", "other"),
    ):
        draft.put_member(member)
        draft.put_current(member)
    group.membership.write(draft, None)
    leave(group)
    roster = of.group.generation.roster
    assert {one.member_id: [spoken.name for spoken in one.protocols] for one in roster} == {
        "one": ["range", "sticky", "own"],
        "two": ["sticky", "range"],
        "three": ["sticky", "range", "other"],
    }
    assert of.group.generation.protocol_name == "sticky", "two of three prefer it, as Kafka counts"


@pytest.mark.parametrize("unread", [b"", b"\0", b"\xff\xff"])
def test_the_protocol_of_a_classic_group_need_not_be_readable(unread: bytes) -> None:
    """A join reads the first protocol of a member; the members share another."""
    of = host()
    group = ConsumerGroup("g", of)
    draft = Draft(group.state)
    sides = {
        "one": (("range", subscription_of("a")), ("own", unread)),
        "two": (("own", unread), ("sticky", unread)),
    }
    for member in (
        ConsumerGroupMember(member_id="new", topic_names=frozenset({"a"})),
        *[
            replace(spoken_by(name), classic=ClassicSide(10_000, protocols))
            for name, protocols in sides.items()
        ],
    ):
        draft.put_member(member)
        draft.put_current(member)
    group.membership.write(draft, None)
    leave(group)
    assert of.group.generation.protocol_name == "own"


def static_pair(of: FakeHost, *, is_settled: bool) -> ConsumerGroup:
    """An absent static member of the new protocol, and a static member of the classic protocol."""
    group = ConsumerGroup("g", of)
    draft = Draft(group.state)
    away = ConsumerGroupMember(
        member_id="away", instance_id="i", topic_names=frozenset({"a"}), assigned={A: {0: 3, 1: 3}},
        member_epoch=-2, previous_member_epoch=3, rebalance_timeout_ms=60_000,
    )  # fmt: skip
    stays = replace(
        spoken_by("stays", "range"), assigned={A: {2: 3}}, member_epoch=3, previous_member_epoch=3
    )
    for member in (away, stays):
        draft.put_member(member)
    draft.put_epoch(3, metadata_hash({"a"}, of.topics))
    draft.put_target("away", {A: frozenset({0, 1})})
    draft.put_target("stays", {A: frozenset({2} if is_settled else {2, 3})})
    draft.put_target_epoch(3, 0)
    for member in (away, stays):
        draft.put_current(member)
    group.membership.write(draft, None)
    return group


def join_as_static(group: ConsumerGroup) -> JoinGroupResponse:
    answers: list[JoinGroupResponse] = []
    body = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription_of("a"))],
    )
    group.join(body, Caller("c", "/h", 9), answers.append)
    (answer,) = answers
    return answer


def test_the_group_becomes_classic_if_a_classic_member_replaces_the_last_new_one() -> None:
    of = host()
    answer = join_as_static(static_pair(of, is_settled=True))
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 3, "range")
    group = of.group
    assert isinstance(group, ClassicGroup)
    assert (group.generation.generation_id, group.state_name) == (3, "Stable")
    assert set(group.generation.roster.members) == {answer.member_id, "stays"}
    synced: list[Any] = []
    body = SyncGroupRequest(group_id="g", generation_id=3, member_id=answer.member_id)
    group.sync(body, synced.append)
    (topic,) = decode_assignment(synced[0].assignment).assigned_partitions
    assert (topic.topic, topic.partitions) == ("a", [0, 1])
    replayed = ConsumerState("g")
    for record in of.records[:-1]:
        replayed.apply(*record)
    assert (replayed.members, replayed.epoch) == ({}, 0)


def test_members_without_their_target_rejoin_after_the_migration() -> None:
    of = host()
    answer = join_as_static(static_pair(of, is_settled=False))
    assert (answer.error_code, of.group.state_name) == (0, "PreparingRebalance")


def test_a_classic_member_that_replaces_another_changes_nothing() -> None:
    of = host(group_consumer_migration_policy="upgrade")
    group = static_pair(of, is_settled=True)
    assert join_as_static(group).error_code == 0
    of.config = BrokerConfig()
    assert join_as_static(group).error_code == 0
    assert not hasattr(of, "group")


def test_a_group_with_an_absent_static_member_is_reconciling() -> None:
    assert static_pair(host(), is_settled=True).state_name == "Reconciling"
