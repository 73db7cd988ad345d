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

A look-up returns producer ids and first offsets as the answer of a fetch names them, which has the
same bytes of an entry behind each other (`protocol.packed_pairs`). It may name thousands, so no
numbers are made of them.
"""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from protocol.checksum import crc32c
from protocol.packed_pairs import PACKED_PAIR, PAIR_BYTES
from storage.files import filenames
from storage.files.filesystem import Buffer, File
from storage.files.open_files import OpenFiles
from storage.segments import cold
from storage.segments.cold import Cold, Pulled

_ENTRY: Final = struct.Struct(">hqqqq")
_PAIR_IN_ENTRY: Final = 2  # where it begins
_COLUMNS: Final = 8 + 8  # its bytes, without the last one, which is always 0
ENTRY_BYTES: Final = _ENTRY.size
assert ENTRY_BYTES == 34
_VERSION: Final = 0

# Read at a time. After its binary search, a look-up on the loop reads one such block of a list, and
# of further lists about as many entries; where transactions lie across each other for long, a
# thread reads on.
BLOCK_ENTRIES: Final = 4_096
# Read first, then twice as many each time: most answers name few. A reader that goes on gets about
# as many as in the answer before, and one that begins where another did just as many: then these
# are read at once.
FEW_ENTRIES: Final = 64
HINTS_MAX: Final = 64  # bounds of answers that are remembered of a list

_fillings: Final = itertools.count()  # numbers, of all lists

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
        "_count", "_crc", "_files", "_hints", "_is_cut", "_tail", "_written", "filling",
        "last_marker", "path",
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
        self.filling = next(_fillings)  # another number once its entries have become others
        # Offset that an answer began at, or ended before -> perhaps its slot, and perhaps how many
        # entries an answer from there needs.
        self._hints: dict[int, tuple[int, int]] = {}

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
        self.filling = next(_fillings)
        self._count = self._written = count
        self._crc = crc32c(memoryview(data)[:size])
        self._tail, self._is_cut = bytearray(), size < len(data)
        self.last_marker = _ENTRY.unpack_from(data, size - ENTRY_BYTES)[3] if count else -1

    def begin_anew(self) -> None:
        """Drop every entry; the file follows when the list is written."""
        self._tail, self._written, self._count, self._crc = bytearray(), 0, 0, 0
        self._is_cut, self.last_marker = True, -1
        self.filling = next(_fillings)

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
            ended, looked_at, is_over = _pick(entries, upper_offset, found)
            if is_over:
                self._hint(from_offset, slot, start + looked_at, upper_offset, start + ended)
                return True
            start += size
            left = slot + BLOCK_ENTRIES - start  # of the first block
            size = min(2 * size, left) if left > 0 else BLOCK_ENTRIES
        self._hint(from_offset, slot, count, upper_offset, count)
        return False

    def _first_block(self, offset: int, count: int) -> tuple[int, bytes]:
        """Return the first slot whose marker is not below `offset`, and a few entries from there.

        Of the `count` first.
        """
        slot, few = self._hints.get(offset, (-1, FEW_ENTRIES))
        size = min(few, BLOCK_ENTRIES)
        if 0 <= slot <= count:
            # A hint may be wrong: threads look up here while the loop changes the list.
            before = min(slot, 1)
            entries = self._read(slot - before, min(count, slot + size))
            is_after = not before or _marker_in(entries, 0) < offset
            if is_after and (slot == count or _marker_in(entries, before) >= offset):
                return slot, entries[before * ENTRY_BYTES :]
        slot = bisect_left(range(count), offset, key=self._marker_at)
        return slot, self._read(slot, min(count, slot + size))

    def _hint(
        self, from_offset: int, slot: int, looked_at: int, upper_offset: int, ended: int
    ) -> None:
        """Remember where an answer began, and where the next one begins: at slot `ended`.

        This one has looked at the entries up to the slot `looked_at`.
        """
        hints = self._hints
        if len(hints) >= HINTS_MAX:
            hints.clear()
        taken = ended - slot
        hints[from_offset] = slot, max(1, looked_at - slot)
        if hints.get(upper_offset, (-1, 0))[0] != ended:
            hints[upper_offset] = ended, max(FEW_ENTRIES, taken + taken // 8)

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


def _pick(entries: bytes, upper_offset: int, found: bytearray) -> tuple[int, int, bool]:
    """Add what begins below `upper_offset`.

    Returns how many markers are below it, how many entries say so, and whether all later ones begin
    above it.
    """
    count = len(entries) // ENTRY_BYTES

    def marker_at(slot: int) -> int:
        return _marker_in(entries, slot)

    # Those with a marker below it begin below it, too.
    ended = count
    if count and marker_at(count - 1) >= upper_offset:
        ended = bisect_left(range(count), upper_offset, key=marker_at)
    if ended:
        found += _pairs_of(entries, ended)
        if _stable_after(entries, ended - 1) >= upper_offset:
            return ended, ended, True
    rest = memoryview(entries)[ended * ENTRY_BYTES : count * ENTRY_BYTES]
    looked_at = ended
    for _, producer_id, first_offset, _, stable in _ENTRY.iter_unpack(rest):
        looked_at += 1
        if first_offset < upper_offset:
            found += PACKED_PAIR.pack(producer_id, first_offset)
        if stable >= upper_offset:
            return ended, looked_at, True
    return ended, looked_at, False


def _pairs_of(entries: bytes, count: int) -> bytearray:
    """Return the pairs of the first entries.

    First bytes of all, then second bytes: five times as fast as entry by entry. Most of the high
    ones are 0 in all.
    """
    pairs = bytearray(count * PAIR_BYTES)
    zeros = bytes(count)
    start, end = _PAIR_IN_ENTRY, count * ENTRY_BYTES
    for byte in range(_COLUMNS):
        column = entries[start + byte : end : ENTRY_BYTES]
        if column != zeros:
            pairs[byte::PAIR_BYTES] = column
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
