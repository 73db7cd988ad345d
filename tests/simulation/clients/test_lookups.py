"""What a trimmer has asked for bounds where a log may begin."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.clients.lookups import Trimmer
from tests.simulation.plan import ClientPlan
from tests.simulation.record import Record
from tests.support.history_checker import NEVER
from tests.support.log_ledger import HIGH_WATERMARK


@pytest.mark.parametrize(
    ("asked", "code", "start", "limit"),
    [
        (4, 0, 4, 4),
        (4, 0, 6, 6),  # another request was first
        (4, 56, -1, 4),
        (4, None, -1, 4),
        (-1, 0, 8, 8),
        (-1, 56, -1, NEVER),
        (-1, None, -1, NEVER),
        (1_000_008, 1, -1, 0),
    ],
)
def test_how_far_records_may_be_deleted(
    asked: int, code: int | None, start: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record()
    record.reached(("cut", 0), HIGH_WATERMARK, 8, 1)
    part = SimpleNamespace(error_code=code, low_watermark=start)

    async def ask(self: Any, body: Any, *_: Any) -> Any:
        assert body.topics[0].partitions[0].offset == asked
        topic = SimpleNamespace(partitions=[part])
        return None if code is None else SimpleNamespace(topics=[topic])

    chance: Any = SimpleNamespace(choice=lambda of: asked if asked in of else of[0])
    chance.randint = lambda _low, _high: asked
    world = SimpleNamespace(now_ns=1, chance=lambda _name: chance)
    monkeypatch.setattr(Trimmer, "ask", ask)
    monkeypatch.setattr(Trimmer, "failed", lambda *_: bool(code))
    monkeypatch.setattr(Trimmer, "__init__", lambda *_: None)
    trimmer = Trimmer(SimpleNamespace(), ClientPlan("t", "trimmer", 1))  # type: ignore[arg-type]
    trimmer.record, trimmer.world, trimmer.chance = record, world, chance  # type: ignore[assignment]
    trimmer.name = "t"
    topic: Any = SimpleNamespace(
        name="cut", key=lambda number: ("cut", number), is_compacted=False, is_young=False
    )
    asyncio.run(trimmer.delete(topic, 0))
    assert record.trims == {("cut", 0): [limit]}
