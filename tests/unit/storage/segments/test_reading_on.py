"""Reading on: what a read gives, in one read of the file; anything unusual is left to a read."""

import pytest

from protocol.records import batches
from tests.support.log_house import House, append, batch, flush

SIZE = len(batch())


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def read_and_load(log, offset, size_max, limit):
    """Return the bytes of a read, b"" for none."""
    piece = log.read(offset, size_max, end_offset=limit)
    return b"" if piece is None else bytes(piece.load())


@pytest.mark.parametrize("segment_bytes", [5 * SIZE, 10**6])
@pytest.mark.parametrize("size_max", [1, SIZE, 2 * SIZE - 1, 3 * SIZE + 60, 10 * SIZE, 10**6])
@pytest.mark.parametrize("limit", [7, 10, 12])
def test_who_reads_on_gets_what_a_read_gives(house, segment_bytes, size_max, limit):
    log = house.log(internal_segment_bytes=segment_bytes)
    append(log, 10)
    flush(log)  # the high watermark; what comes behind is in the file, too
    append(log, 2)
    offset, read_on_count = 0, 0
    while offset < limit:
        wanted = read_and_load(log, offset, size_max, limit)
        if (found := log.read_on(offset, size_max, limit)) is not None:
            read_on_count += 1
            assert bytes(found) == wanted
        offset += len(wanted) // SIZE
    is_end_known = limit > 7 or segment_bytes == 5 * SIZE
    if size_max >= SIZE and is_end_known:
        assert read_on_count, "the batches that were appended last are remembered"
    assert log.read_on(offset, size_max, limit) is None, "nothing more"
    for nothing in (0, -1):
        assert log.read_on(offset - 1, nothing, limit) is None, "no room"


def test_who_reads_on_needs_no_look_up_at_all(house, monkeypatch):
    log = house.log(internal_segment_bytes=10**6)
    append(log, 40)
    flush(log)
    assert log.read_on(0, 3 * SIZE, 40) is None, "nobody has read before"
    first = log.read(0, 3 * SIZE)
    assert len(first) == 3 * SIZE
    monkeypatch.setattr(type(log), "read", None)
    offsets = []
    for offset in range(3, 39, 3):
        found = log.read_on(offset, 3 * SIZE + 50, 40)
        offsets += [header.base_offset for _, header in batches(found)]
    assert offsets == list(range(3, 39))
    assert len(log.read_on(39, 10**5, 40)) == SIZE


def test_long_runs_of_small_batches(house):
    log = house.log(internal_segment_bytes=10**7)
    append(log, 200)
    flush(log)
    assert len(log.read(0, SIZE)) == SIZE
    assert log.read_on(1, 100 * SIZE, 200) is None, "a look ends before the room does"
    found = log.read_on(1, 10**5, 200)
    assert len(found) == 199 * SIZE, "all of it, whose end is known"
    assert log.read_on(200, 10**5, 200) is None


def flip(log, at, bit):
    """Flip a bit in the file of the only segment."""
    file = log.segments.active.log_file.file()
    (byte,) = file.pread(1, at)
    file.pwrite(bytes([byte ^ bit]), at)


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("at", [*range(17), *range(23, 27)])
def test_a_rotten_header_is_never_read_on(house, index, at):
    """Outside the CRC, and the last offset's delta: what is served ends before, or is looked up."""
    log = house.log(internal_segment_bytes=10**6)
    append(log, 10)
    flush(log)
    assert len(log.read(0, 4 * SIZE)) == 4 * SIZE
    for bit in (0x01, 0x20, 0x80):
        flip(log, (4 + index) * SIZE + at, bit)
        found = log.read_on(4, 3 * SIZE + 50, 10)
        assert found is None or [h.base_offset for _, h in batches(found)] == [4, 5][:index]
        flip(log, (4 + index) * SIZE + at, bit)
    assert len(log.read_on(4, 3 * SIZE + 50, 10)) == 3 * SIZE


def test_a_file_found_at_the_start_is_checked_before_it_is_read_on(house):
    log = house.log(internal_segment_bytes=10**6)
    append(log, 10)
    flush(log)
    house.stop()
    log = house.restart(internal_segment_bytes=10**6)
    log.segments.active.remember_end(2, 2 * SIZE)
    assert log.read_on(2, SIZE, 10) is None
    assert len(log.read(2, 2 * SIZE)) == 2 * SIZE
    log.segments.active.remember_end(2, 2 * SIZE)
    assert len(log.read_on(2, SIZE, 10)) == SIZE


def test_holes_are_looked_up(house):
    """Compaction's or damage: a read tells them apart."""
    log = house.log(internal_segment_bytes=10**6)
    append(log, 40)
    flush(log)
    log.segments.active.remember_end(1, 2 * SIZE)  # as if batch 1 were gone
    assert log.read_on(1, SIZE, 40) is None


def test_what_is_not_in_memory_or_cannot_be_read_is_left_to_a_read(house, monkeypatch):
    log = house.log(internal_segment_bytes=10**6)
    append(log, 6)
    flush(log)
    file = type(log.segments.active.log_file.file())
    sound = file.pread_nowait

    def fails(*_):
        raise OSError(5, "Input/output error")

    for broken in (lambda *_: None, fails, lambda one, size, at: sound(one, size, at)[:-1]):
        monkeypatch.setattr(file, "pread_nowait", broken)
        assert log.read_on(5, 10**5, 6) is None
    monkeypatch.setattr(file, "pread_nowait", sound)
    assert len(log.read_on(5, 10**5, 6)) == SIZE
