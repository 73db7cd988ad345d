"""A consumer group's state follows from its records, in any order that compaction leaves."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.consumer_member import ClassicSide, ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.state import ConsumerState, regexes_of
from broker.groups.consumer.subscriptions import MemberSubscription, ResolvedRegex
from broker.groups.consumer.targets import topics_of
from broker.groups.group import GroupRecord
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentPartitions,
    MemberState,
    decode,
    encode_key,
    encode_value,
)
from tests.support.group_host import FakeHost

A, B = b"a" * 16, b"b" * 16

MEMBER = ConsumerGroupMember(
    member_id="m1",
    instance_id="i1",
    rack_id="r",
    client_id="client",
    client_host="/127.0.0.1",
    rebalance_timeout_ms=300_000,
    server_assignor="range",
    topic_names=frozenset({"a", "b"}),
    topic_regex="c.*",
    member_epoch=3,
    previous_member_epoch=2,
    state=MemberState.UNREVOKED_PARTITIONS,
    assigned={A: {0: 1, 2: 3}},
    pending_revocation={B: {1: 2}},
)


def fill(draft: Draft) -> None:
    draft.put_epoch(4, 77)
    draft.put_member(MEMBER)
    draft.put_target("m1", {A: frozenset({0})})
    draft.put_target_epoch(4, 1_000)
    draft.put_current(MEMBER)
    draft.put_regex("c.*", ResolvedRegex(frozenset({"c1"}), 1_000))


def replayed(records: list[GroupRecord]) -> ConsumerState:
    """Return the state that a restart reads back, through the bytes of the log."""
    state = ConsumerState("g")
    for key, value in records:
        state.apply(*decode(encode_key(key), encode_value(value)))
    return state


def facts(state: ConsumerState) -> dict[str, object]:
    return {name: getattr(state, name) for name in ConsumerState.__slots__}


def test_written_state_is_read_back() -> None:
    draft = Draft(ConsumerState("g"))
    fill(draft)
    assert facts(replayed(draft.records)) == facts(draft.state)
    state = draft.state
    assert state.members == {"m1": MEMBER}
    assert (state.epoch, state.target_epoch, state.metadata_hash) == (4, 4, 77)
    assert state.owners == {(A, 0): "m1", (A, 2): "m1", (B, 1): "m1"}
    assert state.static_member("i1") == MEMBER
    assert state.static_member("i2") is None
    assert not state.is_free(B, 1)
    assert state.is_free(B, 0)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_records_with_different_keys_does_not_matter(seed: int) -> None:
    """Compaction keeps the last record of each key, wherever it is."""
    draft = Draft(ConsumerState("g"))
    fill(draft)
    shuffled = list(draft.records)
    random.Random(seed).shuffle(shuffled)
    assert facts(replayed(shuffled)) == facts(draft.state)


def test_tombstones_remove_everything() -> None:
    draft = Draft(ConsumerState("g"))
    fill(draft)
    gone = Draft(draft.state)
    gone.remove_group()
    assert all(value is None for _, value in gone.records)
    assert facts(replayed([*draft.records, *gone.records])) == facts(ConsumerState("g"))


def test_a_late_revocation_does_not_take_the_partition_from_its_new_owner() -> None:
    draft = Draft(ConsumerState("g"))
    first = ConsumerGroupMember(member_id="m1", assigned={A: {0: 1}})
    second = ConsumerGroupMember(member_id="m2", assigned={A: {0: 2}})
    for member in (first, second):
        draft.put_member(member)
        draft.put_current(member)
    draft.put_current(ConsumerGroupMember(member_id="m1"))
    assert draft.state.owners == {(A, 0): "m2"}
    draft.remove_member("m1")
    assert draft.state.owners == {(A, 0): "m2"}


def test_a_member_that_takes_another_instance_id_leaves_nothing_under_the_first() -> None:
    draft = Draft(ConsumerState("g"))
    for instance_id in ("i", "j"):
        draft.put_member(ConsumerGroupMember(member_id="m", instance_id=instance_id))
    assert draft.state.static_ids == {"j": "m"}
    draft.remove_member("m")
    assert draft.state.static_ids == {}


def test_the_successor_of_a_static_member_keeps_the_instance_id() -> None:
    draft = Draft(ConsumerState("g"))
    draft.put_member(ConsumerGroupMember(member_id="old", instance_id="i"))
    draft.put_member(ConsumerGroupMember(member_id="new", instance_id="i"))
    draft.remove_member("old")
    assert draft.state.static_ids == {"i": "new"}


def test_partitions_without_epochs_keep_their_owners() -> None:
    """Records of Apache Kafka before 4.3."""
    state = ConsumerState("g")
    state.apply(
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=7,
            previous_member_epoch=6,
            state=0,
            assigned_partitions=[CurrentPartitions(topic_id=A, partitions=[0, 1])],
        ),
    )
    assert state.members["m"].assigned == {A: {0: 7, 1: 7}}


def test_the_classic_metadata_of_a_member_is_kept() -> None:
    draft = Draft(ConsumerState("g"))
    side = ClassicSide(45_000, (("range", b"sub"),))
    draft.put_member(ConsumerGroupMember(member_id="m", classic=side))
    assert replayed(draft.records).members["m"].classic == side


def test_expressions_are_counted_once() -> None:
    members = [ConsumerGroupMember(member_id=name, topic_regex="x.*") for name in "ab"]
    assert list(regexes_of([*members, ConsumerGroupMember(member_id="c")])) == ["x.*"]


def test_subscriptions_are_counted():
    draft = Draft(ConsumerState("g"))
    other = replace(MEMBER, member_id="m2", instance_id=None)
    first = MemberSubscription(MEMBER.topic_names, MEMBER.topic_regex)
    draft.put_current(MEMBER)  # of a member whose metadata come later
    assert draft.state.subscriptions == {MemberSubscription(frozenset(), ""): 1}
    draft.put_member(MEMBER)
    draft.put_member(other)
    draft.put_current(other)
    assert draft.state.subscriptions == {first: 2}
    draft.put_member(replace(other, topic_names=frozenset({"d"})))
    assert draft.state.subscriptions == {first: 1, MemberSubscription(frozenset({"d"}), "c.*"): 1}
    assert replayed(draft.records).subscriptions == draft.state.subscriptions
    draft.remove_member("m1")
    draft.remove_member("m2")
    assert draft.state.subscriptions == {}


@pytest.mark.parametrize("regex", ["", "topic-.*"])
def test_what_a_large_group_reads_is_found_without_asking_every_member(regex):
    names = [f"topic-{number}" for number in range(1_000)]
    draft = Draft(ConsumerState("g"))
    for number in range(1_000):
        said = frozenset(()) if regex else frozenset(list(names))
        draft.put_member(
            ConsumerGroupMember(member_id=f"m{number}", topic_names=said, topic_regex=regex)
        )
    if regex:
        draft.put_regex(regex, ResolvedRegex(frozenset(names), 1))
    group = ConsumerGroup("g", FakeHost(), state=draft.state)
    started = time.process_time()
    for _ in range(100):  # took 0.7 s, as each member was asked
        assert topics_of(group.state) == set(names)
    for number in range(1_000):  # took 0.2 s, and 3.8 s with an expression
        assert not group.is_subscribed_to(f"old-{number}")
    assert group.is_subscribed_to("topic-7")
    assert time.process_time() - started < 0.3
