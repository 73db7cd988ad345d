"""Blocking calls that are left behind."""

import asyncio
import threading

import pytest

from client.commands.detached import detached


async def test_the_result_and_the_error_come_back():
    assert await detached(lambda: 5) == 5
    with pytest.raises(OSError, match="full"):
        await detached(lambda: (_ for _ in ()).throw(OSError("full")))


async def test_who_does_not_wait_any_more_is_not_held_up():
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
