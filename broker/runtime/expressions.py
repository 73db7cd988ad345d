"""Regular expressions of clients: matched by RE2, whose time is linear in the text (decision 0072).

They mean what they mean in Apache Kafka, which uses RE2 as well.
"""

from __future__ import annotations

from collections.abc import Callable


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
    return lambda text: compiled.fullmatch(text) is not None
