"""Shrinking keeps what a failure needs, and takes the rest away."""

from tests.simulation.plan import Plan, Shape, write_plan
from tests.simulation.shrink import judge_of, shrink


def test_what_the_failure_needs_is_left() -> None:
    plan = write_plan("3")
    needed = plan.clients[1].name

    def fails(candidate: Plan) -> bool:
        return any(client.name == needed and client.steps >= 2 for client in candidate.clients)

    small = shrink(plan, fails)
    assert [client.name for client in small.clients] == [needed]
    assert 2 <= small.clients[0].steps < 4
    assert small.faults == ()
    assert small.settings == small.tiny == {}
    assert small.shape == Shape()


def test_a_plan_that_needs_everything_stays() -> None:
    plan = write_plan("3")
    assert shrink(plan, plan.__eq__) == plan


def test_tries_are_bounded() -> None:
    tries: list[Plan] = []

    def fails(candidate: Plan) -> bool:
        tries.append(candidate)
        return True

    shrink(write_plan("3"), fails, tries_max=7)
    assert len(tries) == 7


def test_a_judge_is_named_before_the_colon() -> None:
    assert judge_of("liveness: request 3 was never answered: Fetch") == "liveness"
