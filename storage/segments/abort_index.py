"""The list of aborted transactions of one segment: `<base>.txnindex`, in Kafka's format.

An entry is made for each abort marker that ends records, in the segment that holds the marker, in
the order of markers. 34 bytes (Kafka: AbortedTxn), all integers big-endian:

    position  size  field
           0     2  version, 0
           2     8  producer id
          10     8  first offset         of the transaction
          18     8  last offset          that of the marker
          26     8  last stable offset   right after it: the first offset still open, or marker + 1

New entries are packed in memory and written by a checkpoint, as those of the other indexes are
(`storage.segments.index_file`). The file has no checksum, and without an entry aborted records pass
for committed ones. So each snapshot of the producers says how many entries there are, and their
CRC-32C (`tally`); what differs is built anew (`storage.opening.abort_loading`).

A look-up returns producer ids and first offsets as they are in the entries: 16 bytes each, one
behind the other. The answer of a fetch has the same bytes, and may name thousands, so no numbers
are made of them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from protocol.checksum import crc32c
from storage.files import filenames
from storage.files.filesystem import Buffer, File
from storage.files.open_files import OpenFiles
from storage.segments import cold
from storage.segments.cold import Cold, Pulled

_ENTRY: Final = struct.Struct(">hqqqq")
_PAIR: Final = struct.Struct(">qq")
_PAIR_IN_ENTRY: Final = 2  # where it begins
ENTRY_BYTES: Final = _ENTRY.size
assert ENTRY_BYTES == 34
_VERSION: Final = 0

# Read at a time. After its binary search, a look-up on the loop reads one such block of a list, and
# of further lists about as many entries; where transactions lie across each other for long, a
# thread reads on.
BLOCK_ENTRIES: Final = 4_096
# Read first, then twice as many each time: most answers name few. A reader that goes on gets about
# as many as in the answer before, so then these are read at once.
FEW_ENTRIES: Final = 64
HINTS_MAX: Final = 64  # ends of answers that are remembered of a list

Tally = tuple[int, int]  # how many entries a list has, and the CRC-32C of their bytes
EMPTY: Final[Tally] = (0, 0)


class AbortedTransaction(NamedTuple):
    """One entry of the list."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int


