"""Connections that wait for a turn of the loop: a few go on in each, and none is forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any

from broker.network.held_for_turns import HeldForTurns
from broker.network.reading import Hold


async def test_a_few_go_on_in_each_turn_in_their_order_although_no_turn_is_used() -> None:
    released: list[int] = []
    begun: list[int] = []
    held = HeldForTurns(lambda: begun.append(len(released)), 3)
    for number in range(7):
        connection: Any = SimpleNamespace(
            reading=SimpleNamespace(hold=lambda reason: None),
            release=lambda _, number=number: released.append(number),
        )
        held.add(connection)
    for expected in (3, 6, 7, 7):
        await asyncio.sleep(0)
        assert released == list(range(expected))
    assert begun == [0, 3, 6]


async def test_one_that_fails_does_not_keep_the_others() -> None:
    released: list[int] = []

    def fail(_: int) -> None:
        raise ZeroDivisionError

    held = HeldForTurns(lambda: None, 1)
    for release in (fail, released.append):
        connection: Any = SimpleNamespace(
            reading=SimpleNamespace(hold=lambda reason: None), release=release
        )
        held.add(connection)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert released == [Hold.DECODING]
