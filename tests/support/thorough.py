"""How many cases a sweep or a property tries: a share of them in `make test`, all in `.ci/run`.

A sweep fails every call of a script, or flips every bit of a file. Its cases are much alike: a
fifth of them finds nearly as much in a fifth of the time. THOROUGH=1 runs them all.
"""

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

THOROUGH = os.environ.get("THOROUGH") == "1"
STEP = 1 if THOROUGH else 5  # coprime with how often errors and phases repeat in a sweep


def examples(count: int) -> int:
    """How many of a property's `count` examples to try; at least two."""
    return count if THOROUGH else max(2, count // 4)


def share_of(cases: Iterable[Case]) -> list[Case]:
    """Return every case, or the first and every fifth after it."""
    return list(cases)[::STEP]
