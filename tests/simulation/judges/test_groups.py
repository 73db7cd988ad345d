"""The judge of groups: what it must flag, and near misses that it must not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.group_events import (
    FOREVER,
    Acted,
    Beat,
    Commit,
    Described,
    DescribedMember,
    Event,
    Removed,
    Synced,
)
from tests.simulation.judges.groups import judge

P, Q = ("t", 0), ("t", 1)
SECOND = 1_000_000_000


def synced(
    at: int, who: str, generation: int, *share: Any, shares: Any = None, **more: Any
) -> Synced:
    return Synced(
        who=who,
        group="g",
        began_ns=at,
        ended_ns=at + 1,
        code=0,
        generation=generation,
        member_id=who,
        leader="a",
        share=frozenset(share),
        shares=shares,
        **more,
    )


def beat(at: int, who: str, epoch: int, told: int = 0, **more: Any) -> Beat:
    fields: dict[str, Any] = {
        "owned": None,
        "code": 0,
        "ended_ns": at + 1,
        "session_ms": 10_000,
        "rebalance_ms": 5_000,
        **more,
    }
    return Beat(
        who=who, group="g", began_ns=at, member_id=who, epoch=epoch, told_epoch=told, **fields
    )


def described(state: str, *members: DescribedMember, **more: Any) -> Described:
    fields = {"began_ns": 50, "ended_ns": 51, "code": 0, "is_consumer": True, **more}
    return Described(who="d", group="g", state=state, members=list(members), **fields)


def told(*partitions: Any) -> frozenset[Any]:
    return frozenset(partitions)


def flaws(*events: Event, **arguments: Any) -> list[str]:
    return [text.removeprefix("group g: ") for text in judge(events, **arguments)]


SHARES = {"a": told(P), "b": told(Q)}


def test_members_of_a_generation_share_the_partitions() -> None:
    a, b = synced(0, "a", 1, P, shares=SHARES), synced(0, "b", 1, Q)
    assert flaws(a, b) == []
    both = {"a": told(P), "b": told(P)}
    found = flaws(synced(0, "a", 1, P, shares=both), synced(0, "b", 1, P))
    assert found == ["a and b own t-0 in epoch 1"]


def test_members_get_what_their_leader_sent() -> None:
    a = synced(0, "a", 1, P, shares=SHARES)
    assert len(flaws(a, synced(0, "b", 1, ("t", 5)))) == 1
    # A static member has another id when it comes back.
    assert flaws(a, synced(2, "b2", 1, Q, instance_id="i")) == []


def test_generations_do_not_go_back() -> None:
    later = [synced(0, "a", 2), synced(5, "b", 1)]
    assert flaws(*later) == ["b was told epoch 1, but a 2 before"]
    assert flaws(synced(0, "a", 2), synced(0, "b", 1)) == []
    gone = Removed(who="c", group="g", began_ns=2, ended_ns=3, code=0, is_group=True)
    assert flaws(*later, gone) == []
    assert len(flaws(*later, Removed(who="c", group="g", began_ns=2, code=68, is_group=True))) == 1


def test_commits_of_older_generations_are_refused() -> None:
    fields: dict[str, Any] = {
        "who": "b", "group": "g", "topic": "t", "partition": 0, "offset": 7, "metadata": ""
    }  # fmt: skip
    late = Commit(**fields, began_ns=5, ended_ns=6, code=0, member_id="b", epoch=1)
    assert len(flaws(synced(0, "a", 2), late)) == 1
    late.code = 22
    assert flaws(synced(0, "a", 2), late) == []
    late.code, late.epoch = 0, 2
    assert flaws(synced(0, "a", 2), late) == []


def test_members_that_left_do_not_commit() -> None:
    commit = Commit(
        who="b", group="g", topic="t", partition=0, offset=7, metadata="",
        began_ns=5, ended_ns=6, code=0, member_id="b", epoch=3,
    )  # fmt: skip
    assert flaws(beat(0, "b", 3, 3), beat(2, "b", -1), commit) == ["b committed after it had left"]
    assert flaws(beat(0, "b", 3, 3), beat(2, "b", -1), beat(4, "b", 0, 4), commit) == []


def test_a_partition_has_one_owner_at_a_time() -> None:
    a = beat(0, "a", 0, 2, assigned=told(P, Q))
    b = beat(10, "b", 0, 3, assigned=told(Q))
    assert len(flaws(a, b)) == 1
    # It gave it up before.
    assert flaws(a, beat(5, "a", 2, 3, owned=told(P)), b) == []
    # It left, or came back as a new member.
    assert flaws(a, beat(5, "a", -1), b) == []
    assert flaws(a, beat(5, "a", 0, 3, assigned=told(P)), b) == []
    # Its session is over.
    assert flaws(a, beat(11 * SECOND, "b", 0, 3, assigned=told(Q))) == []
    # It had too little time to give it up, and then enough.
    asked = beat(2 * SECOND, "a", 2, 2, assigned=told(P))
    alive = beat(6 * SECOND, "a", 2, 2, owned=told(P, Q))
    assert len(flaws(a, asked, alive, beat(6 * SECOND, "b", 0, 3, assigned=told(Q)))) == 1
    assert flaws(a, asked, alive, beat(8 * SECOND, "b", 0, 3, assigned=told(Q))) == []
    # Then it has lost the others, too.
    assert flaws(a, asked, alive, beat(8 * SECOND, "b", 0, 3, assigned=told(P))) == []
    assert len(flaws(a, alive, beat(8 * SECOND, "b", 0, 3, assigned=told(P)))) == 1


def test_a_session_may_begin_anew_with_a_life_of_the_broker() -> None:
    a = beat(0, "a", 0, 2, assigned=told(P, Q))
    alive = beat(11 * SECOND, "a", 2, 2, owned=told(P, Q), assigned=told(P))
    # It has to give up Q all the same, and then loses P for that.
    b = beat(17 * SECOND, "b", 0, 3, assigned=told(P))
    assert flaws(a, alive, b) == []
    given_up = beat(12 * SECOND, "a", 2, 3, owned=told(P))
    assert len(flaws(a, alive, given_up, b)) == 1


def test_what_a_lost_heartbeat_gave_up_must_be_given_up_still() -> None:
    a, asked = beat(0, "a", 0, 2, assigned=told(P, Q)), beat(1, "a", 2, 2, assigned=told(P))
    lost = beat(2, "a", 2, owned=told(P), code=None, ended_ns=FOREVER)
    b = beat(6 * SECOND, "b", 0, 3, assigned=told(P))
    assert flaws(a, asked, lost, b) == []
    lost.code, lost.told_epoch = 0, 2
    assert len(flaws(a, asked, lost, b)) == 1


def test_a_static_member_may_come_back_in_the_other_protocol() -> None:
    a = beat(0, "a", 0, 2, assigned=told(P), instance_id="i")
    b = beat(10, "b", 0, 3, assigned=told(P))
    assert len(flaws(a, b)) == 1
    assert flaws(a, Acted(who="a", group="g", began_ns=5, instance_id="i"), b) == []
    assert len(flaws(a, Acted(who="c", group="g", began_ns=5, instance_id="j"), b)) == 1


def test_a_join_in_the_other_protocol_may_begin_a_group_without_members_anew() -> None:
    a, left = beat(0, "a", 0, 2, assigned=told(P)), beat(5, "a", -1)
    b = beat(10, "b", 0, 2, assigned=told(P))
    assert len(flaws(a, left, b)) == 1
    assert flaws(a, left, Acted(who="c", group="g", began_ns=7), b) == []


def test_an_answer_that_was_lost_may_have_asked_to_give_up() -> None:
    a = beat(0, "a", 0, 2, assigned=told(P, Q))
    lost = beat(1 * SECOND, "a", 2, code=None)
    asked = beat(4 * SECOND, "a", 2, 2, assigned=told(P))
    b = beat(7 * SECOND, "b", 0, 3, assigned=told(Q))
    assert flaws(a, lost, asked, b) == []
    assert len(flaws(a, asked, b)) == 1
    # It never heard of that: its time is over at 6 s, although its session is not.
    assert flaws(a, lost, b) == []
    assert len(flaws(a, lost, beat(5 * SECOND, "b", 0, 3, assigned=told(Q)))) == 1


def test_epochs_of_a_member_do_not_go_back() -> None:
    assert len(flaws(beat(0, "a", 0, 5), beat(2, "a", 5, 4))) == 1
    assert flaws(beat(0, "a", 0, 5), beat(2, "a", 0, 4)) == []


def test_a_description_is_not_older_than_what_members_know() -> None:
    member = DescribedMember(member_id="a", epoch=3)
    stable = described("Stable", member, epoch=3, target_epoch=3)
    assert flaws(beat(0, "a", 0, 3), stable) == []
    assert len(flaws(beat(0, "a", 0, 4), stable)) == 1


@pytest.mark.parametrize(
    "event",
    [
        described("Empty", DescribedMember(member_id="a"), epoch=2, target_epoch=2),
        described("Stable", epoch=2, target_epoch=2),
        described("Reconciling", DescribedMember(member_id="a"), epoch=3, target_epoch=2),
        described("Assigning", DescribedMember(member_id="a"), epoch=2, target_epoch=2),
        described("Stable", DescribedMember(member_id="a", epoch=1), epoch=2, target_epoch=2),
        described("Joyful", DescribedMember(member_id="a"), epoch=2, target_epoch=2),
        described("Empty", DescribedMember(member_id="a"), is_consumer=False),
        described("Dead", DescribedMember(member_id="a"), is_consumer=False),
        described("Empty", DescribedMember(member_id="a", has_metadata=True), is_consumer=False),
        described(
            "Reconciling",
            DescribedMember(member_id="a", epoch=2, owned=told(P)),
            DescribedMember(member_id="b", epoch=2, owned=told(P)),
            epoch=2,
            target_epoch=2,
        ),
        described(
            "Stable",
            DescribedMember(member_id="a", epoch=2, owned=told(P), target=told(P, Q)),
            epoch=2,
            target_epoch=2,
        ),
    ],
)
def test_members_that_do_not_go_with_the_state(event: Described) -> None:
    assert flaws(event)


def test_refused_descriptions_say_nothing() -> None:
    assert flaws(described("", code=69)) == []


def test_only_a_group_that_waits_for_members_may_be_described_without_any():
    for state, found in (("PreparingRebalance", []), ("Empty", []), ("Stable", ["0 members"])):
        texts = flaws(described(state, is_consumer=False))
        assert [text.rpartition(": ")[2] for text in texts] == found, state
