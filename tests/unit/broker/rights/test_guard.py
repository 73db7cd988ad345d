"""The guard: kinds of results, long lists, changes meanwhile, and what it remembers."""

import asyncio
import inspect
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.rights import guard as module
from broker.rights.asking import NAMES_PER_TURN, Asking, Refused, Turns
from broker.rights.guard import Guarded, HotGuard, guarded
from broker.runtime.lines import Lines
from broker.runtime.request import Pending
from tests.support.rights_cases import DESCRIBE, READ, TOPIC, grant
from tests.support.rights_rig import RightsRig

SERVICES: Any = SimpleNamespace()


class Clause:
    """Takes some turns, then adds a mark to the answer, or refuses."""

    def __init__(self, turns: int = 0, refusal: Any = None) -> None:
        self.turns = turns
        self.refusal = refusal
        self.asked = 0
        self.meanwhile: Any = None

    def ask(self, asking: Asking) -> Turns:
        self.asked += 1
        for _ in range(self.turns):
            if self.meanwhile is not None:
                self.meanwhile()
            yield
        if self.refusal is not None:
            return Refused(self.refusal)

        def later(answer: str) -> Generator[int, None, str]:
            yield 0
            return f"{answer} completed"

        asking.later.append(later)
        return None

    def lines(self) -> list[tuple[str, str]]:
        return []


def authorizer() -> Any:
    return SimpleNamespace(version=1)


def request(connection: object = None) -> Any:
    return SimpleNamespace(connection=connection, body="asked")


def behind(clause: Clause, handle: Any, lines: Lines | None = None, by: Any = None) -> Any:
    rights: Any = (clause,)
    made = Guarded("Api", rights, handle, lambda *_: "refused")
    return guarded(made, by or authorizer(), lines or Lines())


async def answer_of(result: Any) -> Any:
    """Return the message at the end of whatever a handler returned."""
    while True:
        if inspect.iscoroutine(result):
            result = await result
        elif isinstance(result, Pending):
            waiting = asyncio.get_running_loop().create_future()
            result.then(waiting.set_result, waiting.set_exception)
            result = await waiting
        elif isinstance(result, Generator):
            result = run(result)
        else:
            return result


def run(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def pending(answer: Any) -> Pending:
    made = Pending()
    made.complete(answer)
    return made


def steps(answer: Any) -> Generator[int, None, Any]:
    yield 0
    return answer


async def task(answer: Any) -> Any:
    await asyncio.sleep(0)
    return answer


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: "done",
        lambda: pending("done"),
        lambda: steps("done"),
        lambda: task("done"),
        lambda: steps(pending("done")),
        lambda: task(steps("done")),
        lambda: task(pending("done")),
        lambda: pending(steps("done")),
    ],
)
async def test_each_kind_of_answer_is_completed(make: Any, turns: int) -> None:
    handle = behind(Clause(turns), lambda *_: make())
    assert await answer_of(handle(request(), SERVICES)) == "done completed"


async def test_no_answer_stays_none() -> None:
    assert await answer_of(behind(Clause(), lambda *_: None)(request(), SERVICES)) is None
    assert await answer_of(behind(Clause(), lambda *_: pending(None))(request(), SERVICES)) is None


