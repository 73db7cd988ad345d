"""Sockets that are closed late, early if there are too many, and at the stop."""

import asyncio
import socket

import pytest

from broker.network import held_sockets as module
from broker.network.held_sockets import HeldSockets


async def test_a_socket_is_closed_after_its_time() -> None:
    held = HeldSockets()
    ours, theirs = socket.socketpair()
    held.hold(ours, 20)
    assert ours.fileno() >= 0
    async with asyncio.timeout(5):
        while ours.fileno() >= 0:
            await asyncio.sleep(0.005)
    assert len(held) == 0
    assert theirs.recv(1) == b""
    theirs.close()


async def test_of_too_many_the_oldest_is_closed_and_at_the_stop_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HELD_MAX", 2)
    held = HeldSockets()
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, _ in pairs:
        held.hold(ours, 60_000)
    assert [ours.fileno() >= 0 for ours, _ in pairs] == [False, True, True]
    held.close_all()
    assert len(held) == 0
    assert all(ours.fileno() < 0 for ours, _ in pairs)
    for _, theirs in pairs:
        theirs.close()
