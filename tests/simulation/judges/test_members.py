"""The judge of members: what it must flag, and near misses that it must not."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.errors import ErrorCode
from tests.simulation.group_events import Beat, Commit, Event, Joined, Pulse, Synced
from tests.simulation.judges.members import judge

MS = 1_000_000
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
P, Q = ("t", 0), ("t", 1)


def pulse(at_ms: float, code: int | None = 0, **more: Any) -> Pulse:
    fields: dict[str, Any] = {
        "who": "a", "group": "g", "generation": 1, "member_id": "a", "session_ms": 1_000,
        "rebalance_ms": 2_000, "began_ns": int(at_ms * MS), "ended_ns": int(at_ms * MS) + MS,
        "code": code, **more,
    }  # fmt: skip
    return Pulse(**fields)


def beat(at_ms: int, epoch: int, told: int = 0, code: int | None = 0, **more: Any) -> Beat:
    fields: dict[str, Any] = {
        "who": "a", "group": "g", "member_id": "a", "epoch": epoch, "told_epoch": told,
        "owned": None, "session_ms": 1_000, "rebalance_ms": 2_000, "began_ns": at_ms * MS,
        "ended_ns": at_ms * MS + MS, "code": code, **more,
    }  # fmt: skip
    return Beat(**fields)


def synced(at_ms: int, member_id: str, **more: Any) -> Synced:
    fields: dict[str, Any] = {
        "who": member_id, "group": "g", "generation": 1, "member_id": member_id, "leader": "a",
        "instance_id": "i", "began_ns": at_ms * MS, "ended_ns": at_ms * MS + MS, "code": 0, **more,
    }  # fmt: skip
    return Synced(**fields)


def flaws(*events: Event, ends_ms: tuple[int, ...] = ()) -> list[str]:
    return list(judge(events, [ms * MS for ms in ends_ms]))


def test_a_member_that_stays_in_touch_is_kept() -> None:
    assert flaws(pulse(0), pulse(500), pulse(998, UNKNOWN)) == [
        "a was heard 499 ms ago, and is unknown"
    ]
    assert flaws(pulse(0), pulse(999, UNKNOWN)) == []
    assert flaws(pulse(0), pulse(500, ErrorCode.ILLEGAL_GENERATION)) == []


@pytest.mark.parametrize(
    "heard",
    [
        pulse(0, rebalance_ms=400),
        pulse(0, None),
        pulse(0, ErrorCode.REBALANCE_IN_PROGRESS),
        pulse(0, instance_id="i"),
        pulse(0, member_id="b"),
    ],
)
def test_a_member_may_be_gone(heard: Pulse) -> None:
    assert flaws(heard, pulse(500, UNKNOWN, instance_id=heard.instance_id)) == []


def test_a_member_may_be_gone_with_the_life_of_its_broker() -> None:
    events = pulse(0), pulse(500, UNKNOWN)
    assert flaws(*events, ends_ms=(200,)) == []
    assert len(flaws(*events, ends_ms=(600,))) == 1


def test_a_broker_that_loads_its_groups_hears_everybody() -> None:
    lost = pulse(1_100), pulse(1_200, UNKNOWN)
    assert flaws(pulse(900), *lost, ends_ms=(1_000,)) == []
    assert len(flaws(synced(1_050, "a"), *lost, ends_ms=(1_000,))) == 1


def test_a_member_of_a_consumer_group_is_kept_too() -> None:
    joined = beat(0, 0, 1, owned=frozenset(), assigned=frozenset({P, Q}))
    unknown = beat(500, 1, code=UNKNOWN)
    assert len(flaws(joined, unknown)) == 1
    # One that has said nothing of its partitions may be late in giving up some.
    assert flaws(joined, beat(100, 1, 1), unknown) == []
    keeps = beat(100, 1, 1, owned=frozenset({P, Q}), assigned=frozenset({P}))
    assert flaws(joined, keeps, unknown) == []
    gives_up = beat(200, 1, 2, owned=frozenset({P}))
    assert len(flaws(joined, keeps, gives_up, unknown)) == 1
    assert flaws(joined, beat(100, -1), unknown) == []


def test_heartbeats_of_an_older_epoch_are_refused() -> None:
    assert flaws(beat(0, 0, 3), beat(5, 2, 3)) == ["a was served in epoch 2 after 3"]
    assert flaws(beat(0, 0, 3), beat(5, 2, code=ErrorCode.FENCED_MEMBER_EPOCH)) == []
    assert flaws(beat(0, 0, 3), beat(5, 3, 3)) == []
    # It may not have had the answer, and says what it owns.
    assert flaws(beat(0, 0, 3), beat(5, 2, 3, owned=frozenset())) == []
    assert flaws(beat(0, 0, 3), beat(4, 0, 1), beat(5, 1, 2), beat(6, 2, 2)) == []


def test_the_member_id_of_a_static_member_that_was_replaced_is_unknown() -> None:
    a, b = synced(0, "a"), synced(5, "b")
    late = pulse(10, instance_id="i")
    assert flaws(a, b, late) == ["a is served after b has its place"]
    assert flaws(a, pulse(4, instance_id="i"), b) == []
    assert flaws(a, b, pulse(10, ErrorCode.FENCED_INSTANCE_ID, instance_id="i")) == []
    assert flaws(a, synced(5, "b", instance_id="j"), late) == []
    assert flaws(a, synced(5, "b", code=UNKNOWN), late) == []
    fields: dict[str, Any] = {"topic": "t", "partition": 0, "offset": 7, "metadata": ""}
    commit = Commit(who="a", group="g", began_ns=10 * MS, code=0, member_id="a", **fields)
    assert len(flaws(a, b, commit)) == 1
    assert len(flaws(a, b, synced(10, "a"))) == 1


def joined(at_ms: int, member_id: str, generation: int, *members: str, **more: Any) -> Joined:
    fields: dict[str, Any] = {
        "who": member_id, "group": "g", "member_id": member_id, "generation": generation,
        "members": frozenset(members), "began_ns": at_ms * MS, "ended_ns": at_ms * MS + 9 * MS,
        "code": 0, **more,
    }  # fmt: skip
    return Joined(**fields)


def test_a_leader_is_told_of_members_that_have_joined() -> None:
    b, a = joined(0, "b", 1), joined(20, "a", 2, "a", "b")
    assert flaws(b, a) == ["b is in generation 2, and has not joined it"]
    assert flaws(b, joined(21, "b", 2), a) == []
    assert flaws(b, joined(21, "b", -1, code=None), a) == []
    assert flaws(joined(0, "b", 1, instance_id="i"), a) == []
    assert flaws(a) == []  # nobody knows who b is: its answer was lost
    assert flaws(joined(40, "b", 3), a) == []


def test_a_member_that_gives_nothing_up_is_fenced_at_last() -> None:
    has = {"owned": frozenset({P, Q}), "rebalance_ms": 3_000}
    joins = beat(0, 0, 1, owned=frozenset(), assigned=frozenset({P, Q}))
    asked = beat(100, 1, 1, assigned=frozenset({P}), **has)
    assert flaws(joins, asked, beat(4_200, 1, 1, **has)) == [
        "a has not given up 1 partitions for 4099 ms"
    ]
    assert len(flaws(joins, asked, beat(4_200, 1, 1, rebalance_ms=3_000))) == 1  # says nothing
    assert flaws(joins, asked, beat(4_000, 1, 1, **has)) == []
    assert flaws(joins, asked, beat(4_200, 1, 1, **has), ends_ms=(2_000,)) == []
    assert flaws(joins, asked, beat(4_200, 1, code=ErrorCode.FENCED_MEMBER_EPOCH, **has)) == []
    gives_up = beat(200, 1, 2, owned=frozenset({P}))
    assert flaws(joins, asked, gives_up, beat(4_200, 2, 2, **has)) == []


def test_commits_of_older_epochs_are_for_partitions_that_the_member_had_then() -> None:
    fields: dict[str, Any] = {
        "who": "a", "group": "g", "topic": "t", "topic_id": "t", "partition": 1, "offset": 7,
        "metadata": "", "member_id": "a", "epoch": 2, "began_ns": 30 * MS, "code": 0,
    }  # fmt: skip
    joins = beat(0, 0, 2, owned=frozenset(), assigned=frozenset({P}))
    more = beat(10, 2, 3, owned=frozenset({P}), assigned=frozenset({P, Q}))
    assert flaws(joins, more, Commit(**fields)) == [
        "a committed in epoch 2 for a partition that it has had since 3"
    ]
    assert flaws(joins, more, Commit(**fields | {"partition": 0})) == []
    assert flaws(joins, more, Commit(**fields | {"epoch": 3})) == []
    assert flaws(joins, more, Commit(**fields | {"code": ErrorCode.STALE_MEMBER_EPOCH})) == []
    assert flaws(joins, beat(5, 2, code=None), more, Commit(**fields)) == []
    assert flaws(joins, more, beat(20, 0, 4, assigned=frozenset({Q})), Commit(**fields)) == []
