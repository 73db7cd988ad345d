"""A broker that dies in mid-transaction: after the restart each transaction is whole.

Every write of a scripted life is the last one, once by a kill and once by a power cut in each of
its shapes: while the transaction is open, while it is decided, between its markers, and after.
"""

import pytest

from tests.support.thorough import some_of
from tests.support.transactional_life import (
    TV1,
    Client,
    count_writes,
    dies_in_start,
    judge,
    killed_at,
    start,
)


async def commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True)


async def abort(client: Client) -> None:
    await client.transaction(b"one", is_commit=False)


async def older_commit(client: Client) -> None:
    await client.transaction(b"one", is_commit=True, version=TV1)


async def unlike(client: Client) -> None:
    """Ends contradict the ones before, and the data of the next one are not waited for."""
    await client.transaction(b"one", is_commit=True)
    await client.transaction(b"two", is_commit=False, acks=1)
    await client.transaction(b"three", is_commit=True, acks=1)


async def mixed(client: Client) -> None:
    await client.transaction(b"one", is_commit=False, version=TV1)
    await client.transaction(b"two", is_commit=True, acks=1)


SCRIPTS = [commit, abort, older_commit, unlike, mixed]
SHAPES = ["kill", "lost", "kept", "torn", "zeros"]


def crash(filesystem, shape):
    if shape == "kill":
        filesystem.kill()
    else:
        filesystem.crash(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_transaction_is_whole_wherever_the_broker_dies(script, shape):
    for nth in some_of(range(count_writes(script) + 1), SHAPES.index(shape)):
        filesystem, client = killed_at(script, nth)
        crash(filesystem, shape)
        broker, peer = start(filesystem)
        client.producer.rig = peer
        try:
            broker.run(judge(peer, client))
        except AssertionError as error:
            raise AssertionError(f"after {nth} writes: {error}") from error
        assert broker.surprises == []
        broker.end()


@pytest.mark.parametrize("shape", ["lost", "kept"])
@pytest.mark.parametrize("script", [commit, older_commit])
def test_a_start_that_dies_too_leaves_the_same_evidence(script, shape):
    """Whatever it has written by then: the third life finds the transaction whole."""
    for nth in some_of(range(4, count_writes(script) + 1), SHAPES.index(shape)):
        at = 0
        while True:
            filesystem, client = killed_at(script, nth)
            crash(filesystem, shape)
            has_died = dies_in_start(filesystem, at)
            crash(filesystem, shape)
            broker, peer = start(filesystem)
            client.producer.rig = peer
            try:
                broker.run(judge(peer, client))
            except AssertionError as error:
                raise AssertionError(f"after {nth} writes, then {at}: {error}") from error
            broker.end()
            if not has_died:
                break
            at += 3
