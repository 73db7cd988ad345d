"""Lists of aborted transactions: Kafka's bytes, look-ups, and what reaches the file."""

import errno
import random
import struct

import pytest
from crc32c import crc32c

from protocol.packed_pairs import PACKED_PAIR
from storage.files.open_files import OpenFiles
from storage.segments import abort_index
from storage.segments.abort_index import EMPTY, ENTRY_BYTES, AbortedTransaction, AbortIndex
from storage.segments.cold import NOTHING, Cold, Pulled, without_waiting
from tests.support.memory_filesystem import MemoryFileSystem

PATH = f"/d/{0:020}.txnindex"


@pytest.fixture
def disk():
    disk = MemoryFileSystem()
    disk.mkdir("/d")
    return disk


def index_on(disk, *entries):
    index = AbortIndex(OpenFiles(disk, 10), PATH)
    for entry in entries:
        index.add(AbortedTransaction(*entry))
    return index


def collected(index, from_offset, upper_offset):
    found = bytearray()
    is_over = index.collect(from_offset, upper_offset, found)
    return [*PACKED_PAIR.iter_unpack(found)], is_over


def test_an_entry_is_kafkas_byte_for_byte(disk):
    """Producer 6 at offsets 0 and 1, as Kafka 4.3 wrote it (the marker at 1, stable then: 2)."""
    index = index_on(disk, (6, 0, 1, 2))
    wanted = bytes.fromhex("0000" + f"{6:016x}" + f"{0:016x}" + f"{1:016x}" + f"{2:016x}")
    assert index.content() == wanted
    index.write()
    assert disk.live_bytes(PATH) == wanted
    assert index.tally == (1, crc32c(wanted))


def test_without_entries_there_is_no_file(disk):
    index = index_on(disk)
    assert (index.write(), index.tally, len(index), index.last_marker) == ([], EMPTY, 0, -1)
    assert not disk.exists(PATH)


# (producer, first offset, marker, stable after): 4 spans the others
ENTRIES = [(5, 10, 12, 4), (6, 13, 15, 4), (4, 4, 20, 21), (5, 30, 31, 32)]


@pytest.mark.parametrize("written", [0, 2, 4])
@pytest.mark.parametrize(
    ("from_offset", "upper_offset", "found", "is_over"),
    [
        (0, 4, [], True),
        (0, 5, [(4, 4)], True),
        (0, 11, [(5, 10), (4, 4)], True),
        (12, 13, [(5, 10), (4, 4)], True),
        (13, 14, [(6, 13), (4, 4)], True),
        (16, 25, [(4, 4)], True),
        (21, 25, [], True),
        (21, 32, [(5, 30)], True),
        (0, 100, [(5, 10), (6, 13), (4, 4), (5, 30)], False),
        (32, 100, [], False),
    ],
)
def test_look_ups(disk, written, from_offset, upper_offset, found, is_over):
    index = index_on(disk, *ENTRIES[:written])
    index.write()
    for entry in ENTRIES[written:]:
        index.add(AbortedTransaction(*entry))
    assert collected(index, from_offset, upper_offset) == (found, is_over)


def test_look_ups_agree_with_a_plain_search(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 3)
    chance = random.Random(7)
    for _ in range(60):
        open_, entries, offset = {}, [], 0
        for _ in range(chance.randrange(40)):
            pid = chance.randrange(5)
            if pid in open_ and chance.random() < 0.5:
                first = open_.pop(pid)
                entries.append((pid, first, offset, min(open_.values(), default=offset + 1)))
            else:
                open_.setdefault(pid, offset)
            offset += 1
        stable = min(open_.values(), default=offset)
        index = index_on(disk, *entries)
        for _ in range(10):
            upper = chance.randrange(stable + 1)
            start = chance.randrange(upper + 1)
            found, _ = collected(index, start, upper)
            wanted = [e[:2] for e in entries if e[2] >= start and e[1] < upper]
            assert found == wanted


def test_a_write_that_fails_keeps_entries_in_memory(disk):
    index = index_on(disk, *ENTRIES)
    disk.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(OSError):
        index.write()
    assert len(collected(index, 0, 100)[0]) == 4
    (file,) = index.write()
    file.fdatasync()
    assert index.write() == []
    assert len(disk.live_bytes(PATH)) == 4 * ENTRY_BYTES


def test_a_tally_speaks_of_the_leading_entries(disk):
    tally = index_on(disk, *ENTRIES[:2]).tally
    data = index_on(disk, *ENTRIES).content()
    index = index_on(disk)
    assert index.take_file(data, tally)
    assert (len(index), index.last_marker, index.tally) == (2, 15, tally)
    assert not index.take_file(data[: ENTRY_BYTES * 2 - 1], tally)
    assert not index.take_file(b"\1" + data[1:], tally)
    assert index.take_file(data, EMPTY)
    assert len(index) == 0