async def test_a_failure_stays_one() -> None:
    failing = Pending()
    handle = behind(Clause(), lambda *_: failing)
    result = handle(request(), SERVICES)
    failing.fail(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        await answer_of(result)


@pytest.mark.parametrize("turns", [0, 3])
async def test_what_is_refused_does_not_reach_its_handler(turns: int) -> None:
    async def as_task(*_: object) -> None:
        raise AssertionError("called")

    for handle in (lambda *_: pytest.fail("called"), as_task):
        guard = behind(Clause(turns, "no"), handle)
        assert await answer_of(guard(request(), SERVICES)) == "no"


async def test_later_requests_of_a_connection_stay_behind_one_that_asks_for_long() -> None:
    lines, order = Lines(), []
    connection, other = object(), object()

    def noting(name: str) -> Any:
        def handle(*_: object) -> str:
            order.append(name)
            return name

        return handle

    long = behind(Clause(20), noting("long"), lines)
    short = behind(Clause(), noting("short"), lines)
    first = asyncio.ensure_future(answer_of(long(request(connection), SERVICES)))
    second = asyncio.ensure_future(answer_of(short(request(connection), SERVICES)))
    assert await answer_of(short(request(other), SERVICES)) == "short completed"
    await asyncio.gather(first, second)
    assert order == ["short", "long", "short"]


async def test_a_change_meanwhile_has_it_ask_again() -> None:
    by, clause = authorizer(), Clause(2)

    def change() -> None:
        if clause.asked < 3:
            by.version += 1

    clause.meanwhile = change
    guard = behind(clause, lambda *_: "done", by=by)
    assert await answer_of(guard(request(), SERVICES)) == "done completed"
    assert clause.asked == 3


async def test_changes_without_end_do_not_keep_it_asking() -> None:
    by, clause = authorizer(), Clause(2)

    def change() -> None:
        if clause.asked <= module.ATTEMPTS:
            by.version += 1

    clause.meanwhile = change
    guard = behind(clause, lambda *_: "done", by=by)
    assert await answer_of(guard(request(), SERVICES)) == "done completed"


async def test_a_long_list_is_asked_for_in_turns(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, DESCRIBE, "t"))
    names = [f"m{number}" for number in range(2_000)]
    topics = [
        {"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}
        for name in (*names, "t")
    ]
    answer = await rights.ask("LIST_OFFSETS", 7, replica_id=-1, topics=topics)
    found = [one.partitions[0].error_code for one in answer.topics]
    assert found == [29] * 2_000 + [0]
    assert [one.name for one in answer.topics] == [*names, "t"]


async def test_what_is_remembered_is_bounded(
    rights: RightsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REMEMBERED_MAX", 3)
    rights.allow(grant(TOPIC, READ))
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    for name in ("a", "b", "c", "d", "e"):
        topics = [{"topic": name, "partitions": [place]}]
        await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=topics)
    hot = _hot(rights)
    assert sum(map(len, hot._known.values())) == hot._count == 2


def _hot(rights: RightsRig) -> HotGuard:
    handlers: Any = rights.rig.dispatcher._handlers
    hot = handlers[1]._row.handle.__self__
    assert isinstance(hot, HotGuard)
    return hot


@pytest.mark.parametrize(
    "names",
    [
        [f"n{number}" for number in range(NAMES_PER_TURN + 1)],
        ["n" * 250],
        [],
    ],
    ids=["many", "long", "none"],
)
async def test_what_a_client_sizes_is_not_remembered(rights: RightsRig, names: list[str]) -> None:
    rights.allow(grant(TOPIC, READ))
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    topics = [{"topic": name, "partitions": [place]} for name in names]
    answer = await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=topics)
    assert [one.topic for one in answer.responses] == names
    assert {one.partitions[0].error_code for one in answer.responses} <= {3}
    assert _hot(rights)._known == {}


async def test_many_topics_of_a_fetch_are_asked_for_in_turns(
    rights: RightsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights.allow(grant(TOPIC, READ))
    allows, longest, here = rights.authorizer.allows, 0, 0
    loop = asyncio.get_running_loop()

    def ended() -> None:
        nonlocal here
        here = 0

    def counted(_: object, *asked: Any) -> bool:
        nonlocal here, longest
        if not here:
            loop.call_soon(ended)
        here += 1
        longest = max(longest, here)
        return bool(allows(*asked))

    monkeypatch.setattr(type(rights.authorizer), "allows", counted)
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    topics = [{"topic": f"n{number}", "partitions": [place]} for number in range(3_000)]
    answer = await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=topics)
    assert len(answer.responses) == 3_000
    assert 0 < longest <= 2 * NAMES_PER_TURN
