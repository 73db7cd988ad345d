"""The table of APIs and rights in docs/security.md, from the rows of the handler table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.rights.clauses import Clause


class DeclaresRights(Protocol):
    """A row of the handler table."""

    @property
    def name(self) -> str:
        """The API's name, in lower case with underscores."""
        ...

    @property
    def rights(self) -> Sequence[Clause]:
        """What the API asks, in order."""
        ...


def rights_table(rows: Iterable[DeclaresRights]) -> str:
    """Return the table as Markdown: a line for each right of each API."""
    lines = ["| API | right | without it |", "|---|---|---|"]
    for row in rows:
        api = "".join(map(str.capitalize, row.name.split("_")))
        for clause in row.rights:
            for right, refusal in clause.lines():
                lines.append(f"| {api} | {right} | {refusal} |")
                api = ""
    return "\n".join(lines) + "\n"
