"""Requests that name very many things, and the turns of the loop that handling them takes."""

import asyncio

from tests.support.fake_connection import FakeConnection

MANY = 20_000
NAMES = [f"n{number}" for number in range(MANY)]
TURNS_MIN = 4


def asked(rig, body, version):
    """Return a request and the services, as a handler gets them."""
    request = FakeConnection().request(body, api_key=body.MESSAGE.api_key, version=version)
    return request, rig.services


async def turns_during(coroutine):
    """Return what a coroutine returns, and how many turns another task has had meanwhile."""
    task = asyncio.ensure_future(coroutine)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return task.result(), turns
