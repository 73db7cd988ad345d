"""The judge of users that come and go: sound histories pass, and two bugs are found."""

import dataclasses

import pytest

from broker.network.logins.session import LoginSession
from tests.simulation.history import tell
from tests.simulation.plan import LISTENERS, LOGIN_LISTENER, ClientPlan, Plan, write_plan

KIND = "login changer"


def plan_of(number: int) -> Plan:
    """A history without faults in which only users change, and sessions end."""
    found = write_plan(f"logins-{number}")
    settings = {
        **found.settings,
        "listeners": f"{LISTENERS},{LOGIN_LISTENER}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "connections.max.reauth.ms": "200",
    }
    clients = (ClientPlan("producer 1", "producer", 5), ClientPlan(f"{KIND} 1", KIND, 6))
    return dataclasses.replace(found, settings=settings, clients=clients, faults=())


@pytest.mark.parametrize("number", range(3))
def test_logins_and_removals_are_obeyed(number: int) -> None:
    assert tell(plan_of(number)).failures == []


def test_removed_users_that_stay_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoginSession, "is_removed", False)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("is served whose user was removed" in one for one in failures)


def test_sessions_without_an_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoginSession, "is_over", False)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("served behind its end" in one for one in failures)
