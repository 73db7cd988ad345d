"""How many cases a sweep or a property tries: a share of them in `make test`, all in `.ci/run`.

A sweep fails every call of a script, or flips every bit of a file. Its cases are much alike: a
fifth of them finds nearly as much in a fifth of the time. THOROUGH=1 runs them all, and SHARE=1/3
beside it every third, from the second on: `.ci/run` tries another third at each commit.
"""

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

Case = TypeVar("Case")
Versioned = tuple[type, int]

THOROUGH = os.environ.get("THOROUGH") == "1"
STEP = 1 if THOROUGH else 5  # coprime with how often errors and phases repeat in a sweep
_TURN, _TURNS = map(int, os.environ.get("SHARE", "0/1").split("/"))


def examples(count: int) -> int:
    """How many of a property's `count` examples to try; at least two."""
    return count if THOROUGH else max(2, count // 4)


def share_of(cases: Iterable[Case]) -> list[Case]:
    """Return every case, or the first and every fifth after it."""
    return turn_of(list(cases)[::STEP])


def some_of(cases: Iterable[Case], first: int = 0) -> list[Case]:
    """Return every case whatever SHARE says, or every fifth from that one on, counted in fives.

    Sweeps over the same cases that begin at different ones try all of them between them.
    """
    return list(cases)[first % STEP :: STEP]


def some_versions(pairs: Iterable[Versioned], first: int = 0) -> list[Versioned]:
    """Return all (class, version) in order; or each class's newest, and some of the others."""
    ordered = sorted(pairs, key=lambda pair: (pair[0].__name__, pair[1]))
    newest = dict(ordered)
    others = [pair for pair in ordered if newest[pair[0]] != pair[1]]
    chosen = {*newest.items(), *some_of(others, first)}
    return [pair for pair in ordered if pair in chosen]


def turn_of(cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose turn it is."""
    return list(cases[_TURN::_TURNS])
