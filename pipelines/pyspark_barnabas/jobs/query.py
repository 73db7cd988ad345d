"""A streaming query of a pipeline until its end, and what it means when a part of it is lost.

Spark tells of a Python worker that was killed, of an executor or of its own JVM by traces of many
lines. To whoever runs a pipeline they mean one thing: start it again, it goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pyspark_barnabas.wire.errors import BarnabasError, RunCut

POLL_S: Final = 1
_LOST: Final = (
    (re.compile(r"Python worker (exited unexpectedly|failed to connect back)"), "a Python worker"),
    (
        re.compile(r"ExecutorLostFailure|Executor heartbeat timed out|[Ll]ost executor"),
        "an executor",
    ),
)
# Py4JError itself, not what derives from it: py4j has asked and was given no answer.
_JVM_ERRORS: Final = ("Py4JError", "Py4JNetworkError", "ConnectionRefusedError")


def finish(query: Any, look: Callable[[], None] = lambda: None) -> None:
    """Return when the query has ended; `look` at it meanwhile. It is stopped in any case.

    Raises RunCut for a part that was lost, and what the query raised otherwise.
    """
    try:
        while not query.awaitTermination(POLL_S):
            look()
        look()
    except Exception as error:
        part = lost_part(error)
        if part is None:
            raise
        raise RunCut(
            f"{part} was lost in the middle: killed, or out of memory. What was done is kept; run "
            "the command again, and it goes on from there"
        ) from error
    finally:
        with suppress(Exception):  # the JVM may be gone, and that is the error to show
            query.stop()


def lost_part(error: BaseException) -> str | None:
    """Return which part of Spark an error shows to be gone, None for other errors."""
    if isinstance(error, BarnabasError):
        return None
    if {type(each).__name__ for each in _chain(error)} & set(_JVM_ERRORS):
        return "Spark's JVM"
    try:
        text = str(error)
    except Exception:  # py4j asks a JVM that may be gone
        return "Spark's JVM"
    return next((part for pattern, part in _LOST if pattern.search(text)), None)


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
