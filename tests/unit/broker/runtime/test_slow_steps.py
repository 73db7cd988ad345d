"""The watchdog names slow steps, and does nothing when it is off."""

import asyncio
import logging
import threading
from collections.abc import Callable
from types import FunctionType

import pytest

from broker.runtime import slow_steps
from broker.runtime.clock import SystemClock
from broker.runtime.slow_steps import SlowSteps


def hold_until(is_over: Callable[[], bool]) -> None:
    while not is_over():
        pass


# As if the broker's code ran.
long_step = FunctionType(hold_until.__code__, {"__name__": "broker.handlers.made_up"}, "hold_until")


async def test_a_long_step_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Event()
    plain = SlowSteps._names

    def names(watchdog: SlowSteps) -> str:
        found = plain(watchdog)
        if "made_up" in found:
            seen.set()
        return found

    monkeypatch.setattr(SlowSteps, "_names", names)
    watchdog = SlowSteps(5, SystemClock())
    watchdog.start()
    with caplog.at_level(logging.WARNING):
        long_step(seen.is_set)
        async with asyncio.timeout(30):
            while "made_up" not in caplog.text:
                await asyncio.sleep(0.001)
    watchdog.stop()
    assert "a step of the loop took" in caplog.text
    assert "broker.handlers.made_up.hold_until" in caplog.text


async def test_it_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_steps.threading, "Thread", None)
    SlowSteps(0, SystemClock()).start()
