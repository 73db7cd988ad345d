"""A table of what is asked of a broker with transactions, and of what is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.interop.transactor import Transactor

SAME: Final = object()
Ask = Callable[[Transactor], Any]


class Case(NamedTuple):
    """A case: what it asks, what Kafka answers, and what Barnabas does."""

    ask: Ask
    kafkas: Any
    ours: Any


class Cases(dict[str, Case]):
    """Cases by name. Each is a function of a Transactor with a topic of its own.

    It returns what was answered, and its decorator says what Apache Kafka 4.3 answers. Where
    Barnabas is meant to answer something else, `ours` says what, and the function's docstring why.
    """

    def case(self, kafkas: Any, *, ours: Any = SAME) -> Callable[[Ask], Ask]:
        """Put a function into the table."""

        def put(ask: Ask) -> Ask:
            self[ask.__name__] = Case(ask, kafkas, kafkas if ours is SAME else ours)
            return ask

        return put
