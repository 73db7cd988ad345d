"""Loops of virtual time for tests, closed when the test has ended."""

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.loop import SimLoop
from tests.simulation.world import World

MakeLoop = Callable[[str], SimLoop]


@pytest.fixture
def loop_of() -> Iterator[MakeLoop]:
    """Return what makes the loop of a world of that seed."""
    made: list[SimLoop] = []

    def make(seed: str) -> SimLoop:
        made.append(SimLoop(World(seed), lambda: None))
        return made[-1]

    yield make
    for loop in made:
        if not loop.is_closed():
            loop.bury()
