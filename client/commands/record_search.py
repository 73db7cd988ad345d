"""`consume --grep`: which records contain a pattern, without opening most batches' records.

The pattern is searched in text. Where characters need not be told apart from bytes (an ASCII
pattern without single dots or negated classes), the bytes are searched instead. If such a pattern
also looks at nothing around its match (no anchors, word boundaries or groups with `?`), a record
contains it only if the bytes of all records of its batch do. So these are searched first, and the
records of a batch are made only if it occurs there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import click

from protocol.compression import decompress
from protocol.legacy_batches import is_legacy, read_records_any
from protocol.record_batch import HEADER_SIZE, read_header
from protocol.records import Record, iterate

_LITERALS: Final = re.compile(r"\\[^AZbBDSW]")  # escapes of one ASCII character or class of them
# What depends on the bytes around a match, or on how much a quantifier has taken.
_LOOKS_AROUND: Final = re.compile(r"[\^$]|\\[AZbB]|\(\?|[*+?}]\+")
# What matches one character of any width. `.*` and `.+` match the same text as bytes.
_COUNTS_CHARACTERS: Final = re.compile(r"\.(?![*+])|\[\^|\\[BDSWb]")
_ESCAPES: Final = re.compile(r"\\.", re.DOTALL)
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

    def matches(self, record: Record) -> bool:
        """Whether the value or the key contains the pattern."""
        return self._found(record.value) or self._found(record.key)

    def _found(self, data: bytes | None) -> bool:
        if data is None:
            return False
        if self._bytes is not None:
            return self._bytes.search(data) is not None
        return self._text.search(bytes(data).decode(errors="surrogateescape")) is not None

    def records(self, raw: Any, position: int, size_max: int) -> Iterator[Record]:
        """Return the records of a checked batch that contain the pattern."""
        if is_legacy(raw, position):
            return filter(self.matches, read_records_any(raw, position, size_max=size_max))
        header = read_header(raw, position)
        packed = memoryview(raw)[position + HEADER_SIZE : position + header.size]
        body = decompress(header.codec, packed, size_max)
        if self._in_batch is not None and self._in_batch.search(body) is None:
            return iter(())
        return filter(self.matches, iterate(header, body))
