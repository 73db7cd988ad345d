"""The judge of committed offsets: what it must flag, and near misses that it must not."""

from __future__ import annotations

from typing import Any

from tests.simulation.group_events import FOREVER, Commit, Event, Fetched, Removed
from tests.simulation.judges.offsets import judge


def commit(began: int, ended: int, offset: int, code: int | None = 0, **more: Any) -> Commit:
    return Commit(
        who="a",
        group="g",
        began_ns=began,
        ended_ns=FOREVER if code is None else ended,
        code=code,
        topic="t",
        partition=0,
        offset=offset,
        metadata="",
        **more,
    )


def read(began: int, ended: int, offset: int, metadata: str = "") -> Fetched:
    return Fetched(
        who="b",
        group="g",
        began_ns=began,
        ended_ns=ended,
        code=0,
        topic="t",
        partition=0,
        offset=offset,
        metadata=metadata,
    )


def removed(began: int, ended: int, code: int | None = 0) -> Removed:
    ended = FOREVER if code is None else ended
    return Removed(who="c", group="g", began_ns=began, ended_ns=ended, code=code, topic="t")


def flaws(*events: Event, **arguments: Any) -> list[str]:
    return [text.split(": ")[1] for text in judge(events, **arguments)]


def test_the_last_offset_is_read() -> None:
    assert flaws(commit(0, 1, 7), commit(2, 3, 8), read(4, 5, 8)) == []


def test_an_acknowledged_commit_does_not_go_back() -> None:
    assert flaws(commit(0, 1, 7), commit(2, 3, 8), read(4, 5, 7)) == ["went back"]


def test_commits_at_the_same_time_have_any_order() -> None:
    assert flaws(commit(0, 3, 7), commit(1, 2, 8), read(4, 5, 7), read(6, 7, 7)) == []


def test_but_not_two_orders() -> None:
    both = [commit(0, 9, 7), commit(0, 9, 8)]
    assert flaws(*both, read(3, 4, 7), read(5, 6, 8)) == []
    assert flaws(*both, read(3, 4, 7), read(5, 6, 8), read(7, 8, 7)) == ["went back"]
    assert flaws(*both, read(10, 11, 7), read(12, 13, 8)) == ["went back"]


def test_what_was_read_stays() -> None:
    lost = [commit(0, 1, 7), commit(2, 3, 8, None), read(4, 5, 8), read(6, 7, 7)]
    assert flaws(*lost) == ["went back"]
    assert flaws(*lost[:2], lost[3]) == []


def test_a_commit_in_flight_happens_before_the_power_is_cut_or_never() -> None:
    events = [commit(0, 0, 7, None), commit(20, 21, 8), read(22, 23, 7)]
    assert flaws(*events) == []
    assert flaws(*events, ends_ns=[10]) == ["went back"]


def test_offsets_that_nobody_sent() -> None:
    assert flaws(commit(0, 1, 7), read(2, 3, 9)) == ["b read offset 9, which nobody sent"]
    assert flaws(commit(5, 6, 7), read(2, 3, 7)) == ["b read offset 7 before a sent it"]
    assert flaws(commit(0, 1, 7, 22), read(2, 3, 7)) == [
        "b read offset 7 of a commit refused with 22"
    ]
    assert flaws(commit(0, 1, 7, 16), read(2, 3, 7)) == []  # the write failed late


def test_metadata_belong_to_their_offset() -> None:
    assert flaws(commit(0, 1, 7), read(2, 3, 7, "x")) == [
        "b read offset 7 with metadata 'x', expected ''"
    ]


def test_offsets_do_not_vanish() -> None:
    assert flaws(commit(0, 1, 7), read(2, 3, -1)) == ["lost"]
    assert flaws(commit(0, 5, 7), read(2, 3, -1)) == []
    assert flaws(commit(0, 1, 7), removed(2, 3), read(4, 5, -1)) == []
    assert flaws(commit(0, 1, 7), removed(2, 3, None), read(4, 5, -1)) == []
    assert flaws(commit(0, 1, 7), removed(2, 3, 69), read(4, 5, -1)) == ["lost"]


def test_removed_offsets_do_not_come_back() -> None:
    assert flaws(commit(0, 1, 7), removed(2, 3), read(4, 5, 7)) == ["went back"]
    assert flaws(commit(0, 1, 7), removed(2, 3, None), read(4, 5, 7)) == []
    assert flaws(commit(0, 1, 7), removed(2, 3), read(4, 5, -1), read(6, 7, 7)) == [
        "went back",
        "went back",
    ]


def test_a_removal_before_the_commit_is_no_reason() -> None:
    assert flaws(removed(0, 1), commit(2, 3, 7), read(4, 5, -1)) == ["lost"]
    late = [removed(0, 1, None), commit(20, 21, 7), read(22, 23, -1)]
    assert flaws(*late) == []
    assert flaws(*late, ends_ns=[10]) == ["lost"]


def test_offsets_expire_by_the_setting_and_by_their_own_retention() -> None:
    assert flaws(commit(0, 1, 7), read(50, 51, -1), retention_ns=50) == []
    assert flaws(commit(0, 1, 7), read(40, 41, -1), retention_ns=50) == ["lost"]
    own = commit(0, 1, 7, retention_ms=1)
    assert flaws(own, read(900_000, 900_001, -1)) == []
    assert flaws(own, read(700_000, 700_001, -1)) == ["lost"]
