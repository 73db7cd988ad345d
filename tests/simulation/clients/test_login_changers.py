"""The judge of users that come, change and go: sound histories pass, and bugs are found."""

import dataclasses
from typing import Any

import pytest
from jwt.algorithms import OKPAlgorithm

from broker.network.logins.session import LoginSession
from broker.security.oauth import token_validator
from broker.security.oauth.token_rules import Believed
from broker.security.sasl import plain
from broker.security.users.users import Users
from tests.simulation.history import tell
from tests.simulation.plan import (
    LISTENERS,
    LOGIN_LISTENERS,
    LOGIN_MECHANISMS,
    ClientPlan,
    FaultPlan,
    Plan,
    write_plan,
)

KIND = "login changer"
HISTORIES = 3
FAULTS = (FaultPlan("kill 1", "kill", 700), FaultPlan("power cut 2", "power cut", 2_500))


def plan_of(number: int, faults: tuple[FaultPlan, ...] = (), reauth_ms: int = 200) -> Plan:
    """A history in which only users change, and sessions end."""
    found = write_plan(f"logins-{number}")
    settings = {
        **found.settings,
        "listeners": f"{LISTENERS},{LOGIN_LISTENERS}",
        "sasl.enabled.mechanisms": LOGIN_MECHANISMS[-1 - number % len(LOGIN_MECHANISMS)],
        "barnabas.sasl.plain.users": "scram",
        "connections.max.reauth.ms": str(reauth_ms),
    }
    clients = (ClientPlan("producer 1", "producer", 5), ClientPlan(f"{KIND} 1", KIND, 8))
    return dataclasses.replace(found, settings=settings, clients=clients, faults=faults)


def found(**options: Any) -> list[str]:

    return [one for number in range(HISTORIES) for one in tell(plan_of(number, **options)).failures]


@pytest.mark.parametrize("number", range(HISTORIES))
@pytest.mark.parametrize("faults", [(), FAULTS], ids=["sound", "ends"])
def test_logins_and_removals_are_obeyed(number: int, faults: tuple[FaultPlan, ...]) -> None:
    assert tell(plan_of(number, faults)).failures == []


def test_removed_users_that_stay_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoginSession, "is_removed", False)
    failures = found(reauth_ms=0)
    assert any("is served whose user was removed" in one for one in failures)


def test_sessions_without_an_end_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LoginSession, "is_over", False)
    assert any("served behind its end" in one for one in found())


def test_passwords_that_are_not_looked_at_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_has_derived", lambda *_: True)
    assert any("logs in by PLAIN with" in one for one in found())


def test_tokens_that_are_believed_after_their_time_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def believed(claims: Any, _rules: Any, now_ms: int) -> Believed:
        return Believed(claims["sub"], now_ms + 60_000)

    monkeypatch.setattr(token_validator, "check_claims", believed)
    assert any("logs in by OAUTHBEARER with 'old'" in one for one in found())


def test_tokens_of_another_key_that_are_believed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OKPAlgorithm, "verify", lambda *_: True)
    assert any("logs in by OAUTHBEARER with 'strange'" in one for one in found())


def test_users_that_cannot_log_in_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_has_derived", lambda *_: False)
    assert any("is refused by PLAIN with" in one for one in found())


def test_changes_that_are_answered_and_not_recorded_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def alter(self: Users, removals: Any, credentials: Any, *, by: str) -> dict[str, None]:
        return {one.name: None for one in (*removals, *credentials)}

    monkeypatch.setattr(Users, "alter", alter)
    assert any(" is refused by " in one for one in found())
