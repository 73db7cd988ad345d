"""The two assignors: worked examples, and the invariants of any target."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.groups.consumer.assignors import (
    ASSIGNORS,
    PartitionsByTopic,
    Subscriber,
    _Poorest,
    _Spread,
    assign_range,
    assign_uniform,
)
from tests.support.thorough import examples

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def member(
    *topic_ids: bytes, owned: PartitionsByTopic | None = None, instance_id: str | None = None
) -> Subscriber:
    return Subscriber(instance_id, frozenset(topic_ids), owned or {})


def numbers(target: Mapping[str, PartitionsByTopic]) -> dict[str, dict[bytes, list[int]]]:
    return {
        member_id: {topic_id: sorted(of) for topic_id, of in partitions.items()}
        for member_id, partitions in target.items()
    }


def test_range_assigns_runs_and_one_more_to_the_first_members() -> None:
    """The seed's example: 7 partitions, 3 members: 0-2, 3-4, 5-6."""
    target = assign_range({"m1": member(A), "m2": member(A), "m3": member(A)}, {A: 7})
    assert numbers(target) == {"m1": {A: [0, 1, 2]}, "m2": {A: [3, 4]}, "m3": {A: [5, 6]}}


def test_range_assigns_equal_partition_numbers_of_topics_together() -> None:
    target = numbers(assign_range({"m1": member(A, B), "m2": member(A, B)}, {A: 4, B: 4}))
    assert target == {"m1": {A: [0, 1], B: [0, 1]}, "m2": {A: [2, 3], B: [2, 3]}}


def test_range_orders_by_instance_id_first() -> None:
    static = {"m9": member(A, instance_id="first"), "m1": member(A, instance_id="second")}
    assert numbers(assign_range(static, {A: 2})) == {"m9": {A: [0]}, "m1": {A: [1]}}


def test_range_orders_static_members_before_the_others() -> None:
    """As Kafka 4.3: RangeAssignor.sortMemberIds."""
    mixed = {"m1": member(A), "m2": member(A, instance_id="z"), "m3": member(A, instance_id="y")}
    target = numbers(assign_range(mixed, {A: 4}))
    assert target == {"m3": {A: [0, 1]}, "m2": {A: [2]}, "m1": {A: [3]}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_more_members_than_partitions_leaves_some_without(name: str) -> None:
    target = ASSIGNORS[name]({f"m{n}": member(A) for n in range(5)}, {A: 2})
    assert sorted(sum(map(len, owned.values())) for owned in target.values()) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_topics_that_do_not_exist_are_not_assigned(name: str) -> None:
    nothing = ASSIGNORS[name]({"m": member(A, owned={A: frozenset({0}), B: frozenset({1})})}, {})
    assert nothing == {"m": {}}
    assert ASSIGNORS[name]({}, {A: 3}) == {}


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    before = assign_uniform({"m1": member(A), "m2": member(A)}, {A: 12})
    grown = {name: member(A, owned=before[name]) for name in before} | {"m3": member(A)}
    after = assign_uniform(grown, {A: 12})
    for name in before:
        assert after[name][A] < before[name][A]
        assert len(after[name][A]) == 4
    assert len(after["m3"][A]) == 4


@pytest.mark.parametrize("count", [2, 12])
def test_uniform_moves_the_last_topics_whatever_order_a_set_of_ids_has(count: int) -> None:
    """The order of a set of bytes differs from process to process; the target must not."""
    ids = [bytes([number]) * 16 for number in range(count)]
    owner = member(*reversed(ids), owned={one: frozenset({0}) for one in reversed(ids)})
    target = assign_uniform({"m1": owner, "m2": member(*ids)}, dict.fromkeys(ids, 1))
    assert list(target["m1"]) == ids[: count // 2]
    assert sorted(target["m2"]) == ids[count // 2 :]


def test_uniform_gives_the_partitions_of_a_leaver_to_the_others() -> None:
    before = assign_uniform({f"m{n}": member(A) for n in range(3)}, {A: 9})
    left = {name: member(A, owned=before[name]) for name in ("m0", "m2")}
    after = assign_uniform(left, {A: 9})
    assert after["m0"][A] > before["m0"][A]
    assert after["m2"][A] > before["m2"][A]
    assert sorted(len(after[name][A]) for name in left) == [4, 5]


def test_uniform_moves_partitions_through_members_with_other_subscriptions() -> None:
    """m3 may take only C from m2, which then takes from A: as even as single moves allow."""
    members = {
        "m1": member(A, owned={A: frozenset(range(6))}),
        "m2": member(A, C, owned={C: frozenset(range(6))}),
        "m3": member(C),
    }
    after = assign_uniform(members, {A: 6, C: 6})
    totals = {name: sum(map(len, of.values())) for name, of in after.items()}
    assert totals == {"m1": 5, "m2": 4, "m3": 3}


TOPICS = (A, B, C)
subscriptions = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(8)]),
    st.sets(st.sampled_from(TOPICS), max_size=3),
    max_size=8,
)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 20))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=examples(200))
@given(subscribed=subscriptions, partition_counts=counts, seed=st.integers(0, 1000))
def test_every_partition_has_one_subscriber_and_no_move_would_help(
    name: str, subscribed: dict[str, set[bytes]], partition_counts: dict[bytes, int], seed: int
) -> None:
    randomness = random.Random(seed)
    owned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in subscribed}
    for topic_id in TOPICS:  # stale targets: too many partitions, topics without a subscriber
        for partition in range(25 if owned else 0):
            owner = owned[randomness.choice(sorted(owned))]
            owner[topic_id] = owner.get(topic_id, frozenset()) | {partition}
    members = {
        member_id: member(*topics, owned=owned[member_id])
        for member_id, topics in subscribed.items()
    }
    target = ASSIGNORS[name](members, partition_counts)

    assert target.keys() == members.keys()
    taken = [
        (topic_id, partition)
        for partitions in target.values()
        for topic_id, of in partitions.items()
        for partition in of
    ]
    wanted = {
        (topic_id, partition)
        for topic_id, count in partition_counts.items()
        for partition in range(count)
        if any(topic_id in topics for topics in subscribed.values())
    }
    assert len(taken) == len(set(taken))
    assert set(taken) == wanted
    for member_id, partitions in target.items():
        assert partitions.keys() <= subscribed[member_id]
        assert all(partitions.values()), "a topic without a partition is left out"
    if name == "uniform":
        totals = {name: sum(map(len, of.values())) for name, of in target.items()}
        for giver, partitions in target.items():
            for topic_id in partitions:
                for taker, topics in subscribed.items():
                    if topic_id in topics:
                        assert totals[giver] - totals[taker] < 2


