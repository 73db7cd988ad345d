"""Time limits that a busy machine stretches."""

import os
import time

import pytest

from tests.support.patience import STRETCH_MAX, Limit, stretch


@pytest.mark.parametrize(
    ("load", "niceness", "expected"),
    [
        (0.0, 0, 1.0),
        (2.0, 10, 1.0),  # as many threads as processors
        (6.0, 0, 3.0),
        (6.0, 10, 6.0),
        (500.0, 0, STRETCH_MAX),
    ],
)
def test_more_threads_than_processors_take_longer(
    monkeypatch: pytest.MonkeyPatch, load: float, niceness: int, expected: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getpriority", lambda _which, _who: niceness)
    assert stretch() == expected


def test_a_limit_goes_by_the_load_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, load = 100.0, 1.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(os, "getpriority", lambda _which, _who: 0)
    limit, short = Limit(10), Limit(10, 1.5)
    now_s = 109.0
    assert not limit.is_over
    now_s = 111.0
    assert limit.is_over
    load = 2.0
    assert (limit.is_over, short.is_over) == (False, False)
    now_s = 116.0
    assert (limit.is_over, short.is_over) == (False, True)
    now_s = 121.0
    assert limit.is_over
