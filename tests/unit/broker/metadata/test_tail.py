"""Torn or damaged: every cut and every flipped bit of the last write of a metadata log."""

import pytest

from broker.metadata.tail import SECTOR_BYTES, damage_of_tail
from protocol.records import Record, build

OFFSET = 41


def batch_of(value, base_offset=OFFSET):
    return bytes(build([Record(0, 1_700_000_000_000, None, value)], base_offset=base_offset))


SMALL = batch_of(b"\x01\x14\x00")
LARGE = batch_of(bytes(range(1, 256)) * 8)  # four sectors and a bit, no zero bytes in the value


@pytest.mark.parametrize("batch", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("position", [0, 100, 511, 512, 4096])
def test_every_beginning_of_a_batch_is_a_torn_write(batch, position):
    for size in range(1, len(batch)):
        assert damage_of_tail(batch[:size], position, OFFSET) == "", size


@pytest.mark.parametrize("position", [0, 100, 511, 512, 4096])
def test_every_sector_that_was_not_written_is_a_torn_write(position):
    first = -position % SECTOR_BYTES
    for sector in [0, *range(first, len(LARGE), SECTOR_BYTES)]:
        torn = LARGE[:sector] + bytes(len(LARGE) - sector)
        assert damage_of_tail(torn, position, OFFSET) == "", sector


@pytest.mark.parametrize("position", [0, 100, 480, 499, 500, 512, 8068])
@pytest.mark.parametrize("behind", [b"", batch_of(b"next", OFFSET + 1)], ids=["last", "not last"])
def test_every_single_sector_that_was_not_written_is_a_torn_write(position, behind):
    """A power cut left a file whose last page was written and whose previous page was not."""
    first = -position % SECTOR_BYTES
    for start in [0, *range(first, len(LARGE), SECTOR_BYTES)]:
        stop = min((position + start) // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - position,
                   len(LARGE))  # fmt: skip
        torn = LARGE[:start] + bytes(stop - start) + LARGE[stop:]
        assert torn != LARGE
        assert damage_of_tail(torn + behind, position, OFFSET) == "", start


def test_a_lost_sector_with_only_zeroes_of_the_offset_explains_no_damage():
    for position in (505, 508, 511):  # one to seven bytes before the sector's end
        wrong = (OFFSET + 1).to_bytes(8, "big") + LARGE[8:]
        assert "expected 41" in damage_of_tail(wrong, position, OFFSET)


def test_zeroes_at_the_end_of_the_file_are_a_torn_write():
    assert damage_of_tail(bytes(4096), 700, OFFSET) == ""


@pytest.mark.parametrize("batch", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("position", [0, 100, 511])
def test_no_flipped_bit_of_the_last_batch_is_a_torn_write(batch, position):
    step = 8 if batch is LARGE else 1
    for bit in range(0, len(batch) * 8, step):
        # An epoch is outside the CRC: the reader checks it against the batch before.
        if 12 <= bit // 8 < 16:
            continue
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        assert damage_of_tail(bytes(flipped), position, OFFSET), bit


def test_a_whole_batch_after_the_bad_one_means_damage():
    behind = batch_of(b"next", OFFSET + 1)
    for bad in (b"\0" * 10, SMALL[:40], b"\xff" * 700, SMALL[:-1] + b"\x99"):
        reason = damage_of_tail(bad + behind, 1000, OFFSET)
        assert reason == f"a whole batch follows at position {1000 + len(bad)}"


def test_zeroes_within_one_sector_are_damage():
    holed = SMALL[:65] + bytes(len(SMALL) - 65)
    assert damage_of_tail(holed, 0, OFFSET)


def test_garbage_is_damage():
    assert "expected 41 and 2" in damage_of_tail(b"\x5a" * 300, 0, OFFSET)
