"""A fetcher within a session: sound histories pass, and partitions that sleep on are found."""

import dataclasses

import pytest

from broker.partitions.purgatory import Purgatory
from tests.simulation.history import tell
from tests.simulation.plan import ClientPlan, Plan, write_plan

KIND = "session fetcher"


def plan_of(number: int) -> Plan:
    """A history without faults in which some producers write, and sessions read."""
    clients = tuple(
        ClientPlan(f"{kind} {place}", kind, 25)
        for place, kind in enumerate(("producer", "idempotent", KIND, KIND))
    )
    return dataclasses.replace(write_plan(f"sessions-{number}"), clients=clients, faults=())


@pytest.mark.parametrize("number", range(3))
def test_sessions_are_sound(number: int) -> None:
    assert tell(plan_of(number)).failures == []


def test_partitions_that_sleep_through_news_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Purgatory, "_wake", lambda *_: None)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("slept through news" in one for one in failures)