def test_entries_behind_those_taken_are_cut_by_the_next_write(disk):
    data = index_on(disk, *ENTRIES).content()
    disk.replace(PATH, data + b"torn")
    index = index_on(disk)
    assert index.take_file(data + b"torn", index_on(disk, *ENTRIES[:2]).tally)
    index.write()
    assert disk.live_bytes(PATH) == data[: 2 * ENTRY_BYTES]
    index.add(AbortedTransaction(*ENTRIES[2]))
    index.write()
    assert disk.live_bytes(PATH) == data[: 3 * ENTRY_BYTES]


@pytest.mark.parametrize(
    ("name", "entry", "is_sound"),
    [
        ("good", (0, 6, 40, 41, 42), True),
        ("version", (1, 6, 40, 41, 42), False),
        ("producer", (0, -1, 40, 41, 42), False),
        ("first offset behind the marker", (0, 6, 41, 41, 42), False),
        ("marker before the last", (0, 6, 5, 31, 42), False),
        ("first offset below 0", (0, 6, -1, 41, 42), False),
    ],
)
def test_files_that_nothing_vouches_for_must_look_right(disk, name, entry, is_sound):
    data = index_on(disk, *ENTRIES).content() + struct.pack(">hqqqq", *entry)
    index = index_on(disk)
    assert index.take_unknown_file(data, 0, 1000) is is_sound, name
    if is_sound:
        assert len(index) == 5
        assert index.take_unknown_file(data, 0, 31)
        assert index.last_marker == 20
        assert not index.take_unknown_file(data, 13, 1000), "a marker below the segment"


def test_a_long_walk_is_left_to_a_thread(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 4)
    entries = [(5, 10 * n + 1, 10 * n + 2, 0) for n in range(9)]
    index = index_on(disk, *entries)
    wanted = [(5, 10 * n + 1) for n in range(9)]
    with without_waiting(NOTHING), pytest.raises(Cold) as caught:
        collected(index, 0, 1000)
    caught.value.pull()
    pulled = Pulled()
    caught.value.keep(pulled)
    with without_waiting(pulled):
        assert collected(index, 0, 1000) == (wanted, False)
    assert collected(index, 0, 1000) == (wanted, False)
    with without_waiting(NOTHING):
        assert collected(index, 60, 1000)[0] == wanted[6:], "a short one is not"


def test_no_more_is_read_than_twice_what_is_found(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "FEW_ENTRIES", 2)
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 16)
    entries = [(5, 10 * n + 1, 10 * n + 2, 10 * n + 3) for n in range(40)]
    index = index_on(disk, *entries)
    asked = []
    read = AbortIndex._read

    def counted(self, start, end):
        if end - start > 1:  # not a step of the binary search
            asked.append((start, end))
        return read(self, start, end)

    monkeypatch.setattr(AbortIndex, "_read", counted)
    assert collected(index, 100, 120) == ([(5, 101), (5, 111)], True)
    assert asked == [(10, 12), (12, 16)]  # the entry behind them says that it was the last
    asked.clear()
    assert collected(index, 0, 1000)[0] == [(5, 10 * n + 1) for n in range(40)]
    assert asked == [(0, 2), (2, 6), (6, 14), (14, 16), (16, 32), (32, 40)]


def test_a_reader_that_goes_on_is_served_by_one_read(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "FEW_ENTRIES", 2)
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 16)
    entries = [(5, 10 * n + 1, 10 * n + 2, 10 * n + 3) for n in range(40)]
    index = index_on(disk, *entries)
    assert len(collected(index, 0, 80)[0]) == 8
    asked = []
    read = AbortIndex._read
    monkeypatch.setattr(AbortIndex, "_read", lambda *args: (asked.append(args[1:]), read(*args))[1])
    assert len(collected(index, 80, 150)[0]) == 7
    assert asked == [(7, 17)], "nine, and the one before"
    assert collected(index, 150, 155)[0] == [(5, 151)]
    asked.clear()
    assert collected(index, 155, 165)[0] == [(5, 161)]
    assert asked == [(15, 18)], "few again"


def test_a_reader_that_begins_where_another_did_is_served_by_one_read(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "FEW_ENTRIES", 2)
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 16)
    entries = [(5, 10 * n + 1, 10 * n + 2, 10 * n - 20) for n in range(40)]
    index = index_on(disk, *entries)
    found = collected(index, 30, 80)
    asked = []
    read = AbortIndex._read
    monkeypatch.setattr(AbortIndex, "_read", lambda *args: (asked.append(args[1:]), read(*args))[1])
    assert collected(index, 30, 80) == found
    assert asked == [(2, 11)], "five, those that say it is over, and the one before"
    collected(index, 80, 130)
    asked.clear()
    assert collected(index, 30, 80) == found
    assert asked == [(2, 11)], "whatever others have read"


