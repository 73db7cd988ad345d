"""What time ends: no step of it holds up the loop."""

import asyncio
from itertools import pairwise

from broker.transactions import timeouts
from broker.transactions.transaction import Transaction
from tests.support.broker_rig import Rig
from tests.support.transaction_client import SETTINGS, begin


async def test_ids_that_expire_are_freed_a_few_at_a_time(tmp_path, monkeypatch):
    """To free 100,000 of them took 30 ms and more of the loop."""
    rig = Rig(tmp_path, **SETTINGS)
    await begin(rig)
    transactions = rig.services.transactions
    freed: list[str] = []

    class Counted(Transaction):
        def __del__(self) -> None:
            freed.append(self.transactional_id)

    for number in range(40):
        made = Counted(f"id-{number}", 9_000 + number, 60_000)
        made.epoch = made.updated_ms = 0
        transactions.store.put(made)
    del made
    monkeypatch.setattr(timeouts, "TOMBSTONES_PER_BATCH", 2)
    freed_in_turns = [0]
    sleep = asyncio.sleep

    async def turn(seconds):
        freed_in_turns.append(len(freed))
        await sleep(seconds)

    monkeypatch.setattr(timeouts.asyncio, "sleep", turn)
    await timeouts.expire_ids(transactions, rig.services.metrics)
    freed_in_turns.append(len(freed))
    assert freed_in_turns[-1] == 40
    at_once = max(after - before for before, after in pairwise(freed_in_turns))
    assert at_once <= 4, "those of a batch, and what held on to the one before"
    await rig.close()