def test_balancing_looks_at_each_member_a_few_times_and_not_once_per_other_member(monkeypatch):
    members, topics, partitions = 200, 10, 200
    looks = 0
    count = _Spread._count

    def counted(self, member_id):
        nonlocal looks
        looks += 1
        return count(self, member_id)

    monkeypatch.setattr(_Spread, "_count", counted)
    topic_ids = frozenset(bytes([number]) * 16 for number in range(topics))
    partition_counts = dict.fromkeys(topic_ids, partitions)
    subscribers = {f"m{n:03}": Subscriber(None, topic_ids, {}) for n in range(members)}
    targets = assign_uniform(subscribers, partition_counts)
    subscribers = {one: Subscriber(None, topic_ids, targets[one]) for one in subscribers}
    subscribers["new"] = Subscriber(None, topic_ids, {})
    after = assign_uniform(subscribers, partition_counts)
    sizes = {sum(map(len, after[one].values())) for one in after}
    assert sizes <= {topics * partitions // (members + 1), topics * partitions // (members + 1) + 1}
    assert looks < 10 * members * topics  # for each topic, and not for each pair of members


def test_the_subscriber_with_the_fewest_partitions_is_the_first_of_equals():
    rnd = random.Random(3)
    eligible = {b"a": ["m0", "m1", "m2"], b"b": ["m2", "m1"], b"c": ["m0", "m1", "m2"]}
    owned = {f"m{n}": {(b"a", at): None for at in range(rnd.randrange(4))} for n in range(3)}
    poorest = _Poorest(eligible, owned)
    for _ in range(500):
        for topic_id, member_ids in eligible.items():
            assert poorest.of(topic_id) == min(member_ids, key=lambda one: len(owned[one]))
        member_id = rnd.choice(["m0", "m1", "m2"])
        if owned[member_id] and rnd.random() < 0.5:
            owned[member_id].popitem()
        else:
            owned[member_id][b"a", rnd.randrange(1000)] = None
        poorest.changed(member_id)