def test_what_a_thread_has_found_is_kept_whatever_its_size(disk, monkeypatch):
    """Otherwise the thread would walk again and again, and then the loop."""
    monkeypatch.setattr(abort_index, "BLOCK_ENTRIES", 4)
    monkeypatch.setattr("storage.segments.cold.KEPT_BYTES_MAX", 8 * 16)
    entries = [(n, n, 10 + n, 0) for n in range(9)]
    index = index_on(disk, *entries)
    with without_waiting(NOTHING), pytest.raises(Cold) as caught:
        collected(index, 9, 10)
    caught.value.pull()
    pulled = Pulled()
    caught.value.keep(pulled)
    with without_waiting(pulled):
        assert collected(index, 9, 10) == ([(n, n) for n in range(9)], False)


def test_cold_entries_are_pulled(disk):
    index = index_on(disk, *ENTRIES)
    index.write()
    disk.cold.add(PATH)
    pulled = Pulled()
    found = None
    while found is None and pulled.starts_left:
        try:
            with without_waiting(pulled):
                found = collected(index, 0, 11)
        except Cold as cold:
            pulled.starts_left -= 1
            cold.pull()
            cold.keep(pulled)
    assert found == ([(5, 10), (4, 4)], True)


def test_a_renamed_file_is_still_read(disk):
    index = index_on(disk, *ENTRIES)
    index.write()
    disk.rename(PATH, f"{PATH}.deleted")
    assert len(AbortIndex(OpenFiles(disk, 10), PATH).content()) == 0
    again = AbortIndex(OpenFiles(disk, 10), PATH)
    again.take_all(index.content())
    assert collected(again, 0, 11) == ([(5, 10), (4, 4)], True)


def test_a_list_that_was_built_anew_replaces_the_file(disk):
    disk.replace(PATH, b"rot" * 100)
    disk.sync_directory("/")
    index = index_on(disk)
    index.begin_anew()
    for entry in ENTRIES:
        index.add(AbortedTransaction(*entry))
    index.replace()
    disk.crash()
    assert disk.live_bytes(PATH) == index_on(disk, *ENTRIES).content()


def test_a_list_after_a_replacement_whose_sync_failed_is_in_the_new_file(disk):
    index = index_on(disk)
    index.begin_anew()
    disk.replace(PATH, b"")
    index._files.get(PATH)
    for entry in ENTRIES[:1]:
        index.add(AbortedTransaction(*entry))
    disk.fail("sync_directory")
    with pytest.raises(OSError, match="/"):
        index.replace()
    for entry in ENTRIES[1:]:
        index.add(AbortedTransaction(*entry))
    index.write()
    assert disk.live_bytes(PATH) == index_on(disk, *ENTRIES).content()


def brute(entries, from_offset, upper_offset):
    return [
        (pid, first)
        for pid, first, marker, _ in entries
        if marker >= from_offset and first < upper_offset
    ]


def test_a_reader_that_goes_on_finds_its_place_without_a_search(disk, monkeypatch):
    entries = [(7, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(500)]
    index = index_on(disk, *entries)
    index.write()
    reads = []
    read = AbortIndex._read

    def counted(self, start, end):
        reads.append(end - start)
        return read(self, start, end)

    monkeypatch.setattr(AbortIndex, "_read", counted)
    for from_offset in range(0, 5_000, 100):
        reads.clear()
        found, _ = collected(index, from_offset, from_offset + 100)
        assert found == brute(entries, from_offset, from_offset + 100)
        assert from_offset == 0 or len(reads) == 1  # the range, and the entry before to be sure


def test_a_place_that_is_remembered_wrongly_is_not_believed(disk):
    entries = [(7, 10 * n, 10 * n + 5, 10 * n + 6) for n in range(50)]
    index = index_on(disk, *entries)
    for slot in (0, 3, 5, 49, 50, 51, -1):
        index._hints[40] = slot, 5
        assert collected(index, 40, 100)[0] == brute(entries, 40, 100)
    index.begin_anew()
    index.add(AbortedTransaction(8, 90, 95, 96))
    assert collected(index, 40, 100)[0] == [(8, 90)]


def test_look_ups_in_a_row_find_what_a_search_finds(disk, monkeypatch):
    monkeypatch.setattr(abort_index, "FEW_ENTRIES", 2)
    monkeypatch.setattr(abort_index, "HINTS_MAX", 5)
    dice = random.Random(7)
    entries, stable = [], 0
    for n in range(300):
        marker = 10 * n + 9
        first = max(0, marker - dice.choice((3, 8, 40, 200)))
        stable = max(stable, min(marker + 1, first + dice.randrange(30)))
        entries.append((n, first, marker, min(stable, marker + 1)))
    index = index_on(disk, *entries)
    index.write()
    offset = 0
    for _ in range(600):
        upper = offset + dice.randrange(1, 150)
        found, _ = collected(index, offset, upper)
        # A list ends where no later transaction can have records below `upper`, as it says itself.
        over = next(
            (n for n, one in enumerate(entries) if one[2] >= offset and one[3] >= upper), 300
        )
        assert found == brute(entries[: over + 1], offset, upper)
        offset = upper if upper < 3_000 and dice.random() < 0.9 else dice.randrange(3_000)
