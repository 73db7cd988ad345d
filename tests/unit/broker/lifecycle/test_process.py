"""The settings that a broker makes for its process."""

import ctypes
import gc
import logging
import os
import resource
from collections.abc import Iterator

import pytest

from broker.lifecycle import process
from broker.maintenance.full_collections import NEVER


def test_the_descriptor_limit_is_raised_to_the_hard_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    for limits, expected in (((10, 20), [(20, 20)]), ((20, 20), [])):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        raised.clear()
        process.raise_descriptor_limit()
        assert raised == expected


def test_another_c_library_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, option: int, value: int) -> None:
            asked.append((option, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    process.return_large_blocks()
    assert asked == [(process.M_MMAP_THRESHOLD, process.LARGE_BLOCK_BYTES)]
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    process.return_large_blocks()


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    """The collector's own, which a test may change."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_existing_objects_are_frozen_for_the_collector(thresholds: tuple[int, int, int]) -> None:
    before = gc.get_freeze_count()
    kept: list[list[int]] = [[]]
    process.keep_from_collector()
    assert gc.get_threshold() == (*thresholds[:2], NEVER if thresholds[2] else 0)
    assert gc.get_freeze_count() > before
    assert all(one is not kept for one in gc.get_objects()), "it lists what is not exempt"
    assert gc.isenabled()


def test_log_lines_are_written_before_the_process_exits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[object] = []
    monkeypatch.setattr(logging, "shutdown", lambda: steps.append("written"))
    monkeypatch.setattr(os, "_exit", steps.append)
    process.leave(130)
    assert steps == ["written", 130]
