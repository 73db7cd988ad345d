"""The lengths of the pauses between attempts."""

from __future__ import annotations

import asyncio

import pytest

from client.msgpack.backoff import Backoff


@pytest.fixture
def pauses(monkeypatch):
    found = []

    async def sleep(seconds):
        found.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return found


async def test_a_pause_doubles_up_to_the_maximum_and_restarts_after_a_success(pauses):
    backoff = Backoff()
    assert not backoff.has_paused
    for _ in range(6):
        await backoff.pause()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert (backoff.has_paused, backoff.next_s) == (True, 1.0)
    backoff.reset()
    assert (backoff.has_paused, backoff.next_s) == (False, 0.1)


async def test_the_maximum_is_configurable(pauses):
    backoff = Backoff(5.0)
    for _ in range(8):
        await backoff.pause()
    assert pauses[-2:] == [5.0, 5.0]
