r"""The text format of server.properties: Java's, as java.util.Properties.load reads it.

A logical line is one or more natural lines, joined where a line ends in an odd number of
backslashes; blank lines and lines that begin with `#` or `!` are comments. The key ends at the
first unescaped `=`, `:` or blank. `\t \n \r \f \uXXXX` are escapes; before any other character
a backslash disappears.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from config.errors import ConfigError

NATURAL_LINES = re.compile(r"\r\n|\n|\r")
BLANKS = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Entry(NamedTuple):
    """One key with its value, and the line (from 1) it begins on."""

    key: str
    value: str
    line: int


def decode(data: bytes) -> str:
    """Return the text of a properties file: UTF-8, else Latin-1 as Java assumes."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_properties(text: str, source: str = "") -> list[Entry]:
    r"""Return the entries of `text` in order; ConfigError for a malformed \uXXXX escape."""
    entries = []
    for line_number, line in _logical_lines(text):
        key_end, value_start = _divide(line)
        where = f"{source}:{line_number}"
        entries.append(
            Entry(
                _unescape(line[:key_end], where), _unescape(line[value_start:], where), line_number
            )
        )
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    start = 0
    for number, natural in enumerate(NATURAL_LINES.split(text), 1):
        line = natural.lstrip(BLANKS)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield start, joined + line
        joined, start = "", 0
    if start:
        yield start, joined


def _divide(line: str) -> tuple[int, int]:
    """Return where the key ends and where the value starts."""
    position = 0
    while position < len(line) and line[position] not in "=:" + BLANKS:
        position += 2 if line[position] == "\\" else 1
    key_end = min(position, len(line))
    value_start = key_end
    while value_start < len(line) and line[value_start] in BLANKS:
        value_start += 1
    if value_start < len(line) and line[value_start] in "=:":
        value_start += 1
        while value_start < len(line) and line[value_start] in BLANKS:
            value_start += 1
    return key_end, value_start


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    parts = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped != "u":
            parts.append(ESCAPES.get(escaped, escaped))
            continue
        digits = text[position : position + 4]
        if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
            raise ConfigError(
                f"\\u{digits} is not an escape", source=where, allowed="\\u and four hex digits"
            )
        parts.append(chr(int(digits, 16)))
        position += 4
    return "".join(parts)
