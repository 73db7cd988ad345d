"""What a consumer makes of a batch: its records, or less where a command needs less.

A consumer checks each batch of an answer, and has an opener open it. What an opener returns, `poll`
passes on. An opener that looks for something may tell that an answer does not have it, so that the
batches in it need not be opened one by one.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from protocol.legacy_batches import read_records_any
from protocol.legacy_messages import MAGIC_POSITION
from protocol.record_batch import MAGIC, read_header
from protocol.records import Record

OPENED_BYTES_MAX: Final = 256 * 1024 * 1024
OFFSET_END: Final = 1 << 63  # behind every offset


class BatchOpener(Protocol):
    """Opens batches."""

    def has_nothing(self, raw: bytes) -> bool:
        """Whether no batch of an answer that is not compressed is worth opening."""
        ...

    def opened(self, raw: bytes, start: int, first: int, end: int) -> list[Any]:
        """Return the checked batch at `start`, of it the records from `first` up to `end`.

        Raises RecordError.
        """
        ...


class CodecOpener:
    """Returns all records, and notes how their batches are compressed.

    `codec` is that of a compressed batch that was opened, 0 if there was none; set it to 0 before.
    """

    def __init__(self) -> None:
        self.codec = 0
        self._records = RecordOpener()

    def has_nothing(self, raw: bytes) -> bool:  # noqa: ARG002
        """Return that each batch is worth opening."""
        return False

    def opened(self, raw: bytes, start: int, first: int, end: int) -> list[Record]:
        """Return the records of a batch. Raises RecordError."""
        if raw[start + MAGIC_POSITION] == MAGIC:
            self.codec = read_header(raw, start).codec or self.codec
        return self._records.opened(raw, start, first, end)


class RecordOpener:
    """Returns all records."""

    def has_nothing(self, raw: bytes) -> bool:  # noqa: ARG002
        """Return that each batch is worth opening."""
        return False

    def opened(self, raw: bytes, start: int, first: int, end: int) -> list[Record]:
        """Return the records of a batch. Raises RecordError."""
        records = read_records_any(raw, start, size_max=OPENED_BYTES_MAX)
        return [record for record in records if first <= record.offset < end]
