"""Each signal escalates the stop: stop, hurry, force."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from broker.lifecycle import stop_signals
from broker.lifecycle.stop_signals import StopSignals

HANDLED = (*stop_signals.STOPPING, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _without_nohup() -> Iterator[None]:
    """Under nohup a test would inherit that SIGHUP is ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def asked(signals: StopSignals) -> list[bool]:
    return [event.is_set() for event in (signals.stop, signals.hurry, signals.force)]


async def test_three_signals_stop_hurry_and_force(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    signals = StopSignals()
    for count in range(5):
        assert asked(signals) == [count > 0, count > 1, count > 2]
        signals.received(signal.SIGINT)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "SIGINT",
        "SIGINT again",
        "SIGINT for the third time",
    ]


async def test_both_signals_of_the_process_are_handled_until_they_are_ignored() -> None:
    before = {number: signal.getsignal(number) for number in HANDLED}
    signals = StopSignals()
    signals.listen()
    try:
        for number, event in zip(stop_signals.STOPPING, (signals.stop, signals.hurry), strict=True):
            os.kill(os.getpid(), number)
            async with asyncio.timeout(5):
                await event.wait()
        stop_signals.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
        assert not signals.force.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("at_start", "now", "is_stopped"),
    [(False, False, False), (True, True, False), (True, False, True)],
)
async def test_a_hangup_reloads_unless_the_terminal_is_gone(
    monkeypatch: pytest.MonkeyPatch, at_start: bool, now: bool, is_stopped: bool
) -> None:
    before = {number: signal.getsignal(number) for number in HANDLED}
    monkeypatch.setattr(stop_signals, "has_terminal", lambda: at_start)
    signals = StopSignals()
    signals.listen()
    try:
        monkeypatch.setattr(stop_signals, "has_terminal", lambda: now)
        os.kill(os.getpid(), signal.SIGHUP)
        async with asyncio.timeout(5):
            await (signals.stop if is_stopped else signals.reload).wait()
        assert (signals.stop.is_set(), signals.reload.is_set()) == (is_stopped, not is_stopped)
    finally:
        stop_signals.ignore()
        for number, handler in before.items():
            signal.signal(number, handler)
