"""What is wrong with an answer to a fetch, and what of it a flipped bit explains."""

from __future__ import annotations

import pytest

from storage.files.filenames import OFFSET_MAX
from tests.simulation.bit_flip import Flip, batches_below
from tests.simulation.clients.served import LOOKED_AT_MAX, Served, looks_of, served
from tests.support.batches import batch

ROWS = ((0, 3), (3, 2), (5, 5), (10, 1))  # base offset and records
END = 11


def log_of(*rows: tuple[int, int]) -> bytearray:
    return bytearray().join(batch(*row) for row in rows or ROWS)


def flipped(at: int, bit: int = 2, *, index: int = 1) -> tuple[bytearray, Flip]:
    """Return the log with a flipped bit in one of its batches."""
    content = log_of()
    place = list(batches_below(content, OFFSET_MAX))[index]
    content[place.begin + at] ^= 1 << bit
    head = bytes(content[place.begin : place.begin + max(61, at + 1)])
    flip = Flip("t-0", bytes(16), "/data/t-0/0.log", place.begin + at, bit, place, head)
    return content, flip


def told(
    data: bytes | bytearray,
    flips: tuple[Flip, ...] = (),
    position: int = 0,
    *,
    end_offset: int = END,
    is_compacted: bool = False,
) -> Served:
    return served(data, position, end_offset, is_compacted=is_compacted, flips=flips)


def test_a_sound_answer() -> None:
    found = told(log_of(), position=2)
    assert (found.wrong, found.corrupt, found.flip, found.next_offset) == ("", "", None, END)
    assert [one.base_offset for one in found.batches] == [0, 3, 5, 10]


def test_wrong_answers() -> None:
    assert told(log_of(), end_offset=10).wrong == "served to 11, mark 10"
    assert told(log_of(), position=20).wrong
    assert told(log_of((3, 2))).wrong == "3 to 4 served for 0"
    assert told(log_of((0, 3), (5, 1))).wrong == "5 served where 3 was due"
    assert told(log_of((0, 3), (5, 1)), is_compacted=True).wrong == ""
    assert told(log_of((0, 3), (2, 1)), is_compacted=True).wrong == "2 served where 3 was due"


@pytest.mark.parametrize("at", [8, 11, 17, 23, 61, 75])
def test_a_flip_that_clients_see_ends_the_walk(at: int) -> None:
    content, flip = flipped(at)
    found = told(content, (flip,))
    assert (found.wrong, found.corrupt, found.flip) == ("", "", flip)
    assert [one.base_offset for one in found.batches] == [0]
    assert told(content).corrupt, "nothing explains it"
    other = flipped(at, bit=3)[1]
    assert told(content, (other,)).corrupt
    elsewhere = flipped(at, index=2)[1]
    assert told(content, (elsewhere,)).corrupt


def test_what_was_served_before_the_bit_flipped_is_judged_as_ever() -> None:
    _, flip = flipped(70)
    found = told(log_of(), (flip,))
    assert (found.wrong, found.flip, found.next_offset) == ("", None, END)
    damaged = log_of()
    damaged[-1] ^= 1
    assert told(damaged, (flip,)).corrupt


@pytest.mark.parametrize(("at", "bit"), [(6, 2), (7, 7), (16, 0), (16, 1), (16, 7)])
@pytest.mark.parametrize("index", [0, 1, 3])
def test_the_headers_of_a_log_without_holes_show_it(at: int, bit: int, index: int) -> None:
    content, flip = flipped(at, bit, index=index)
    found = told(content, (flip,))
    assert found.flip is flip
    assert found.wrong
    assert len(found.batches) == index


def test_a_broker_looks_at_so_many_headers() -> None:
    before = log_of(*((-LOOKED_AT_MAX + number, 1) for number in range(LOOKED_AT_MAX)))
    content, flip = flipped(6, index=0)
    found = told(before[: len(before) // LOOKED_AT_MAX] + content, (flip,), position=-64)
    assert found.wrong
    found = told(before + content, (flip,), position=-64)
    assert len(found.batches) == LOOKED_AT_MAX
    assert (found.wrong, found.flip) == ("", flip)
    assert told(before + content, position=-64).wrong


def test_which_headers_a_broker_looks_at() -> None:
    small = {
        "storage.segments.log_file/MAP_BYTES_MIN": 150,
        "storage.segments.order/BATCHES_MAX": 2,
    }
    assert looks_of({}, 131_071, is_copied=False) == LOOKED_AT_MAX
    assert looks_of({}, 131_072, is_copied=False) == 0
    assert looks_of({}, 131_072, is_copied=True) == LOOKED_AT_MAX
    assert looks_of(small, 149, is_copied=False) == looks_of(small, 150, is_copied=True) == 2
    assert looks_of(small, 150, is_copied=False) == 0
    content, flip = flipped(6)
    assert served(content, 0, END, is_compacted=False, flips=[flip], looks=1).wrong == ""


def test_in_a_log_with_holes_only_an_overlap_shows() -> None:
    holed = log_of((0, 3), (40, 1), (200, 1))
    place = list(batches_below(holed, OFFSET_MAX))[1]

    def moved(to: int) -> Served:
        content = bytearray(holed)
        content[place.begin + 7] = to
        head = bytes(content[place.begin : place.begin + 61])
        flip = Flip("t-0", bytes(16), "", place.begin + 7, 0, place, head)
        found = told(content, (flip,), end_offset=201, is_compacted=True)
        assert found.flip is flip
        return found

    assert moved(41).wrong == moved(199).wrong == moved(3).wrong == ""
    assert moved(200).wrong
    assert moved(2).wrong


def test_an_epoch_that_has_rotted_is_no_batch_of_the_log() -> None:
    """Whether the broker can tell depends on the epochs that it knows."""
    content, flip = flipped(15)
    found = told(content, (flip,))
    assert (found.wrong, found.flip, len(found.batches)) == ("", flip, 1)
