"""Make a failing history smaller: take away what it does not need to fail.

A plan is tried with less of something, again and again: without half of the clients, without one,
without a fault, with fewer steps, with a default setting, on an even machine. What still makes the
same judge object is kept. A smaller plan is another history, since its clients meet at other times;
so a step that loses the failure only means that this step is not taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tests.simulation.plan import Plan, Shape

TRIES_MAX = 400


def judge_of(failure: str) -> str:
    """Return the name of the judge that objects in this sentence."""
    return failure.partition(":")[0]


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries_max: int = TRIES_MAX) -> Plan:
    """Return the smallest plan found for which `fails` still holds."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(plan):
            if tries >= tries_max:
                return plan
            tries += 1
            if fails(candidate):
                plan = candidate
                is_smaller = True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    clients, faults = plan.clients, plan.faults
    half = len(clients) // 2
    if half:
        yield dataclasses.replace(plan, clients=clients[half:])
        yield dataclasses.replace(plan, clients=clients[:half])
    if len(faults) > 1:
        yield dataclasses.replace(plan, faults=())
    for number in range(len(faults)):
        yield dataclasses.replace(plan, faults=(*faults[:number], *faults[number + 1 :]))
    for number in range(len(clients)):
        yield dataclasses.replace(plan, clients=(*clients[:number], *clients[number + 1 :]))
    if plan.shape != Shape():
        yield dataclasses.replace(plan, shape=Shape())
    if plan.tiny:
        yield dataclasses.replace(plan, tiny={})
    for name in plan.tiny:
        tiny = {key: value for key, value in plan.tiny.items() if key != name}
        yield dataclasses.replace(plan, tiny=tiny)
    for number, client in enumerate(clients):
        if client.steps > 1:
            less = dataclasses.replace(client, steps=client.steps // 2)
            yield dataclasses.replace(
                plan, clients=(*clients[:number], less, *clients[number + 1 :])
            )
    if plan.settings:
        yield dataclasses.replace(plan, settings={})
    for name in plan.settings:
        others = {key: value for key, value in plan.settings.items() if key != name}
        yield dataclasses.replace(plan, settings=others)
