"""How many bytes a record counts for in a batch: at least what it takes there, uncompressed."""

from __future__ import annotations

from typing import Final

from protocol.records import Record

RECORD_OVERHEAD_BYTES: Final = 24  # at least what a record's integers take
_HEADER_OVERHEAD_BYTES: Final = 8  # the lengths of a header's name and value
_UTF8_BYTES: Final = 4  # of a character, at most


def record_bytes(record: Record) -> int:
    """Return the size that counts for a record."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        name_bytes = len(name) if name.isascii() else _UTF8_BYTES * len(name)
        size += name_bytes + len(value or b"") + _HEADER_OVERHEAD_BYTES
    return size
