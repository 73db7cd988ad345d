"""Questions of the fumbler can be asked in all their versions; other codes are objections."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from protocol.kafka.codec import encode_message
from protocol.kafka.schema import read_layout
from tests.simulation.clients import fumbler
from tests.simulation.clients.fumbler import HANDLERS, SUBJECTS, Question, made

QUESTIONS = [question for subject in SUBJECTS for question in subject("fumbler-1")]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.api)
def test_a_question_can_be_asked(question):
    handler = HANDLERS[question.api]
    lowest = max(question.lowest, handler.min_version)
    versions = range(lowest, min(question.highest, handler.max_version) + 1)
    assert versions
    assert question.codes
    for version in versions:
        assert encode_message(made(read_layout(handler.request, version), question.body), version)


class Asked:
    """A caller that gets one code for everything."""

    name = "fumbler 1"
    is_msgpack = False

    def __init__(self, code: int) -> None:
        self.rng = random.Random(1)
        self.code = code
        self.found: list[str] = []
        self.record = SimpleNamespace(fail=lambda _who, what: self.found.append(what))

    async def ask(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(results=[SimpleNamespace(error_code=self.code)])


@pytest.mark.parametrize(("code", "is_wrong"), [(42, False), (0, True), (29, True), (7, False)])
def test_another_code_is_an_objection(monkeypatch, code, is_wrong):
    question = Question("describe_configs", {"resources": []}, (42,))
    monkeypatch.setattr(fumbler, "SUBJECTS", [lambda _own: [question]])
    caller = Asked(code)
    asyncio.run(fumbler.step(caller))
    assert bool(caller.found) == is_wrong
