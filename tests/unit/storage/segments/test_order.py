"""A look at the headers that are about to be sent: what it doubts, and what it never doubts."""

from __future__ import annotations

import struct

import pytest

from storage.leader_epochs import LeaderEpochs
from storage.segments.order import BATCHES_MAX, is_in_order
from tests.support.batches import batch
from tests.support.old_messages import message

DENSE = 0  # no holes
HOLES = 2**62


def run(*places: tuple[int, int, int]) -> bytearray:
    """Return batches from (base offset, count, leader epoch)."""
    data = bytearray()
    for base_offset, count, epoch in places:
        one = bytearray(batch(base_offset, count))
        struct.pack_into(">i", one, 12, epoch)
        data += one
    return data


def holds(
    data: bytes | bytearray,
    start_offset: int = 10,
    end_offset: int = 100,
    holes_below: int = DENSE,
    epochs: tuple[tuple[int, int], ...] = ((0, 0),),
) -> bool:
    return is_in_order(data, start_offset, end_offset, holes_below, LeaderEpochs(epochs))


SOUND = ((10, 3, 0), (13, 1, 0), (14, 5, 0))


def test_batches_that_follow_each_other() -> None:
    data = run(*SOUND)
    assert holds(data)
    assert holds(data, start_offset=12), "the first may begin before the offset that was asked for"
    assert holds(data, end_offset=19)
    assert not holds(data, end_offset=18), "beyond the high watermark"
    assert not holds(data, start_offset=9), "a hole"
    assert not holds(data, start_offset=13), "all below the offset that was asked for"


@pytest.mark.parametrize("bit", [0x01, 0x04, 0x80])
@pytest.mark.parametrize("byte", [*range(12), 16])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_flip_outside_the_crc_is_doubted(index: int, byte: int, bit: int) -> None:
    data = run(*SOUND)
    data[len(run(*SOUND[:index])) + byte] ^= bit
    assert not holds(data)


def test_below_the_end_of_compaction_offsets_only_rise() -> None:
    holed = run((12, 1, 0), (15, 2, 0), (40, 1, 0))
    assert holds(holed, holes_below=HOLES)
    assert not holds(holed, holes_below=15), "16 is not where a hole may begin"
    assert not holds(holed, end_offset=40, holes_below=HOLES)
    assert not holds(run((12, 1, 0), (15, 2, 0), (16, 1, 0)), holes_below=HOLES), "an overlap"
    assert not holds(run((12, 1, 0), (11, 1, 0)), holes_below=HOLES)


EPOCHS = ((2, 0), (5, 13), (7, 14))


@pytest.mark.parametrize("wrong", [0, 1, 3, 4, 6, 8, 5 ^ 1 << 30])
def test_an_epoch_that_the_log_does_not_have_there_is_doubted(wrong: int) -> None:
    assert holds(run((10, 3, 2), (13, 1, 5), (14, 5, 7)), epochs=EPOCHS)
    assert not holds(run((10, 3, 2), (13, 1, 5), (14, 5, wrong)), epochs=EPOCHS)
    assert not holds(run((10, 3, wrong)), epochs=EPOCHS[:1])


def test_unknown_epochs_are_not_doubted() -> None:
    assert holds(run((10, 3, 4), (13, 1, 9)), epochs=())
    assert holds(run((10, 3, -1), (13, 1, -1)))
    assert holds(run((10, 3, 1), (13, 1, 1)), epochs=((1, 50),)), "the epoch file begins later"


def test_lengths_that_do_not_add_up() -> None:
    data = run(*SOUND)
    assert not holds(data[:-1])
    assert not holds(data + b"x")
    assert not holds(data + bytes(61))


def test_messages_of_old_formats() -> None:
    old = message(10, b"a")
    assert holds(old + message(11, b"b", magic=0)), "nothing behind them is looked at"
    assert holds(run((10, 1, 0)) + message(11, None, magic=0))
    assert not holds(old[:-1] + bytes([old[-1] ^ 1])), "one with a wrong checksum"
    rotten = run(*SOUND)
    rotten[16] = 1
    assert not holds(rotten), "a batch is none"


def test_a_look_is_short() -> None:
    places = [(10 + number, 1, 0) for number in range(BATCHES_MAX + 1)]
    assert holds(run(*places[:-1], (5, 1, 0)))
    assert not holds(run(*places[:-2], (5, 1, 0)))
