"""Steps of a member in either protocol: join, change, leave and be replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_steps import (
    FIRST_EPOCH,
    StepContext,
    check_static_member,
    reconcile,
    remove,
    replace_static,
    update_member,
)
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from protocol.group_records import ConsumerGroupMetadataKey, MemberState
from tests.support.fake_topics import FakeTopics, topic_id

A = topic_id("a")


def context(*, topics_changed: bool = False) -> StepContext:
    return StepContext(
        FakeTopics(a=4), topics_changed, 1_000, ("uniform", "range"), 10, 5_000, set()
    )


def member(member_id: str, instance_id: str | None = None) -> ConsumerGroupMember:
    return ConsumerGroupMember(
        member_id=member_id,
        instance_id=instance_id,
        topic_names=frozenset({"a"}),
        rebalance_timeout_ms=60_000,
    )


def joined(*members: ConsumerGroupMember) -> Draft:
    """Return a draft of a group that these members have joined, one after the other."""
    draft = Draft(ConsumerState("g"))
    for each in members:
        update_member(draft, ConsumerGroupMember(member_id=each.member_id), each, context())
        reconcile(draft, each.member_id, {}, context())
    return draft


def test_a_change_raises_the_epoch_and_computes_targets() -> None:
    draft = joined(member("m1"))
    state = draft.state
    assert (state.epoch, state.target_epoch) == (FIRST_EPOCH, FIRST_EPOCH)
    assert state.targets == {"m1": {A: frozenset(range(4))}}
    assert state.members["m1"].assigned == {A: dict.fromkeys(range(4), FIRST_EPOCH)}
    draft.records.clear()
    update_member(draft, member("m1"), replace(member("m1"), rack_id="r"), context())
    assert (len(draft.records), state.epoch) == (1, FIRST_EPOCH), "a rack change needs no targets"


def test_members_are_removed_together() -> None:
    draft = joined(member("m1"), member("m2"), member("m3"))
    draft.records.clear()
    remove(draft, ["m1", "m2"], context())
    epochs = [value for key, value in draft.records if isinstance(key, ConsumerGroupMetadataKey)]
    assert [value.epoch for value in epochs] == [FIRST_EPOCH + 3]
    assert list(draft.state.members) == ["m3"]
    assert draft.state.members["m3"].state == MemberState.UNRELEASED_PARTITIONS


def test_a_successor_takes_over_the_static_members_partitions() -> None:
    draft = joined(member("m1", "i"))
    epoch = draft.state.epoch
    successor = replace_static(draft, draft.state.members["m1"], "m2")
    assert (successor.member_epoch, draft.state.epoch) == (0, epoch)
    assert list(draft.state.members) == list(draft.state.targets) == ["m2"]
    assert check_static_member(draft.state, "i", "m2").assigned == {
        A: dict.fromkeys(range(4), FIRST_EPOCH)
    }


@pytest.mark.parametrize(
    ("instance_id", "code"),
    [("i", ErrorCode.FENCED_INSTANCE_ID), ("j", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_a_static_member_is_checked_by_instance_id_and_member_id(
    instance_id: str, code: ErrorCode
) -> None:
    with pytest.raises(GroupError) as refused:
        check_static_member(joined(member("m1", "i")).state, instance_id, "m2")
    assert refused.value.code == code


def test_an_expression_is_resolved_again_after_topics_changed() -> None:
    said = ConsumerGroupMember(member_id="m1", topic_regex="[ab]")
    draft = joined(said)
    assert draft.state.regexes["[ab]"].topics == {"a"}
    for changed, topics in ((False, {"a"}), (True, {"a", "b"})):
        now = context(topics_changed=changed)._replace(topics=FakeTopics(a=4, b=1))
        update_member(draft, said, said, now)
        assert draft.state.regexes["[ab]"].topics == topics
    remove(draft, ["m1"], context())
    assert draft.state.regexes == {}
