"""Soundness: rot in what no CRC covers is never served, and nothing good is withheld for it."""

import pytest

from protocol.record_batch import batches
from storage import soundness
from storage.errors import DamagedLog, LogFailed
from tests.support.log_house import House, append, batch, flush, read_all

SIZE = len(batch())
LOG = "00000000000000000000.log"


def reopened(count=30, flips=(), **config):
    """A cleanly stopped log of `count` batches in one file, with bits flipped, open again."""
    config = {"internal_segment_bytes": 10**6, "index_interval_bytes": 4 * SIZE} | config
    house = House()
    house.open()
    append(house.log(**config), count)
    assert house.stop()
    for at, bit in flips:
        data = house.filesystem.live_bytes(house.path(LOG))
        house.filesystem.edit(house.path(LOG), at, bytes([data[at] ^ bit]))
    return house, house.restart(**config)


def served(log, start, size_max=10**6):
    """Offsets as a client sees them: from the headers in what a read returns."""
    piece = log.read(start, size_max)
    return [] if piece is None else [header.base_offset for _, header in batches(piece.load())]


@pytest.mark.parametrize("bit", [0x01, 0x02, 0x10, 0x80])
@pytest.mark.parametrize("byte", [0, 3, 6, 7, 8, 9, 10, 11, 16])
@pytest.mark.parametrize("index", [1, 13, 28])
def test_a_flip_outside_the_crc_is_never_served(index, byte, bit):
    _, log = reopened(flips=[(index * SIZE + byte, bit)])
    for start in range(30):
        try:
            offsets = served(log, start)
        except (DamagedLog, LogFailed):
            assert start <= index + 8, "only near the damage"
            continue
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert offsets[0] <= start
        assert index not in offsets
    assert served(log, 0) == list(range(index))


def test_what_was_appended_here_is_not_walked():
    house, log = reopened(10)
    append(log, 20)
    flush(log)
    read_all(log)
    house.filesystem.calls.clear()
    assert len(served(log, 10)) == 20
    reads = [path for operation, path in house.filesystem.calls if operation == "pread"]
    assert len(reads) <= 2, "the header, and the bytes"


def test_each_part_is_walked_once(monkeypatch):
    _, log = reopened(30)
    walks = []
    walk = soundness._walk
    monkeypatch.setattr(
        soundness, "_walk", lambda *args, **kwargs: walks.append(args[1:3]) or walk(*args, **kwargs)
    )
    for _ in range(3):
        for start in (0, 5, 10, 15, 20, 25):
            log.read(start, 5 * SIZE)
    assert walks == [(n * SIZE, (n + 5) * SIZE) for n in range(0, 30, 5)]


def test_a_walk_is_bounded(monkeypatch):
    monkeypatch.setattr(soundness, "WALK_BYTES_MAX", 3 * SIZE)
    _, log = reopened(30)
    assert served(log, 0) == [0, 1, 2]
    assert list(read_all(log, 0, 10**6)) == list(range(30))
    assert len(served(log, 0)) == 30, "by now all of it is known"


def test_gaps_of_compaction_are_served():
    """Batches 4 to 7 are gone: what follows continues by itself."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    append(log, 4)
    log.end_offset = 8
    append(log, 6)
    house.stop()
    log = house.restart(internal_segment_bytes=10**6)
    assert served(log, 0) == [0, 1, 2, 3, 8, 9, 10, 11, 12, 13]
    assert served(log, 5)[0] == 8
    house.stop()
    log = house.restart(internal_segment_bytes=10**6)
    assert served(log, 5)[0] == 8
