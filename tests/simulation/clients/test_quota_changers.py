"""The judge of quotas that change: sound histories pass, and two bugs are found."""

import dataclasses

import pytest

from broker.metadata.quota_image import QuotaEntity
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.quota_table import QuotaTable
from tests.simulation.history import tell
from tests.simulation.plan import ClientPlan, Plan, write_plan

KIND = "quota changer"


def plan_of(number: int) -> Plan:
    """A history without faults in which only quotas change."""
    clients = (ClientPlan("producer 1", "producer", 5), ClientPlan(f"{KIND} 1", KIND, 4))
    return dataclasses.replace(write_plan(f"quotas-{number}"), clients=clients, faults=())


@pytest.mark.parametrize("number", range(3))
def test_quotas_that_change_are_obeyed(number: int) -> None:
    assert tell(plan_of(number)).failures == []


def test_a_quota_that_does_not_throttle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientQuotas, "_throttle_ms", lambda *_: 0)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("are not throttled" in one for one in failures)


def test_a_quota_that_outlives_its_removal_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    put = QuotaTable.set

    def sets(table: QuotaTable, entity: QuotaEntity, limit: float | None) -> None:
        if limit is not None:
            put(table, entity, limit)

    monkeypatch.setattr(QuotaTable, "set", sets)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("without a quota" in one for one in failures)
