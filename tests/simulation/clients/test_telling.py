"""A story ends without a judgement where an answer says nothing, and objects to a wrong one."""

import asyncio
from types import SimpleNamespace

import pytest

from tests.simulation.clients.kinds import KINDS
from tests.simulation.clients.telling import Teller, Untold, tells
from tests.simulation.plan import MORE_STORIES, STORIES, WISHING, ClientPlan, write_plan
from tests.simulation.world import World


class Answers:
    """A caller that gives these answers, in turn."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.wire = SimpleNamespace(open=self._open, close=lambda: None)

    async def _open(self):
        pass

    async def ask(self, body, _version=None, **_more):
        self.asked.append(type(body).__name__)
        return self.answers.pop(0)


def coded(code):
    return SimpleNamespace(error_code=code)


def teller_with(*answers):
    world = World("1")
    found = []
    record = SimpleNamespace(fail=lambda _who, what: found.append(what))
    context = SimpleNamespace(world=world, record=record, is_finale=False, lives=[1])
    teller = Teller(context, ClientPlan("a story", "a story", 1), 0)
    teller._callers["one"] = Answers(*answers)
    teller.rest = _no_rest
    return teller, found


async def _no_rest(_ms):
    pass


class Body:
    """A request of a group."""


def test_each_story_is_a_kind_of_client():
    assert {*STORIES, *MORE_STORIES} <= set(KINDS)
    assert {*STORIES, *MORE_STORIES} >= WISHING
    told = {client.kind for seed in range(300) for client in write_plan(str(seed)).clients}
    assert {*STORIES, *MORE_STORIES} <= told


@pytest.mark.parametrize("answer", [None, coded(7), coded(56)])
def test_an_answer_that_says_nothing_ends_the_story(answer):
    teller, found = teller_with(answer)
    with pytest.raises(Untold):
        asyncio.run(teller.ask(Body()))
    assert found == []


def test_a_coordinator_is_looked_for_and_asked_again():
    teller, _ = teller_with(coded(16), coded(0), coded(0))
    assert asyncio.run(teller.ask(Body())).error_code == 0
    assert teller._callers["one"].asked == ["Body", "FindCoordinatorRequest", "Body"]


def test_what_another_life_answers_is_not_judged():
    teller, _ = teller_with(coded(0))

    async def ends(_caller):
        teller.context.lives.append(2)

    teller._connected = ends
    with pytest.raises(Untold):
        asyncio.run(teller.in_life(Body()))


def test_a_wrong_answer_is_an_objection():
    teller, found = teller_with()
    teller.expect(True, "nothing")
    with pytest.raises(Untold):
        teller.expect(False, "this is wrong")
    assert found == ["this is wrong"]


def test_a_story_is_told_as_often_as_planned():
    told = []

    async def story(teller):
        told.append(teller.name)
        raise Untold

    context = SimpleNamespace(world=World("1"), is_finale=False)
    run = tells(story)(context, ClientPlan("a story", "a story", 2))
    asyncio.run(run)
    assert told == ["story-a-story-0", "story-a-story-1"]


def test_a_fault_waits_for_no_wish_of_a_story_that_is_over():
    async def story(teller):
        if teller.name.endswith("0"):
            teller.wish("kill")

    wished = []
    context = SimpleNamespace(world=World("1"), is_finale=False, wish=wished.append)
    asyncio.run(tells(story)(context, ClientPlan(min(WISHING), min(WISHING), 2)))
    assert wished == ["kill", ""]
