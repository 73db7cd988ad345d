"""Walking a `.log` file in any format: the entry at each position, and where the walk must stop.

An `Entry` is a record batch (magic 2) or an older message, plain or a wrapper (magic 0 and 1). The
walk follows sizes only, so an entry may still be damaged: `damage` compares its checksum, and
`records` opens it. Where a size leads nowhere, `CorruptBatch` says why; `next_entry_behind`
searches for the next entry with a right checksum, so that one bad length hides nothing after it.

Files are read with pread, `CHUNK_BYTES` at a time; they are never mapped or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.legacy_messages import (
    MAGIC_POSITION,
    MESSAGE_SIZE_MIN,
    LegacyMessage,
    inner_messages,
    read_message,
)
from protocol.record_errors import CorruptBatch, RecordError
from protocol.records import (
    BATCH_LENGTH_MIN,
    LOG_OVERHEAD,
    BatchHeader,
    Record,
    read_header,
    read_records,
    verify,
)

if TYPE_CHECKING:
    from storage.files.filesystem import File

CHUNK_BYTES: Final = 4 << 20
ENTRY_BYTES_MAX: Final = 256 << 20  # twice what a broker accepts in one frame
RECORDS_BYTES_MAX: Final = 1 << 30  # of one entry, unpacked
ZERO_CHUNK_BYTES: Final = 1 << 20


class Entry(NamedTuple):
    """The entry at `position`: a batch has `header`, an older message has `message`."""

    position: int
    data: memoryview
    header: BatchHeader | None
    message: LegacyMessage | None

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.data)

    @property
    def magic(self) -> int:
        """Format: 0, 1 or 2."""
        return self.data[MAGIC_POSITION]

    @property
    def base_offset(self) -> int:
        """A batch's first offset; a message's own, which for a wrapper is its last."""
        return self.header.base_offset if self.header else self._message.offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return self.header.last_offset if self.header else self._message.offset

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp, ms; -1 in magic 0."""
        return self.header.max_timestamp if self.header else self._message.timestamp

    @property
    def timestamp_type(self) -> str:
        """Kafka's name for the source of the timestamps."""
        if self.magic == 0:
            return "NoTimestampType"
        source = self.header or self._message
        return "LogAppendTime" if source.is_log_append_time else "CreateTime"

    @property
    def codec(self) -> int:
        """The codec id; 5 to 7 are not defined."""
        return (self.header or self._message).codec

    @property
    def crc(self) -> int:
        """The checksum that the file contains."""
        return (self.header or self._message).crc

    @property
    def _message(self) -> LegacyMessage:
        assert self.message is not None
        return self.message

    def damage(self) -> str:
        """Return what is wrong by the checksum and the header's own fields, "" if nothing is."""
        if self.message is not None:
            if self.message.is_valid:
                return ""
            return (
                f"CRC-32 {self.message.crc_computed:#010x}, "
                f"its header says {self.message.crc:#010x}"
            )
        try:
            verify(self.data)
        except CorruptBatch as error:
            return error.reason
        except RecordError as error:
            return str(error)
        return ""

    def records(self) -> Iterator[Record]:
        """Open the entry. Raises RecordError, at the call or later."""
        if self.header is not None:
            return read_records(self.data, size_max=RECORDS_BYTES_MAX)
        return iter(
            [Record(one.offset, one.timestamp, one.key, one.value) for one in self.messages()]
        )

    def messages(self) -> list[LegacyMessage]:
        """Open a message and return those in it. Raises RecordError."""
        return inner_messages(self._message, size_max=RECORDS_BYTES_MAX)


class LogBytes:
    """The bytes of a `.log` file from 0 to `size`: the size it had when this was created."""

    def __init__(self, file: File, size: int | None = None) -> None:
        self._file = file
        self.size = file.size() if size is None else size
        self._chunk = memoryview(b"")
        self._start = 0

    def take(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, or fewer at the end of the file. Raises OSError."""
        at = position - self._start
        if at < 0 or at + size > len(self._chunk):
            wanted = min(max(size, CHUNK_BYTES), self.size - position)
            self._chunk = memoryview(self._file.pread(max(0, wanted), position))
            self._start, at = position, 0
        return self._chunk[at : at + size]

    def zeros_behind(self, position: int) -> int:
        """Return the number of bytes to the end of the file if they are all zero, else 0."""
        at = position
        while at < self.size:
            piece = self.take(at, min(ZERO_CHUNK_BYTES, self.size - at))
            if not piece or any(piece):
                return 0
            at += len(piece)
        return self.size - position


def read_entry(source: LogBytes, position: int) -> Entry:
    """Return the entry at `position`. Raises CorruptBatch if there is no whole entry."""
    remaining = source.size - position
    if remaining < MESSAGE_SIZE_MIN:
        raise CorruptBatch(position, f"{remaining} bytes are left, too few for a batch")
    head = source.take(position, MESSAGE_SIZE_MIN)
    if len(head) < MESSAGE_SIZE_MIN:
        raise CorruptBatch(position, "the file was truncated while it was read")
    size = int.from_bytes(head[8:12], "big", signed=True) + LOG_OVERHEAD
    magic = head[MAGIC_POSITION]
    least = BATCH_LENGTH_MIN + LOG_OVERHEAD if magic == 2 else MESSAGE_SIZE_MIN
    if size < least:
        raise CorruptBatch(
            position, f"a batch of {size} bytes (magic {magic}), expected at least {least}"
        )
    if magic > 2:
        raise CorruptBatch(position, f"magic {magic}, expected 0, 1 or 2")
    if size > min(remaining, ENTRY_BYTES_MAX):
        raise CorruptBatch(
            position, f"a batch of {size} bytes, but {remaining} are left in the file"
        )
    data = source.take(position, size)
    if len(data) < size:
        raise CorruptBatch(position, "the file was truncated while it was read")
    try:
        if magic == 2:
            return Entry(position, data, read_header(data), None)
        return Entry(position, data, None, read_message(data))
    except CorruptBatch as error:
        raise CorruptBatch(position, error.reason) from None


def entries(source: LogBytes, position: int = 0) -> Iterator[Entry]:
    """Yield all entries from `position` to the end. Raises CorruptBatch at a broken one."""
    while position < source.size:
        entry = read_entry(source, position)
        yield entry
        position += entry.size


def next_entry_behind(source: LogBytes, position: int, offset_min: int) -> int | None:
    """Return the position of the next entry with a right checksum and an offset >= `offset_min`.

    It searches for what must be in the first bytes: the high half of an offset, and a magic.
    Returns None if there is no such entry up to the end of the file.
    """
    high = (offset_min >> 32).to_bytes(4, "big")
    pattern = re.compile(re.escape(high) + b"[\\x00-\\xff]{12}[\\x00-\\x02]")
    at = position
    while at < source.size:
        piece = bytes(source.take(at, min(CHUNK_BYTES, source.size - at)))
        if not piece:
            return None
        start = 0
        while (found := pattern.search(piece, start)) is not None:
            start = found.start() + 1
            if _is_sound_at(source, at + found.start(), offset_min):
                return at + found.start()
        step = len(piece) - MAGIC_POSITION
        if step <= 0:
            return None
        at += step
    return None


def _is_sound_at(source: LogBytes, position: int, offset_min: int) -> bool:
    try:
        entry = read_entry(source, position)
    except CorruptBatch:
        return False
    return entry.base_offset >= offset_min and not entry.damage()
