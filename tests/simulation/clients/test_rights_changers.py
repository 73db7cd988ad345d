"""The judge of rights that change: sound histories pass, and three bugs are found."""

import dataclasses
from collections.abc import Collection

import pytest

from broker.acls import Acls
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.authorizer import Authorizer
from tests.simulation.history import tell
from tests.simulation.plan import NOT_BESIDE_CHANGERS, ClientPlan, Plan, write_plan

KIND = "rights changer"


def plan_of(number: int) -> Plan:
    """A history without faults in which only rights change."""
    found = write_plan(f"rights-{number}")
    settings = {
        **found.settings,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    clients = (ClientPlan("producer 1", "producer", 5), ClientPlan(f"{KIND} 1", KIND, 8))
    return dataclasses.replace(found, settings=settings, clients=clients, faults=())


@pytest.mark.parametrize("number", range(3))
def test_rights_that_change_are_obeyed(number: int) -> None:
    assert tell(plan_of(number)).failures == []


def test_decisions_that_outlive_a_change_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(authorizer: Authorizer, _entry: AclEntry) -> None:
        authorizer.version += 1

    monkeypatch.setattr(Authorizer, "_changed", changed)
    failures = [one for number in range(4) for one in tell(plan_of(number)).failures]
    assert any("a fetch after the denial" in one for one in failures)
    assert any("a batch after the denial is acknowledged" in one for one in failures)


def test_requests_that_wait_are_authorised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(authorizer: Authorizer, _entry: AclEntry) -> None:
        authorizer._remembered.clear()

    monkeypatch.setattr(Authorizer, "_changed", changed)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("a fetch that waited" in one for one in failures)


def test_a_part_of_the_acls_of_a_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    create = Acls.create

    async def some(acls: Acls, entries: Collection[AclEntry], by: str) -> None:
        await create(acls, [*entries][:100], by)

    monkeypatch.setattr(Acls, "create", some)
    failures = [one for number in range(3) for one in tell(plan_of(number)).failures]
    assert any("100 of 250 ACLs of one request" in one for one in failures)


def test_they_come_in_some_histories_and_not_beside_those_that_ask_anything() -> None:
    plans = [write_plan(f"seed-{number}") for number in range(200)]
    with_rights = [plan for plan in plans if any(one.kind == KIND for one in plan.clients)]
    assert 5 < len(with_rights) < 60
    for plan in with_rights:
        assert "authorizer.class.name" in plan.settings
        assert not {one.kind for one in plan.clients} & NOT_BESIDE_CHANGERS
