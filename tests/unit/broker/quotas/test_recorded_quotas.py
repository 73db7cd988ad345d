"""Quotas are in use from their answer on, and after a restart. Changes take turns."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.quota_image import quota_entity
from broker.quotas import recorded_quotas
from broker.quotas.alterations import Alteration
from broker.quotas.recorded_quotas import PLANNED_HERE_MAX, USED_PER_TURN
from tests.support.broker_rig import Rig
from tests.support.quota_changes import alter_quotas

P = "producer_byte_rate"
C = "connection_creation_rate"


async def alter(rig: Rig, entity: Any, *, validate_only: bool = False, **values: Any) -> Any:
    asked = Alteration(quota_entity(entity), list(values.items()))
    outcomes = await alter_quotas(rig, [asked], validate_only=validate_only)
    return outcomes[asked.entity]


async def test_no_client_is_counted_until_one_has_a_quota(rig: Rig) -> None:
    quotas = rig.services.quotas
    assert quotas.clients is None
    assert await alter(rig, [("user", "a")], validate_only=True, producer_byte_rate=5.0) is None
    assert quotas.clients is None
    assert await alter(rig, [("ip", "10.0.0.1")], connection_creation_rate=5.0) is None
    assert quotas.clients is None
    assert await alter(rig, [("user", "a")], producer_byte_rate=5.0) is None
    first = quotas.clients
    assert first is not None
    assert await alter(rig, [("user", "a")], producer_byte_rate=None) is None
    assert quotas.clients is None
    assert await alter(rig, [("client-id", None)], producer_byte_rate=5.0) is None
    assert quotas.clients is first


async def test_addresses_and_names_get_their_rates_and_lose_them(rig: Rig) -> None:
    rates = rig.services.limits.rates
    assert rates is not None
    for name in ("10.0.0.1", "localhost", None):
        assert await alter(rig, [("ip", name)], connection_creation_rate=1.0) is None
    for address in ("10.0.0.1", "127.0.0.1", "9.9.9.9"):
        assert [rates.refusal_ms(address) > 0 for _ in range(11)] == [False] * 10 + [True]
    for name in ("10.0.0.1", "localhost", None):
        assert await alter(rig, [("ip", name)], connection_creation_rate=None) is None
    assert rates.refusal_ms("127.0.0.1") == 0
    assert not rates._by_address


async def test_they_survive_a_restart_names_included(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    assert await alter(rig, [("user", "a")], producer_byte_rate=5.0) is None
    assert await alter(rig, [("ip", "localhost")], connection_creation_rate=1.0) is None
    assert await rig.close()
    again = Rig(tmp_path / "data")
    rates = again.services.limits.rates
    assert again.services.quotas.clients is not None
    assert rates is not None
    async with asyncio.timeout(10):
        while not rates._by_address:
            await asyncio.sleep(0.005)
    assert rates._by_address in ({"127.0.0.1": 1.0}, {"::1": 1.0})
    assert await again.close()


async def test_addresses_are_not_walked_over_when_names_are_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients are served already, and there may be very many."""
    rig = Rig(tmp_path / "data")
    many = [Alteration((("ip", f"10.0.0.{number}"),), [(C, 5.0)]) for number in range(200)]
    await alter_quotas(rig, [*many, Alteration((("ip", "localhost"),), [(C, 1.0)])])
    assert await rig.close()
    again = Rig(tmp_path / "data")
    looked_at: list[str] = []
    monkeypatch.setattr(recorded_quotas, "literal_address", looked_at.append)
    rates = again.services.limits.rates
    assert rates is not None
    async with asyncio.timeout(10):
        while len(rates._by_address) == len(many):
            await asyncio.sleep(0.005)
    assert looked_at == ["localhost"]
    monkeypatch.undo()
    assert await again.close()


@pytest.mark.parametrize("count", [2, PLANNED_HERE_MAX + 1])
async def test_changes_take_turns(rig: Rig, count: int) -> None:
    """Each is checked against what those before it have made: no record is written twice."""
    asked = [Alteration((("user", f"u{number}"),), [(P, 5.0)]) for number in range(count)]
    before = rig.services.controller.metadata_log.end_offset
    await asyncio.gather(*(alter_quotas(rig, asked) for _ in range(3)))
    assert rig.services.controller.metadata_log.end_offset == before + count
    assert len(rig.services.controller.image.quotas.entities) == count


async def test_many_come_into_use_in_turns_in_the_order_of_their_records(rig: Rig) -> None:
    quotas, names = rig.services.quotas, [f"u{number}" for number in range(3 * USED_PER_TURN)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += bool(quotas._unused)
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    many = [Alteration((("user", name),), [(P, 5.0)]) for name in names]
    few = [Alteration((("user", name),), [(P, 7.0)]) for name in names[-2:]]
    await asyncio.gather(alter_quotas(rig, many), alter_quotas(rig, few))
    counting.cancel()
    assert turns >= 2
    assert quotas.clients is not None
    found = [quotas.clients._tables[P].of(name, "c") for name in names]
    assert [one and one.limit for one in found] == [5.0] * (len(names) - 2) + [7.0] * 2
    gone = [Alteration((("user", name),), [(P, None)]) for name in names]
    assert set((await alter_quotas(rig, gone)).values()) == {None}
    assert quotas.clients is None
    assert rig.services.controller.image.quotas.entities == {}


async def test_what_waits_for_the_disk_is_used_before_what_comes_later(
    rig: Rig,
) -> None:
    """A client that gives up lets the next change begin, but not overtake."""
    user = (("user", "u0"),)
    many = [Alteration((("user", f"u{number}"),), [(P, 5.0)]) for number in range(600)]
    first = asyncio.ensure_future(alter_quotas(rig, many))
    while not rig.services.controller.image.quotas.entities:
        await asyncio.sleep(0)
    first.cancel()
    await alter_quotas(rig, [Alteration(user, [(P, 9.0)])])
    assert rig.services.quotas.clients is not None
    found = [rig.services.quotas.clients._tables[P].of(f"u{number}", "c") for number in (0, 599)]
    assert [one and one.limit for one in found] == [9.0, 5.0]