class AbortIndex:
    """The aborted transactions whose markers are in one segment."""

    __slots__ = (
        "_count", "_crc", "_few", "_files", "_hints", "_is_cut", "_tail", "_written", "last_marker",
        "path",
    )  # fmt: skip

    def __init__(self, files: OpenFiles, path: str) -> None:
        self._files = files
        self.path = path
        self._tail = bytearray()  # entries not yet in the file
        self._written = 0  # entries in the file that count
        self._is_cut = False  # whether the file has others behind them
        self._count = 0
        self._crc = 0
        self.last_marker = -1  # the offset of the newest entry's marker
        self._hints: dict[int, int] = {}  # offset that an answer ended before -> perhaps its slot
        self._few = FEW_ENTRIES  # how many the next answer will need, perhaps

    def __len__(self) -> int:
        """Return how many entries there are, in the file and in memory."""
        return self._count

    @property
    def tally(self) -> Tally:
        """What a snapshot of the producers says of this list."""
        return self._count, self._crc

    # -- Filling ------------------------------------------------------------------------------

    def take_file(self, data: bytes, tally: Tally) -> bool:
        """Take the entries of `data`, the file's bytes, that `tally` speaks of.

        Others follow them where the file is newer. Returns whether the file has them all.
        """
        count, crc = tally
        size = count * ENTRY_BYTES
        if len(data) < size or crc32c(memoryview(data)[:size]) != crc:
            return False
        self._take(data, count)
        return True

    def take_unknown_file(self, data: bytes, base_offset: int, offset_end: int) -> bool:
        """Take the entries of `data` with a marker below `offset_end`, if no tally is known.

        `base_offset` is the segment's. Returns whether nothing is wrong with them: markers rise,
        and lie behind what they end.
        """
        kept, last_marker = 0, base_offset - 1
        for version, producer_id, first_offset, marker_offset, _ in _whole(data):
            if marker_offset >= offset_end:
                break
            if (
                version != _VERSION
                or producer_id < 0
                or not 0 <= first_offset < marker_offset
                or marker_offset <= last_marker
            ):
                return False
            kept, last_marker = kept + 1, marker_offset
        self._take(data, kept)
        return True

    def take_all(self, data: bytes) -> None:
        """Take all entries of `data`, which the file has."""
        self._take(data, len(data) // ENTRY_BYTES)

    def _take(self, data: bytes, count: int) -> None:
        size = count * ENTRY_BYTES
        self._count = self._written = count
        self._crc = crc32c(memoryview(data)[:size])
        self._tail, self._is_cut = bytearray(), size < len(data)
        self.last_marker = _ENTRY.unpack_from(data, size - ENTRY_BYTES)[3] if count else -1

    def begin_anew(self) -> None:
        """Drop every entry; the file follows when the list is written."""
        self._tail, self._written, self._count, self._crc = bytearray(), 0, 0, 0
        self._is_cut, self.last_marker = True, -1

    def add(self, aborted: AbortedTransaction) -> None:
        """Add the entry of a marker that was appended, in memory."""
        packed = _ENTRY.pack(_VERSION, *aborted)
        self._tail += packed
        self._crc = crc32c(packed, self._crc)
        self._count += 1
        self.last_marker = aborted.marker_offset

    def write(self) -> list[File]:
        """Write the entries that only memory holds; return the file if it must be synced.

        Raises OSError, with the entries still in memory.
        """
        size = self._written * ENTRY_BYTES
        if self._is_cut:
            with suppress(FileNotFoundError):
                self._files.get_to_write(self.path).truncate(size)
            self._is_cut = False
        if self._tail:
            self._files.get_to_write(self.path, create=True).pwrite(self._tail, size)
            # In this order, for a thread that reads: see `_read`.
            self._written = self._count
            self._tail = bytearray()
        file = self._files.peek(self.path)
        return [file] if file is not None and file.dirty else []

    def replace(self) -> None:
        """Replace the file by the entries in memory, durably. Blocks. Raises OSError."""
        assert not self._written, "all entries are in memory"
        self._files.replace(self.path, bytes(self._tail))
        self._written, self._is_cut = self._count, False
        self._tail = bytearray()

    @property
    def unwritten_count(self) -> int:
        """How many entries only memory holds."""
        return self._count - self._written

    @property
    def needs_file(self) -> bool:
        """Whether the next `write` makes the file."""
        return bool(self._tail) and not self._written

    # -- Reading ------------------------------------------------------------------------------

    def content(self) -> bytes:
        """Return all entries as they are in the file. Blocks. Raises OSError."""
        return self._read(0, self._count)

    def collect(self, from_offset: int, upper_offset: int, found: bytearray) -> bool:
        """Add producer id and first offset of each transaction with records in the range.

        Returns whether none of a later segment can have any. Raises Cold, OSError.
        """
        count = self._count
        slot, entries = self._first_block(from_offset, count)
        found_before = len(found)
        start, size = slot, len(entries) // ENTRY_BYTES or FEW_ENTRIES
        while start < count:
            if start - slot >= BLOCK_ENTRIES and not cold.may_wait(self.path):
                del found[found_before:]
                return collect_apart([self], from_offset, upper_offset, found)
            if start > slot:
                entries = self._read(start, min(count, start + size))
            ended, is_over = _pick(entries, upper_offset, found)
            if is_over:
                self._hint(upper_offset, start + ended, start + ended - slot)
                return True
            start += size
            left = slot + BLOCK_ENTRIES - start  # of the first block
            size = min(2 * size, left) if left > 0 else BLOCK_ENTRIES
        self._hint(upper_offset, count, count - slot)
        return False

    def _first_block(self, offset: int, count: int) -> tuple[int, bytes]:
        """Return the first slot whose marker is not below `offset`, and a few entries from there.

        Of the `count` first.
        """
        size = min(self._few, BLOCK_ENTRIES)
        slot = self._hints.get(offset, -1)
        if 0 <= slot <= count:
            # A hint may be wrong: threads look up here while the loop changes the list.
            before = min(slot, 1)
            entries = self._read(slot - before, min(count, slot + size))
            is_after = not before or _marker_in(entries, 0) < offset
            if is_after and (slot == count or _marker_in(entries, before) >= offset):
                return slot, entries[before * ENTRY_BYTES :]
        slot = bisect_left(range(count), offset, key=self._marker_at)
        return slot, self._read(slot, min(count, slot + size))

    def _hint(self, upper_offset: int, slot: int, ended: int) -> None:
        """Remember where the marker is that comes first behind an answer: the next one begins.

        And how many entries this one took.
        """
        self._few = max(FEW_ENTRIES, ended + ended // 8)
        if len(self._hints) >= HINTS_MAX:
            self._hints.clear()
        self._hints[upper_offset] = slot

    def _marker_at(self, slot: int) -> int:
        return _marker_in(self._read(slot, slot + 1), 0)

    def _read(self, start: int, end: int) -> bytes:
        """Return the bytes of entries. In a thread, `end` was a count before this call."""
        tail = self._tail  # first: if it is written meanwhile, the file has its entries
        written = self._written
        data = b""
        if start < written:
            size = (min(end, written) - start) * ENTRY_BYTES
            data = cold.read(self._file(), size, start * ENTRY_BYTES)
        if end > written:
            data += tail[max(0, start - written) * ENTRY_BYTES : (end - written) * ENTRY_BYTES]
        return data

    def _file(self) -> File:
        while True:  # as `LogFile.file`: a path may lead to another list, once this one has moved
            path = self.path
            try:
                try:
                    file = self._files.get(path)
                except FileNotFoundError:
                    file = self._files.get(filenames.deleted(path))  # a thread has renamed it
            except FileNotFoundError:
                if path == self.path:
                    raise
            else:
                if path == self.path:
                    return file


def collect_apart(
    lists: Sequence[AbortIndex], from_offset: int, upper_offset: int, found: bytearray
) -> bool:
    """As `AbortIndex.collect` of each list, left to a thread if the caller must not wait.

    Raises Cold, OSError.
    """
    # By the object: a compaction may give its path to another list meanwhile.
    key = (lists[0], from_offset, upper_offset, len(lists))
    if cold.may_wait(key):
        return any(one.collect(from_offset, upper_offset, found) for one in lists)
    kept = cold.kept(key)
    if kept is None:
        raise _ColdAborts(lists, key)
    found += memoryview(kept)[1:]
    return kept[0] > 0


class _ColdAborts(Cold):
    """A long walk over lists, which a thread makes."""

    def __init__(self, lists: Sequence[AbortIndex], key: tuple[AbortIndex, int, int, int]) -> None:
        super().__init__(f"{lists[0].path} and {len(lists) - 1} more lists to look through")
        self._lists = lists
        self._key = key
        self._found: bytes | Exception = b""

    def pull(self) -> None:
        """Look through the lists."""
        _, from_offset, upper_offset, _ = self._key
        found = bytearray()
        try:
            is_over = collect_apart(self._lists, from_offset, upper_offset, found)
        except OSError as error:
            self._found = error
        else:
            self._found = bytes([is_over]) + found

    def keep(self, pulled: Pulled) -> None:
        """Keep what was found, or the error of the disk."""
        pulled.keep_whole(self._key, self._found)


def _pick(entries: bytes, upper_offset: int, found: bytearray) -> tuple[int, bool]:
    """Add what begins below `upper_offset`.

    Returns how many markers are below it, and whether all later entries begin above it.
    """
    count = len(entries) // ENTRY_BYTES

    def marker_at(slot: int) -> int:
        return _marker_in(entries, slot)

    # Those with a marker below it begin below it, too.
    ended = count
    if count and marker_at(count - 1) >= upper_offset:
        ended = bisect_left(range(count), upper_offset, key=marker_at)
    found += _pairs_of(entries, ended)
    if ended and _stable_after(entries, ended - 1) >= upper_offset:
        return ended, True
    rest = memoryview(entries)[ended * ENTRY_BYTES : count * ENTRY_BYTES]
    for _, producer_id, first_offset, _, stable in _ENTRY.iter_unpack(rest):
        if first_offset < upper_offset:
            found += _PAIR.pack(producer_id, first_offset)
        if stable >= upper_offset:
            return ended, True
    return ended, False


def _pairs_of(entries: bytes, count: int) -> bytearray:
    """Return the pairs of the first entries.

    First bytes of all, then second bytes: five times as fast as entry by entry.
    """
    pairs = bytearray(count * _PAIR.size)
    end = count * ENTRY_BYTES
    for byte in range(_PAIR.size if count else 0):
        pairs[byte :: _PAIR.size] = entries[_PAIR_IN_ENTRY + byte : end : ENTRY_BYTES]
    return pairs


def _marker_in(entries: bytes, slot: int) -> int:
    """Return the marker of an entry; 0 if it is not whole: others may have cut the file."""
    marker = entries[slot * ENTRY_BYTES + 18 : slot * ENTRY_BYTES + 26]
    return int.from_bytes(marker, "big") if len(marker) == 8 else 0


def _stable_after(entries: bytes, slot: int) -> int:
    return int.from_bytes(entries[slot * ENTRY_BYTES + 26 : (slot + 1) * ENTRY_BYTES], "big")


def _whole(entries: Buffer) -> Iterator[tuple[int, int, int, int, int]]:
    """Unpack whole entries: the file may have been cut."""
    return _ENTRY.iter_unpack(memoryview(entries)[: len(entries) // ENTRY_BYTES * ENTRY_BYTES])
