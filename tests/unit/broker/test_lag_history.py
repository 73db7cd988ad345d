"""How far groups were behind: a number each ten seconds, and about how long ago records arrived."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.exposition import lag_history
from broker.exposition.lag_history import MARKS, LagHistory, Marks
from broker.lifecycle.shutdown import EXIT_CLEAN
from protocol.records import build
from tests.support.console_client import ConsoleBroker
from tests.support.console_groups import commit
from tests.unit.broker.test_console_records import append, records


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data", "offsets.topic.num.partitions=1")
    await found.post("topics/create", {"name": "one", "partitions": 2})
    await found.get("overview")
    yield found
    assert await found.stop() == EXIT_CLEAN


async def test_lags_are_kept_and_shown(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_history, "KEPT", 4)
    history = LagHistory(running.services)
    await history.sample()
    assert history.of("readers") == []
    append(running, "one", build(records(9)))
    await commit(running, "readers", "one", {0: 4, 1: 0})
    await history.sample()
    await history.sample()  # no request has come: nothing can have changed
    append(running, "one", build(records(3)), 1)
    await commit(running, "readers", "one", {0: 9})
    await history.sample()
    assert history.of("readers") == [5, 5, 3]
    for _ in range(3):
        await history.sample()
    assert history.of("readers") == [3, 3, 3, 3]
    own = running.broker._serving._http
    assert own is not None
    await own._surroundings.history.lags.sample()
    shown = (await running.get("group?id=readers"))["lag_history"]
    assert (shown["step_s"], shown["lags"][-1]) == (10, 3)
    assert shown["last_ms"] > 0


async def test_groups_and_partitions_are_bounded_and_gone_ones_forgotten(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_history, "GROUPS_MAX", 2)
    monkeypatch.setattr(lag_history, "PARTITIONS_MAX", 1)
    history = LagHistory(running.services)
    append(running, "one", build(records(2)))
    for group in ("a", "b", "c"):
        await commit(running, group, "one", {0: 0, 1: 0})
    await history.sample()
    assert [bool(history.of(group)) for group in ("a", "b", "c")] == [True, True, False]
    now_ms = running.services.clock.now_ms()
    assert history.behind_ms("one", 0, 2, now_ms) == 0
    assert history.behind_ms("one", 1, 0, now_ms) is None
    await running.post("groups/delete", {"group": "a", "confirm": "a"})
    await history.sample()
    assert [bool(history.of(group)) for group in ("a", "b", "c")] == [False, True, True]


def test_a_records_age_is_read_between_marks() -> None:
    marks = Marks()
    marks.add(100, 1_000)
    marks.add(200, 11_000)
    assert marks.age_ms(150, 200, 11_000) == 5_000
    assert marks.age_ms(200, 200, 11_000) == 0
    assert marks.age_ms(50, 200, 11_000) == 10_000  # at least
    assert marks.age_ms(200, 300, 21_000) == 10_000  # the first since the last mark
    assert marks.age_ms(250, 300, 21_000) == 5_000


def test_a_quiet_time_is_one_pair_of_marks() -> None:
    marks = Marks()
    for at in range(100):
        marks.add(100, at * 10_000)
    marks.add(101, 1_000_000)
    assert marks.age_ms(100, 101, 1_000_000) == 10_000
    assert len(marks._ends) == 3


def test_marks_are_bounded_and_those_of_late_are_dense() -> None:
    marks = Marks()
    for at in range(1_000):
        marks.add(at * 10, at * 10_000)
    assert len(marks._ends) <= MARKS
    for offset in (9_980, 9_900, 5_000, 0):
        age_ms = 9_990_000 - offset * 1_000
        assert abs(marks.age_ms(offset, 9_990, 9_990_000) - age_ms) <= 1_000
    marks.add(5, 10_000_000)  # the topic was made anew
    assert marks.age_ms(0, 5, 10_001_000) == 1_000
