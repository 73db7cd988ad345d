r"""`consume --format` with the letters of kcat's -f: '%T %o %k %s\n'.

    %t topic    %p partition    %o offset    %T timestamp, ms    %h headers as a=b,c=d
    %k key      %K its length   %s or %v value                   %S its length    %% a percent sign
    %R the value's length as four bytes, big-endian

The length of a null is -1, and the null itself is empty, as kcat writes it; a header without a
value is `name=NULL`. `\n`, `\t`, `\r`, `\\` and `\x41` are the bytes that they mean. A template
that does not end with a newline gets one, unless it has %R: that is for binary values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

Part: TypeAlias = Callable[[str, int, Any], bytes]


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _packed_size(data: bytes | None) -> bytes:
    return (-1 if data is None else len(data)).to_bytes(4, "big", signed=True)


def _headers(record: Any) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


PARTS: Final[dict[str, Part]] = {
    "t": lambda topic, _, __: topic.encode(),
    "p": lambda _, partition, __: b"%d" % partition,
    "o": lambda _, __, record: b"%d" % record.offset,
    "T": lambda _, __, record: b"%d" % record.timestamp,
    "h": lambda _, __, record: _headers(record),
    "k": lambda _, __, record: record.key or b"",
    "K": lambda _, __, record: _size(record.key),
    "s": lambda _, __, record: record.value or b"",
    "v": lambda _, __, record: record.value or b"",
    "S": lambda _, __, record: _size(record.value),
    "R": lambda _, __, record: _packed_size(record.value),
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_TOKEN: Final = re.compile(r"%(.)|\\(x[0-9a-fA-F]{2}|.)|([^%\\]+)|(.)", re.DOTALL)


class RecordTemplate:
    """Formats records by a template. Raises click.UsageError for an unknown letter."""

    def __init__(self, text: str, topic: str) -> None:
        self._topic = topic
        self._parts: list[bytes | Part] = []
        for token in _TOKEN.finditer(text):
            letter, escape, plain, rest = token.groups()
            if letter == "%":
                self._parts.append(b"%")
            elif letter:
                self._parts.append(_part(letter, text))
            elif escape:
                self._parts.append(_escaped(escape, text))
            elif rest:
                raise click.UsageError(f"--format {text!r} ends with a single {rest}; double it.")
            else:
                self._parts.append(os.fsencode(plain))
        is_binary = PARTS["R"] in self._parts
        if not is_binary and not (self._parts and _ends_line(self._parts[-1])):
            self._parts.append(b"\n")

    def line(self, partition: int, record: Any) -> bytes:
        """Return a record as bytes."""
        topic = self._topic
        return b"".join(
            part if isinstance(part, bytes) else part(topic, partition, record)
            for part in self._parts
        )


def _ends_line(part: bytes | Part) -> bool:
    return isinstance(part, bytes) and part.endswith(b"\n")


def _part(letter: str, text: str) -> Part:
    part = PARTS.get(letter)
    if part is None:
        known = " ".join(f"%{one}" for one in PARTS)
        raise click.UsageError(f"--format {text!r} has %{letter}; expected {known} or %%.")
    return part


def _escaped(escape: str, text: str) -> bytes:
    if escape.startswith("x") and len(escape) == 3:
        return bytes.fromhex(escape[1:])
    found = _ESCAPES.get(escape)
    if found is None:
        raise click.UsageError(
            rf"--format {text!r} has \{escape}; expected \n \t \r \0 \x41 or \\."
        )
    return found
