"""`consume --grep`: which records contain a pattern, without opening most batches' records.

The pattern is searched in text. Where characters need not be told apart from bytes (an ASCII
pattern without single dots or negated classes), the bytes are searched instead. If such a pattern
also looks at nothing around its match (no anchors, word boundaries or groups with `?`), a record
contains it only if the bytes of all records of its batch do, and those of the whole answer if it is
not compressed. So these are searched first: for a text that each match has, which takes a quarter
of the time, and then for the pattern. Records of a batch are made only if it occurs there.
"""

from __future__ import annotations

import re
from typing import Final

import click

from client.msgpack.batch_openers import OPENED_BYTES_MAX, RecordOpener
from protocol.compression import decompress
from protocol.legacy_batches import is_legacy, read_records_any
from protocol.record_batch import HEADER_SIZE, BatchHeader, read_header
from protocol.record_values import Search, plain_values
from protocol.records import Record, iterate

_LITERALS: Final = re.compile(r"\\[^AZbBDSW]")  # escapes of one ASCII character or class of them
# What depends on the bytes around a match, or on how much a quantifier has taken.
_LOOKS_AROUND: Final = re.compile(r"[\^$]|\\[AZbB]|\(\?|[*+?}]\+")
# What matches one character of any width. `.*` and `.+` match the same text as bytes.
_COUNTS_CHARACTERS: Final = re.compile(r"\.(?![*+])|\[\^|\\[BDSWb]")
_ESCAPES: Final = re.compile(r"\\.", re.DOTALL)
# A character that means itself and how often it comes; a class; what ends a run of such characters.
_TOKENS: Final = re.compile(
    r"(?P<plain>\\[^A-Za-z0-9]|[A-Za-z0-9 _\-\"':,/=<>@#%&;~!`])(?P<times>[*+?]\??|\{[^{}]*\})?"
    r"|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[^{}]*\}|\\.|.",
    re.DOTALL,
)
_NUMBERED: Final = frozenset("xuUN01234567")  # escapes of characters that need not be ASCII


class RecordSearch:
    r"""Finds records whose value or key contains a pattern, a regular expression of Python.

    Values are read as UTF-8; a byte that is not matches no character but by `.` and its like. Of
    an ASCII pattern, `\w`, `\d`, `\s` and the cases of letters are ASCII too. Raises
    click.UsageError if it is no regular expression.
    """

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        if pattern.isascii():
            flags |= re.ASCII
        rest = _LITERALS.sub("_", pattern)
        is_ascii = pattern.isascii() and not any(
            escape[1] in _NUMBERED for escape in _ESCAPES.findall(pattern)
        )
        is_bytewise = is_ascii and not _COUNTS_CHARACTERS.search(rest)
        try:
            self._text = re.compile(pattern, flags)
            self._bytes = re.compile(pattern.encode(), flags) if is_bytewise else None
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            raise click.UsageError(
                f"--grep {pattern!r} is no regular expression: {error}"
            ) from None
        self._in_batch = None if _LOOKS_AROUND.search(rest) else self._bytes
        # As `protocol.record_values` wants it; a method of the pattern itself costs a call less.
        self.finds: Search = self._finds if self._in_batch is None else self._in_batch.search
        is_literal = self._in_batch is not None and not ignore_case
        self._literal = literal_of(pattern) if is_literal else b""

    def has_nothing(self, raw: bytes) -> bool:
        """Whether the bytes tell that no batch of an answer has it, unless it is compressed."""
        return self._in_batch is not None and not self._occurs(raw)

    def opened(self, raw: bytes, start: int, first: int, end: int) -> list[Record]:
        """Return the records of a checked batch that contain the pattern. Raises RecordError."""
        if is_legacy(raw, start):
            records = read_records_any(raw, start, size_max=OPENED_BYTES_MAX)
        else:
            header, body = opened_body(raw, start)
            if self._in_batch is not None and not self._occurs(body):
                return []
            records = iterate(header, body)
        return [one for one in records if first <= one.offset < end and self.matches(one)]

    def matches(self, record: Record) -> bool:
        """Whether the value or the key contains the pattern."""
        return self._found(record.value) or self._found(record.key)

    def _occurs(self, data: bytes) -> bool:
        if self._literal not in data:
            return False
        return self._in_batch is not None and self._in_batch.search(data) is not None

    def _finds(self, body: bytes, start: int, end: int) -> object | None:
        return self._found(body[start:end]) or None

    def _found(self, data: bytes | None) -> bool:
        if data is None:
            return False
        if self._bytes is not None:
            return self._bytes.search(data) is not None
        return self._text.search(bytes(data).decode(errors="surrogateescape")) is not None


class ValueOpener:
    """Opens batches for a command that writes values only: returns the values of their records.

    With `search`, of those that contain its pattern.
    """

    def __init__(self, search: RecordSearch | None) -> None:
        self._records = RecordOpener() if search is None else search
        self._finds = None if search is None else search.finds
        self.has_nothing = self._records.has_nothing

    def opened(self, raw: bytes, start: int, first: int, end: int) -> list[bytes]:
        """Return the values of a checked batch, b"" for a null. Raises RecordError."""
        if not is_legacy(raw, start):
            header, body = opened_body(raw, start)
            if first <= header.base_offset and header.next_offset <= end:
                values = plain_values(header, body, self._finds)
                if values is not None:
                    return values
        return [one.value or b"" for one in self._records.opened(raw, start, first, end)]


def opened_body(raw: bytes, start: int) -> tuple[BatchHeader, bytes]:
    """Return the header of a checked batch, and its records' bytes. Raises RecordError."""
    header = read_header(raw, start)
    packed = memoryview(raw)[start + HEADER_SIZE : start + header.size]
    return header, decompress(header.codec, packed, OPENED_BYTES_MAX)


def literal_of(pattern: str) -> bytes:
    """Return the longest text that is in each match of an ASCII pattern; b"" if none is found.

    For a pattern that looks at nothing around its match. Groups, classes and alternatives are
    passed over: it need not be the longest, but it must be in each match.
    """
    if "|" in pattern:
        return b""
    runs, depth = [""], 0
    for token in _TOKENS.finditer(pattern):
        plain, text = token["plain"], token[0]
        depth += (text == "(") - (text == ")")
        if plain and depth == 0:
            runs[-1] += plain[-1]
            if token["times"]:
                runs[-1] = runs[-1] if token["times"][0] == "+" else runs[-1][:-1]
                runs.append("")
        else:
            runs.append("")
    return max(runs, key=len).encode()
