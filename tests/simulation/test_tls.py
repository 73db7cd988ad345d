"""Histories with TLS: sound ones pass, what clients say over it is judged, and bugs are found."""

import dataclasses
import ssl
from typing import Any

import pytest

from broker.network.tls_connection import TlsConnection
from tests.simulation import tls_peer
from tests.simulation.history import History, tell
from tests.simulation.plan import LISTENERS, TLS_LISTENER, ClientPlan, FaultPlan, Plan, write_plan

HISTORIES = 2
FAULTS = (FaultPlan("kill 1", "kill", 700), FaultPlan("network cut 2", "network cut", 300))


def plan_of(number: int, faults: tuple[FaultPlan, ...] = ()) -> Plan:
    """A history of clients of which many come over TLS."""
    found = write_plan(f"tls-{number}")
    settings = {**found.settings, "listeners": f"{LISTENERS},{TLS_LISTENER}"}
    kinds = ("producer", "fetcher", "leaver", "session fetcher", "idempotent")
    clients = tuple(ClientPlan(f"{kind} {n}", kind, 8) for n in (1, 2) for kind in kinds)
    return dataclasses.replace(found, settings=settings, clients=clients, faults=faults)


@pytest.mark.parametrize("number", range(HISTORIES))
@pytest.mark.parametrize("faults", [(), FAULTS], ids=["sound", "ends"])
def test_clients_over_tls_are_served(number: int, faults: tuple[FaultPlan, ...]) -> None:
    assert tell(plan_of(number, faults)).failures == []


def metrics_of(plan: Plan) -> Any:
    """Play a history; return the counts of its first broker."""
    history = History(plan)
    history.panel.begin()
    try:
        history.play()
    finally:
        history.panel.end()
    return history.context.lives[0].broker._assembly.services.metrics


def test_some_come_over_tls() -> None:
    metrics = metrics_of(plan_of(0))
    assert metrics.tls_handshakes > 1
    assert metrics.tls_handshakes_failed == metrics.tls_handshakes_now == 0


def test_clients_trust_the_simulated_authority_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_peer, "client_context", lambda: ssl.create_default_context())
    metrics = metrics_of(plan_of(0))
    assert metrics.tls_handshakes == metrics.tls_handshakes_now == 0
    assert metrics.tls_handshakes_failed > 1


def test_answers_that_are_sent_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = TlsConnection.flush

    def twice(self: TlsConnection) -> None:
        self._out *= 2
        flush(self)

    monkeypatch.setattr(TlsConnection, "flush", twice)
    found = [one for number in range(HISTORIES) for one in tell(plan_of(number)).failures]
    assert any("has the correlation id" in one or "to nothing" in one for one in found)
