"""Small texts that the tools print: bytes and counts, as text or JSON."""

from __future__ import annotations

import base64
import re
from typing import Any

# Characters that would move a terminal's cursor, break a line or start a control sequence.
_CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def shown(data: bytes) -> str:
    """Return bytes as Kafka's tools show them: as UTF-8 with replacements, on one line.

    Control characters are escaped: a producer must not be able to control the reader's terminal.
    """
    return one_line(data.decode("utf-8", "replace"))


def one_line(text: str) -> str:
    """Return `text` with its control characters escaped, except tabs."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def as_json(name: str, data: bytes | None) -> dict[str, Any]:
    """Return bytes as a field of a JSON object: text if they are UTF-8, else base64."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def plural(count: int, noun: str) -> str:
    """Return "1 file", "2 files", "2 batches"."""
    if count == 1:
        return f"{count:,} {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"
