"""A seeded bug: its name, what it does, and the replacements of text that make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]


class Replacement(NamedTuple):
    """`old` stands in `file` exactly once; the bug has `new` in its place."""

    file: str  # from the root of the project
    old: str
    new: str


class DoesNotApply(Exception):
    """A replacement's old text is not in its file exactly once: the product has changed."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: `row` says what goes wrong, in words. `more` are further replacements.

    `only_with`: kinds of clients and faults. Where it names any, the bug shows only in a history
    that has one of them, or hardly ever in others: these are not told.
    """

    name: str
    row: str
    file: str
    old: str
    new: str
    more: Sequence[tuple[str, str, str]] = ()
    only_with: frozenset[str] = frozenset()

    @property
    def replacements(self) -> list[Replacement]:
        """All replacements."""
        return [Replacement(self.file, self.old, self.new), *map(Replacement._make, self.more)]

    @property
    def files(self) -> list[str]:
        """The files that the bug changes."""
        return list(dict.fromkeys(replacement.file for replacement in self.replacements))

    def source(self, file: str) -> str:
        """Return the text of `file` with the bug in it. Raises DoesNotApply."""
        text = text_of(file)
        for path, old, new in self.replacements:
            if path != file:
                continue
            count = text.count(old)
            if count != 1:
                raise DoesNotApply(
                    f"{self.name}: the old text is in {file} {count} times, expected once: {old!r}"
                )
            text = text.replace(old, new)
        return text


@cache
def text_of(file: str) -> str:
    """Return the text of a file of the product."""
    return (ROOT / file).read_text(encoding="utf-8")


def module_of(file: str) -> str:
    """Return the dotted name of the module that `file` holds."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
