"""Reads and checks every batch of a log file, or of what was appended to it so far.

Each batch must have a right structure and CRC, and offsets that follow the batch before and are in
the file's range. The first that has not ends the reading with `DamagedLog`, which names file and
position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from protocol.legacy_batches import verify_any
from protocol.record_batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from protocol.record_errors import RecordError
from storage.errors import DamagedLog
from storage.files.filesystem import File
from storage.segments.log_file import LogFile

CHUNK_BYTES: Final = 1024 * 1024  # read at a time

Proceed = Callable[[int], None]  # called with the bytes read or written; may wait, may raise


class BatchFile(Protocol):
    """A log file whose first `size` bytes do not change, and the range of offsets in them."""

    @property
    def log_file(self) -> LogFile:
        """The file."""

    @property
    def base_offset(self) -> int:
        """The offset that the first batch may have."""

    @property
    def end_offset(self) -> int:
        """The offset behind the last batch."""

    @property
    def size(self) -> int:
        """Bytes to be read."""


class AppendedPart(NamedTuple):
    """What was appended to a log file so far."""

    log_file: LogFile
    base_offset: int
    end_offset: int
    size: int


class InactiveFile(NamedTuple):
    """A log file that takes no more appends, and its range of offsets."""

    log_file: LogFile
    base_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.log_file.size


def read_batches(
    inactive: BatchFile, proceed: Proceed
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, batch) of every batch. Raises DamagedLog, LogFailed.

    The file stays open from the first batch to the last, even if it is renamed.
    """
    path, file = inactive.log_file.path, inactive.log_file.file()
    position, next_offset = 0, inactive.base_offset
    while position < inactive.size:
        chunk = memoryview(_read_chunk(file, position, inactive.size - position))
        at = 0
        while at < len(chunk):
            if at and at + _announced_size(chunk, at) > len(chunk):
                break  # its rest is in the next chunk, or nowhere
            try:
                header = verify_any(chunk, at)
            except RecordError as error:
                raise DamagedLog(
                    path, position + at, next_offset, found=str(error), wanted="a whole batch"
                ) from error
            if header.base_offset < next_offset or header.next_offset > inactive.end_offset:
                raise DamagedLog(
                    path,
                    position + at,
                    next_offset,
                    found=f"offsets {header.base_offset} to {header.last_offset}",
                    wanted=f"{next_offset} to {inactive.end_offset - 1}",
                )
            proceed(header.size)
            yield position + at, header, chunk[at : at + header.size]
            next_offset = header.next_offset
            at += header.size
        position += at


def _read_chunk(file: File, position: int, left: int) -> bytes:
    """Read a chunk with the whole batch at `position`, if the `left` bytes hold it."""
    chunk = file.pread(min(CHUNK_BYTES, left), position)
    size = _announced_size(chunk, 0)
    return file.pread(size, position) if len(chunk) < size <= left else chunk


def _announced_size(chunk: bytes | memoryview, at: int) -> int:
    if at + HEADER_SIZE > len(chunk):
        return HEADER_SIZE
    return int.from_bytes(chunk[at + 8 : at + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
