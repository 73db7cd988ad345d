"""Labels as Prometheus reads them: `{name="value",…}`, with every value escaped.

Values come from clients: names of topics, groups and client software. A backslash, a quote and a
line feed are escaped; a lone surrogate, which UTF-8 cannot have, becomes a question mark. What a
client says of itself is `cut`, since it stands beside each of its samples.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

CUT: Final = 200
Pieces = Generator[str, None, None]  # of a page


def escaped(value: str) -> str:
    """Return a value as it stands between quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode("utf-8")
    return value


def cut(value: str) -> str:
    """Return what a client says of itself, with at most `CUT` characters."""
    return value if len(value) <= CUT else f"{value[:CUT]}…"


def labels(**values: str | int) -> str:
    """Return the text of labels, in the given order."""
    return "{" + ",".join(f'{name}="{escaped(str(text))}"' for name, text in values.items()) + "}"
