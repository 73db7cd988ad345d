"""Regular expressions of clients: matched by RE2, whose time is linear in the text (decision 0072).

They mean what they mean in Apache Kafka, which uses RE2 as well.

A set of one expression says whether a text matches, and makes no object for the match: that takes a
sixth of the time, and an expression may be asked for every topic. A set has less memory to fall
back on, so a large program is asked directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

PROGRAM_SIZE_MAX: Final = 10_000  # instructions; RE2 has room for some 60,000 in a set


def whole_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for whole texts. Raises ValueError, with RE2's reason, if invalid."""
    import re2  # at the first regular expression, not at every start

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode() if isinstance(reason, bytes) else reason) from error
    if compiled.programsize > PROGRAM_SIZE_MAX:
        return lambda text: compiled.fullmatch(text) is not None
    alone = re2.Set.FullMatchSet(options)
    alone.Add(pattern)
    alone.Compile()
    return lambda text: bool(alone.Match(text))
