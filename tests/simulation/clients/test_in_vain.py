"""A broker that only reads is asked for every change; an answer that grants one is told."""

from types import SimpleNamespace

import pytest

from broker.read_only.refusals import REFUSED
from tests.simulation.clients import in_vain
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.in_vain import ask_in_vain
from tests.simulation.clients.wire import HANDLER_OF
from tests.simulation.context import Context
from tests.simulation.plan import Plan
from tests.simulation.record import Record
from tests.simulation.world import World


@pytest.mark.parametrize(("code", "is_refused"), [(29, True), (44, True), (0, False), (3, False)])
def test_every_change_must_be_refused(monkeypatch, code, is_refused):
    asked = []

    async def ask(_caller, body, _version=None, **_options):
        asked.append(type(body))
        return SimpleNamespace(results=[SimpleNamespace(error_code=code)])

    async def look(_caller):
        return []

    monkeypatch.setattr(Caller, "ask", ask)
    monkeypatch.setattr(Caller, "look", look)
    world = World("in vain")
    context = Context(Plan("in vain"), world, None, None, None, Record(), None)
    found = []

    async def run():
        found.extend(await ask_in_vain(context))

    actor = world.spawn("asker", run())
    world.run_until(lambda: actor.ended.is_set)
    assert set(asked) == {HANDLER_OF[int(key)].request for key in REFUSED}
    assert len(found) == (0 if is_refused else len(REFUSED))
    assert {int(refusal) for refusal in REFUSED.values()} <= in_vain.REFUSALS
