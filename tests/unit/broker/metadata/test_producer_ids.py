"""Producer ids are unique, and all waiting callers share one fetched block."""

import asyncio

import pytest

from broker.metadata.producer_ids import ProducerIds


async def test_concurrent_callers_share_blocks_and_never_an_id() -> None:
    fetched = 0

    async def next_block() -> range:
        nonlocal fetched
        start, fetched = fetched * 10, fetched + 1
        await asyncio.sleep(0)
        return range(start, start + 10)

    ids = ProducerIds(next_block)
    given = await asyncio.gather(*(ids.next() for _ in range(25)))
    assert sorted(given) == list(range(25))
    assert fetched == 3


async def test_a_block_that_cannot_be_recorded_provides_no_ids() -> None:
    outcomes = [OSError("no space"), range(5, 6)]

    async def next_block() -> range:
        outcome = outcomes.pop(0)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    ids = ProducerIds(next_block)
    with pytest.raises(OSError, match="no space"):
        await ids.next()
    assert await ids.next() == 5
