"""A draft: its records describe its state, and the original state does not change."""

from __future__ import annotations

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import ResolvedRegex

A = b"a" * 16


def filled() -> Draft:
    draft = Draft(ConsumerState("g"))
    member = ConsumerGroupMember(member_id="m1", topic_regex="c.*", assigned={A: {0: 1}})
    draft.put_epoch(4, 77)
    draft.put_member(member)
    draft.put_target("m1", {A: frozenset({0})})
    draft.put_target_epoch(4, 1_000)
    draft.put_current(member)
    draft.put_regex("c.*", ResolvedRegex(frozenset({"c1"}), 1_000))
    return draft


def facts(state: ConsumerState) -> dict[str, object]:
    return {name: getattr(state, name) for name in ConsumerState.__slots__}


def test_a_dropped_draft_changes_nothing() -> None:
    state = filled().state
    before = facts(state.copy())
    Draft(state).remove_group()
    assert facts(state) == before


def test_the_records_of_a_draft_reproduce_its_state() -> None:
    draft = filled()
    state = ConsumerState("g")
    for key, value in draft.records:
        state.apply(key, value)
    assert facts(state) == facts(draft.state)


def test_a_removed_group_gets_tombstones_for_all_its_records() -> None:
    draft = filled()
    gone = Draft(draft.state)
    gone.remove_group()
    assert all(value is None for _, value in gone.records)
    assert {repr(key) for key, _ in gone.records} == {repr(key) for key, _ in draft.records}
    assert facts(gone.state) == facts(ConsumerState("g"))
