"""Options as Spark passes them, read as numbers, words, durations and JSON.

`Settings` compares names without case, as Spark does. Its errors are BadOption, and name the
option, its value and what it may be. For what the options mean see `pyspark_barnabas.options`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark_barnabas.known_options import require_known
from pyspark_barnabas.wire.errors import BadOption

_DELAYS_MS: Final = {
    "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip


class Settings:
    """Options by name, whatever its case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._given = list(options)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return an option's text."""
        return self._values.get(name.lower(), default)

    def integer(self, name: str, default: int | None, lowest: int = 1) -> int | None:
        """Return an option that is a whole number of at least `lowest`."""
        text = self.get(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if number < lowest:
            raise BadOption(f"{name} is {text!r}, expected a whole number of at least {lowest}")
        return number

    def number(self, name: str, default: int, lowest: int = 1) -> int:
        """Return an option that is a whole number of at least `lowest` and has a default."""
        found = self.integer(name, default, lowest)
        assert found is not None
        return found

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return an option that is true or false."""
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """Return an option that is one of the words in `allowed`, in lower case."""
        text = str(self.get(name, default)).strip().lower()
        if text not in allowed:
            raise BadOption(f"{name} is {text!r}, expected one of {', '.join(allowed)}")
        return text

    def duration_ms(self, name: str, default: str) -> int:
        """Return a duration as Spark writes it (500ms, 30s, 15m, 2h; a bare number is ms)."""
        text = str(self.get(name, default)).strip().lower()
        found = re.fullmatch(r"(\d+)\s*([a-z]*)", text)
        unit = _DELAYS_MS.get(found[2] or "ms") if found else None
        if found is None or unit is None:
            raise BadOption(
                f"{name} is {text!r}, expected a duration such as 500ms, 30s, 15m or 2h"
            )
        return int(int(found[1]) * unit)

    def require_known(self) -> None:
        """Raise BadOption for an unknown name, with the nearest known one."""
        require_known(self._given)

    def json(self, name: str) -> Any:
        """Return an option that is JSON, parsed."""
        text = self.get(name) or ""
        try:
            return json.loads(text)
        except ValueError as error:
            raise BadOption(f"{name} is {text!r}, which is not JSON: {error}") from None

    def refuse(self, *names: str, reason: str) -> None:
        """Raise BadOption with the reason if one of these options is given."""
        for name in names:
            if name.lower() in self._values:
                raise BadOption(f"{name} cannot be used here: {reason}")

    def names(self) -> list[str]:
        """Return the names, in lower case."""
        return sorted(self._values)
