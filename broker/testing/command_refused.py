"""Refusals: a command that cannot be obeyed, with a sentence for the author of the test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from config.sources import closest

T = TypeVar("T")


class CommandRefused(Exception):
    """A command was not obeyed; the text says what was found, and what was expected."""


def suggestion(name: str, known: Collection[str]) -> str:
    """Return " Did you mean ...?" for a misspelt name; "" if nothing known is like it."""
    found = closest(name.lower(), known) or closest(name.upper(), known)
    return f" Did you mean {found}?" if found else ""


def command_of(name: str, known: Mapping[str, T]) -> T:
    """Return the command of that name. Raises CommandRefused."""
    try:
        return known[name]
    except KeyError:
        hint = suggestion(name, known)
        raise CommandRefused(f"there is no command {name!r}.{hint}") from None


def check_names(what: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a field that does not exist. Raises CommandRefused."""
    for name in given:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise CommandRefused(
                f"{what} has no {name!r}; it has {listed}.{suggestion(name, known)}"
            )
