"""An index file of any layout: counted, written in blocks, cut, and its zeros never trusted."""

import errno
import struct

import pytest

from storage.files.open_files import OpenFiles
from storage.segments.index_file import IndexFile, count_entries
from tests.support.memory_filesystem import MemoryFileSystem


class Pairs(IndexFile):
    """Two shorts per entry."""

    __slots__ = ()

    layout = struct.Struct(">hh")
    none = (-1, -1)
    spare_entries = 1

    def add(self, first: int, second: int) -> None:
        count = self.entry_count
        self._tail += self.layout.pack(first, second)
        self._last = (first, second)
        self._count = count + 1


@pytest.fixture
def filesystem():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/d")
    return filesystem


def index(filesystem, size_max=1_000):
    return Pairs(OpenFiles(filesystem, 10), "/d/0.pairs", 0, size_max)


def test_entries_stay_in_memory_until_written_and_are_read_by_the_next_open(filesystem):
    first = index(filesystem)
    first.add(1, 10)
    first.add(2, 20)
    assert not filesystem.exists("/d/0.pairs")
    first.write_tail()
    first.add(3, 30)
    assert first.entry_count == 3
    assert index(filesystem).entry_count == 2
    first.write_tail()
    again = index(filesystem)
    assert (again.entry_count, again._last) == (3, (3, 30))


@pytest.mark.parametrize("entries", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("zeros", [0, 1, 5, 100])
def test_the_zeros_of_a_preallocated_end_do_not_count(filesystem, entries, zeros):
    file = filesystem.open("/d/0.pairs", create=True)
    packed = b"".join(Pairs.layout.pack(number, number) for number in range(1, entries + 1))
    file.pwrite(packed + bytes(4 * zeros) + b"x", 0)
    counted = count_entries(file, 4)
    # A file of zeros only may be one entry of zeros; no more than one is counted.
    assert counted == entries or (entries == 0 and counted <= 1)


def test_an_index_is_full_if_the_spare_entries_would_not_fit(filesystem):
    under_test = index(filesystem, size_max=12)
    under_test.add(1, 1)
    under_test.add(2, 2)
    assert not under_test.is_full
    under_test.add(3, 3)
    assert under_test.is_full


def test_a_failed_write_keeps_the_entries_for_the_next(filesystem):
    under_test = index(filesystem)
    under_test.add(1, 1)
    filesystem.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        under_test.write_tail()
    under_test.add(2, 2)
    under_test.write_tail()
    assert index(filesystem).entry_count == 2


def test_synced_entries_survive_a_power_cut(filesystem):
    filesystem.sync_directory("/")
    under_test = index(filesystem)
    under_test.sync()  # no file was created: nothing to do
    under_test.add(1, 1)
    under_test.write_tail()
    under_test.sync()
    filesystem.sync_directory("/d")
    filesystem.crash()
    assert index(filesystem).entry_count == 1


def test_clear_leaves_an_empty_file(filesystem):
    under_test = index(filesystem)
    under_test.add(1, 1)
    under_test.write_tail()
    under_test.add(2, 2)
    under_test.clear()
    assert (under_test.entry_count, filesystem.size("/d/0.pairs")) == (0, 0)
    under_test.add(5, 5)
    under_test.write_tail()
    assert index(filesystem)._read(filesystem.open("/d/0.pairs"), 0) == (5, 5)


def test_an_entry_beyond_a_truncated_file_is_none(filesystem):
    first = index(filesystem)
    first.add(1, 10)
    first.write_tail()
    filesystem.open("/d/0.pairs").truncate(2)
    assert first._read(filesystem.open("/d/0.pairs"), 0) == Pairs.none


def test_entries_after_a_replacement_whose_sync_failed_are_in_the_new_file(filesystem):
    """The file that was open before is under no name any more: nothing would find them there."""
    under_test = index(filesystem)
    under_test.add(1, 1)
    under_test.write_tail()
    under_test.begin_anew()
    under_test.add(2, 2)
    filesystem.fail("sync_directory")
    with pytest.raises(OSError, match="/d"):
        under_test.replace()
    under_test.add(3, 3)
    under_test.write_tail()
    assert index(filesystem).entry_count == 2
