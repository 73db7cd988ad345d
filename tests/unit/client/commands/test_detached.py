"""Detached blocking calls."""

import asyncio
import threading

import pytest

from client.commands.detached import detached


async def test_the_result_and_the_error_are_returned():
    assert await detached(lambda: 5) == 5
    with pytest.raises(OSError, match="full"):
        await detached(lambda: (_ for _ in ()).throw(OSError("full")))


async def test_a_cancelled_caller_does_not_wait_for_the_call():
    begun, released = threading.Event(), threading.Event()

    def call():
        begun.set()
        released.wait()

    waiting = asyncio.create_task(detached(call))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()
