"""An exception as one line, if the user can act on it.

An error in one of Spark's Python workers arrives as text inside a Spark error, with its trace;
`known` finds the error of `pyspark_barnabas.wire.errors` in it. Other Spark errors are reduced to
their first line. Anything else is a bug of this program.
"""

from __future__ import annotations

import json
import re
from typing import Final

from pyspark_barnabas.jobs.session import Outcome
from pyspark_barnabas.wire.errors import BarnabasError

# The last line of a Python trace or, without one, of Spark's text before it; or the text given to
# raise_error. The rest of the line is Spark's.
_RAISED: Final = re.compile(
    r"^(?:\[\w+\] )?(?:[^\n]*?: )?pyspark_barnabas\.[\w.]*?(\w+): (.*?)(?: SQLSTATE: \w+)?$",
    re.MULTILINE,
)
_FILE: Final = re.compile(r"^\w+Error: \[Errno \d+\] (.+): '(.+)'$", re.MULTILINE)
_CAUSE: Final = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^\[([A-Z0-9_.]+)\] ")


def known(error: BaseException) -> tuple[str, str] | None:
    """Return the kind and the one line of an error the user can act on; None for others."""
    if isinstance(error, BarnabasError):
        return type(error).__name__, one_line(str(error))
    text = _text(error)
    raised = _RAISED.findall(text)
    if raised:
        return raised[-1][0], raised[-1][1].strip()
    files = _FILE.findall(text) if _is_sparks(error) else []
    if files:
        return "OSError", f"{files[-1][1]}: {files[-1][0]}"
    if isinstance(error, OSError) and error.filename:
        return "OSError", f"{error.filename}: {error.strerror}"
    if _is_sparks(error) and "Traceback (most recent call last)" not in text:
        return "SparkError", _sparks_line(text)
    return None


def first_line(error: BaseException) -> str:
    """Return the kind of an exception and the first line of its text."""
    lines = _text(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def as_outcome(kind: str, text: str) -> Outcome:
    """Return an error as the outcome of a run."""
    facts = {"error": {"kind": kind, "text": text}}
    return Outcome(facts=facts, lines=[f"barnabas-pipeline: {text}"], error=kind)


def one_line(text: str) -> str:
    """Return text without line breaks."""
    return " ".join(text.split("\n"))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # py4j asks the JVM, which may be gone
        return "the JVM is gone"


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def _sparks_line(text: str) -> str:
    """Return Spark's first line, or the innermost cause of a Java trace."""
    first = text.strip().splitlines()[0] if text.strip() else "no reason given"
    if not _CONDITION.match(first):
        causes = _CAUSE.findall(text)
        if causes:
            return json.dumps(causes[-1][1])[1:-1]
    return first
