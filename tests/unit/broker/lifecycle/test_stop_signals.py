"""Each signal escalates the stop: stop, hurry, force."""

import asyncio
import os
import signal

import pytest

from broker.lifecycle import stop_signals
from broker.lifecycle.stop_signals import StopSignals


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
    before = {number: signal.getsignal(number) for number in stop_signals.STOPPING}
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
