"""One `.log` file: record batches end to end, and nothing else.

    | batch | batch | … | batch |          position 0 … size

An append is one positioned write at `size`. The file is never opened for appending, so a write that
failed half way is overwritten or cut off, never followed by another. `size` counts whole batches:
bytes behind it do not exist for readers.

Readers get a `LogSlice`, which holds a position and a size and fetches the bytes when they are
sent: a small slice by pread, a large one as a view of the mapped file. Nothing in this process
touches mapped bytes (docs/decisions/0030-reading-and-sending.md).

Walks go from batch header to batch header. The fields that a batch's CRC does not cover (base
offset, length, leader epoch, magic) are checked against its neighbours, and a mismatch raises
`DamagedLog` with the position: a wrong length is never mistaken for the end of the file. Checksums
are for recovery and `verify`, indexes for `storage.segments.segment_indexes`.

Messages of magic 0 and 1, from old Kafkas, are walked as a kind of batch
(`protocol.legacy_batches`). Only logs that hold them pay for that.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from protocol.legacy_batches import LegacyHeader, is_legacy, read_legacy_header
from protocol.legacy_messages import MESSAGE_SIZE_MIN
from protocol.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header
from protocol.record_errors import RecordError
from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.files import filenames
from storage.files.filesystem import Buffer, File
from storage.files.open_files import OpenFiles
from storage.segments import cold

# Measured: docs/decisions/0030-reading-and-sending.md.
MAP_BYTES_MIN = 128 * 1024  # from here on a view of a map that exists is cheaper than pread
REMAP_BYTES_MIN = 512 * 1024  # from here on, also if the file must be mapped anew for it
REMAP_GROWTH_BYTES = 16 * 1024 * 1024  # so much outside the map is worth a new one in any case
PULL_BYTES = 1024 * 1024  # cold bytes are pulled into memory in pieces of this size
SCAN_CHUNK_BYTES = 64 * 1024  # read at a time when walking a whole file
BATCH_LENGTH_MIN = HEADER_SIZE - LOG_OVERHEAD


class LogFile:
    """One log file by path; `size` is the number of bytes that hold whole batches."""

    __slots__ = ("_files", "_unsynced", "path", "size")

    def __init__(self, files: OpenFiles, path: str, size: int) -> None:
        self._files = files
        self._unsynced: File | None = None  # appended to since `take_unsynced`
        self.path = path
        self.size = size

    def append(self, buffer: Buffer) -> int:
        """Write `buffer` (whole batches) at the end and return its position.

        Raises AppendFailed. With `rolled_back` the file is as before; without it, cutting off the
        partial write failed too, and nothing may be appended any more.
        """
        position = self.size
        try:
            file = self._files.get(self.path)
        except OSError as error:
            raise AppendFailed(self.path, position, error, rolled_back=True) from error
        self._unsynced = file
        try:
            file.pwrite(buffer, position)
        except OSError as error:
            raise AppendFailed(
                self.path,
                position,
                error,
                rolled_back=self._roll_back(file),
                size_bytes=len(buffer),
            ) from error
        self.size = position + len(buffer)
        return position

    def reserve(self, size_bytes: int) -> bool:
        """Reserve room for `size_bytes` more; return whether the disk did. `truncate` frees it."""
        try:
            self._files.get(self.path).reserve(self.size + size_bytes)
        except OSError:  # no room, or a file system that cannot
            return False
        return True

    def _roll_back(self, file: File) -> bool:
        try:
            file.truncate(self.size)
        except OSError:
            return False
        return True

    def create(self) -> None:
        """Make the empty file. The caller syncs the directory.

        Raises OSError; FileExistsError for a file that is not empty, which is never overwritten.
        """
        size = self._files.get(self.path, create=True).size()
        if size:
            raise FileExistsError(errno.EEXIST, f"a log file of {size} bytes exists", self.path)

    def file(self) -> File:
        """Return the open file; LogFailed if it cannot be opened. From any thread.

        If the path has not changed since it was opened, the file is this log's. Had the topic been
        deleted and created again meanwhile, the path would lead to another log.
        """
        while True:
            path = self.path
            try:
                try:
                    file = self._files.get(path)
                except FileNotFoundError:
                    if path.endswith(filenames.deleted("")):
                        raise
                    file = self._files.get(filenames.deleted(path))  # a thread has renamed it
            except OSError as error:
                if path == self.path:
                    raise LogFailed(path, f"cannot be opened: {error}") from error
            else:
                if path == self.path:
                    return file

    def take_unsynced(self) -> File | None:
        """Return the file if it was appended to since the last call: the caller syncs it.

        It is the object that was written to, even if the table of open files has evicted it.
        """
        file, self._unsynced = self._unsynced, None
        return file

    def read(self, position: int, size: int) -> bytes:
        """Return exactly `size` bytes from `position`. May block. Raises LogFailed, Cold."""
        return _read(self.file(), position, size)

    def view(self, file: File, position: int, size: int) -> memoryview:
        """Return a view of the mapped file, for sending only; `file` is this log's, open."""
        mapped = file.mapped
        if mapped is None or len(mapped) < position + size:
            try:
                mapped = file.mapped = file.map(self.size)
            except (OSError, ValueError) as error:  # ValueError: the file is shorter than `size`
                raise LogFailed(self.path, f"cannot map {self.size} bytes: {error}") from error
        self._files.viewed(file, size)
        return mapped[position : position + size]

    def read_header_at(self, position: int) -> BatchHeader | None:
        """Return the header of the batch at `position`; None at the end of the file.

        Nothing is checked. May block.
        """
        left = self.size - position
        if left < MESSAGE_SIZE_MIN:
            return None
        data = self.read(position, min(HEADER_SIZE, left))
        if is_legacy(data):
            legacy = _legacy_header(self.file(), position, data, left)
            if legacy is not None:
                return legacy
        return None if left < HEADER_SIZE else read_header(data)

    def scan(
        self,
        start_position: int = 0,
        end_position: int | None = None,
        *,
        offset_min: int = 0,
        offset_end: int | None = None,
        chunk_bytes: int = SCAN_CHUNK_BYTES,
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of every batch from `start_position` (a batch's start) on.

        Offsets must rise within [offset_min, offset_end), and every batch must end before
        `end_position` (default: the end of the file); otherwise raises DamagedLog. Only headers
        are parsed: a chunk is read at a time, or just the header if batches are larger. May block.
        """
        end = self.size if end_position is None else end_position
        file = self.file()
        position = start_position
        chunk, chunk_start, batch_bytes = b"", position, 0
        while position < end:
            at = position - chunk_start
            if at + HEADER_SIZE > len(chunk):
                size = HEADER_SIZE if batch_bytes > chunk_bytes else chunk_bytes
                chunk = _read(file, position, min(size, end - position))
                chunk_start, at = position, 0
                if len(chunk) < HEADER_SIZE:
                    chunk = self._short_end(chunk, position, offset_min)
            header = read_header(chunk, at)
            base_offset, batch_length, _, magic, _, _, delta, _, _, _, _, _, _ = header
            batch_bytes = batch_length + LOG_OVERHEAD
            last_offset = base_offset + delta
            if (
                magic != MAGIC
                or batch_length < BATCH_LENGTH_MIN
                or position + batch_bytes > end
                or base_offset < offset_min
                or delta < 0
                or (offset_end is not None and last_offset >= offset_end)
            ):
                legacy = _legacy_header(file, position, memoryview(chunk)[at:], end - position)
                header = header if legacy is None else legacy
                last_offset, batch_bytes = header.last_offset, header.size
                if (
                    legacy is None
                    or header.base_offset < offset_min
                    or (offset_end is not None and last_offset >= offset_end)
                ):
                    raise self._damaged(position, header, end, offset_min, offset_end)
            yield position, header
            offset_min = last_offset + 1
            position += batch_bytes

    def _short_end(self, chunk: bytes, position: int, offset_min: int) -> bytes:
        """Pad an end too short for a batch, if it may be a message of an old format."""
        if is_legacy(chunk):
            return chunk.ljust(HEADER_SIZE, b"\0")
        raise DamagedLog(
            self.path,
            position,
            offset_min,
            found=f"{len(chunk)} bytes",
            wanted=f"a batch of at least {HEADER_SIZE} bytes",
        )

    def _damaged(
        self, position: int, header: BatchHeader, end: int, offset_min: int, offset_end: int | None
    ) -> DamagedLog:
        """Return the error for the first field that does not fit."""
        is_legacy_message = isinstance(header, LegacyHeader)
        if header.magic != MAGIC and not is_legacy_message:
            found, wanted = f"magic {header.magic}", str(MAGIC)
        elif header.batch_length < BATCH_LENGTH_MIN and not is_legacy_message:
            found, wanted = f"batch length {header.batch_length}", f"at least {BATCH_LENGTH_MIN}"
        elif position + header.size > end:
            found, wanted = f"a batch of {header.size} bytes", f"at most {end - position}"
        elif header.base_offset < offset_min:
            found, wanted = f"base offset {header.base_offset}", f"at least {offset_min}"
        elif header.last_offset_delta < 0:
            found, wanted = f"last offset delta {header.last_offset_delta}", "at least 0"
        else:
            found, wanted = f"last offset {header.last_offset}", f"less than {offset_end}"
        return DamagedLog(self.path, position, offset_min, found=found, wanted=wanted)

    def slice(self, position: int, size: int, hole_from: int = -1) -> LogSlice:
        """Return the bytes from `position` on as a slice, unread; see LogSlice."""
        return LogSlice(self, position, size, hole_from)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, a batch's end. Raises OSError with nothing changed."""
        file = self._files.get(self.path)
        file.truncate(size)
        file.mapped = None  # views that were handed out keep the old map
        self.size = size

    def forget(self) -> None:
        """Release the descriptor and the map."""
        self._unsynced = None
        self._files.forget(self.path)


class LogSlice:
    """A range of whole batches in a log file; the bytes are fetched when they are sent.

    `hole_from` is where a hole in the offsets begins before the first batch, -1 if the look-up saw
    none. The slice keeps the file open, so a segment that is deleted meanwhile is still served.
    """

    __slots__ = ("_open", "hole_from", "log_file", "position", "size")

    def __init__(self, log_file: LogFile, position: int, size: int, hole_from: int) -> None:
        self.log_file = log_file
        self.position = position
        self.size = size
        self.hole_from = hole_from
        self._open = log_file.file()

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"LogSlice({self.log_file.path}, position={self.position}, size={self.size})"

    def load_hot(self) -> Buffer | None:
        """Return the bytes, for sending, if they are in memory; else None. Does not wait.

        A large slice is a view of the mapped file: pass it to `send`, and do not read from it.
        Raises LogFailed if the disk fails.
        """
        size, position = self.size, self.position
        try:
            if size < MAP_BYTES_MIN or not self._is_for_map():
                return self.read_hot()
            if not self._open.is_cached(position, size):
                return None
        except OSError as error:
            raise _unreadable(self._open, position, error) from error
        return self.log_file.view(self._open, position, size)

    def read_hot(self, bytes_max: int = 1 << 62) -> Buffer | None:
        """As load_hot, but by pread, and None above `bytes_max`: the caller may read the bytes."""
        size, position = self.size, self.position
        if size > bytes_max:
            return None
        try:
            data = self._open.pread_nowait(size, position)
        except OSError as error:
            raise _unreadable(self._open, position, error) from error
        if data is not None and len(data) != size:
            raise _short(self._open, position, size, len(data))
        return data

    def _is_for_map(self) -> bool:
        """Whether to send a large slice from the map: not if that takes a new map for little.

        A reader at the end of a growing file would otherwise cause a new map with each read.
        """
        mapped = self._open.mapped
        mapped_bytes = 0 if mapped is None else len(mapped)
        return (
            self.position + self.size <= mapped_bytes
            or self.size >= REMAP_BYTES_MIN
            or self.log_file.size - mapped_bytes >= REMAP_GROWTH_BYTES
        )

    def load(self) -> Buffer:
        """As load_hot, but wait for the disk. For a thread of the pool.

        A large slice is pulled into memory in pieces, so that sending its view does not wait.
        """
        size, position = self.size, self.position
        if size < MAP_BYTES_MIN or not self._is_for_map():
            return self.read()
        end = position + size
        for at in range(position, end, PULL_BYTES):
            piece = min(PULL_BYTES, end - at)
            try:
                got = piece if self._open.is_cached(at, piece) else self._open.pull(piece, at)
            except OSError as error:
                raise _unreadable(self._open, at, error) from error
            if got != piece:
                raise _short(self._open, at, piece, got)
        return self.log_file.view(self._open, position, size)

    def read(self) -> bytes:
        """Return the bytes by pread, for reading. May block. Raises LogFailed."""
        return _read(self._open, self.position, self.size)


def _legacy_header(
    file: File, position: int, data: bytes | memoryview, left: int
) -> LegacyHeader | None:
    """Return the header of a message of magic 0 or 1 at `position`, None if there is none.

    `data` holds the first bytes from `position`, and the file has `left` bytes from there.
    """
    if not is_legacy(data):
        return None
    size = int.from_bytes(data[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    if not MESSAGE_SIZE_MIN <= size <= left:
        return None
    try:
        return read_legacy_header(data if size <= len(data) else _read(file, position, size))
    except RecordError:
        return None


def _read(file: File, position: int, size: int) -> bytes:
    try:
        data = cold.read(file, size, position)
    except OSError as error:
        raise _unreadable(file, position, error) from error
    if len(data) != size:
        raise _short(file, position, size, len(data))
    return data


def _unreadable(file: File, position: int, error: OSError) -> LogFailed:
    return LogFailed(file.path, f"read at position {position} failed: {error}")


def _short(file: File, position: int, wanted: int, found: int) -> LogFailed:
    reason = f"read at position {position} returned {found} bytes, expected {wanted}: file is cut"
    return LogFailed(file.path, reason)
