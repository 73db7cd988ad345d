"""Commits of offsets that wait, for a thread or a transaction, are authorised again."""

import asyncio
from typing import Any

import pytest

from broker.handlers import offset_commit, txn_offset_commit
from broker.transactions.transaction_coordinator import TransactionCoordinator
from tests.support.rights_cases import COMMIT, GROUP, IN_TXN, READ, TOPIC, TXN, WRITE, Grant, grant
from tests.support.rights_rig import RightsRig, codes

TOPICS = [{"name": "t", "partitions": [COMMIT]}]
RIGHTS = (grant(GROUP, READ), grant(TOPIC, READ), grant(TXN, WRITE))
TAKEN = [(RIGHTS[1:], 30), ((RIGHTS[0], RIGHTS[2]), 29)]


@pytest.mark.parametrize(("left", "code"), TAKEN)
async def test_offsets_that_a_thread_prepares(
    rights: RightsRig, monkeypatch: Any, left: tuple[Grant, ...], code: int
) -> None:
    monkeypatch.setattr(offset_commit, "PARTITIONS_ON_THE_LOOP", 0)
    pool = rights.rig.services.pool
    run = pool.run

    async def taking(call: Any) -> Any:
        rights.allow(*left)
        return await run(call)

    monkeypatch.setattr(pool, "run", taking)
    rights.allow(*RIGHTS)
    ask = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": TOPICS}
    assert codes(await rights.ask("OFFSET_COMMIT", 8, **ask)) == [code]


@pytest.mark.parametrize(("left", "code"), [*TAKEN, (RIGHTS[:2], 53)])
@pytest.mark.parametrize("is_large", [False, True])
async def test_offsets_behind_a_transaction(
    rights: RightsRig, monkeypatch: Any, left: tuple[Grant, ...], code: int, *, is_large: bool
) -> None:
    ended = asyncio.Event()

    async def free() -> None:
        await ended.wait()

    monkeypatch.setattr(TransactionCoordinator, "line_up", lambda *_: free())
    if is_large:
        monkeypatch.setattr(txn_offset_commit, "PARTITIONS_ON_THE_LOOP", 0)
    rights.allow(*RIGHTS)
    ask = {**IN_TXN, "group_id": "g", "topics": TOPICS}
    waiting = asyncio.create_task(rights.ask("TXN_OFFSET_COMMIT", 5, **ask))
    await asyncio.sleep(0.01)
    rights.allow(*left)
    ended.set()
    assert codes(await waiting) == [code]
