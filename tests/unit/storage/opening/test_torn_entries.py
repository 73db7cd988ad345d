"""Index entries that a power cut has torn are dropped, and made anew."""

import contextlib
import errno
import struct

import pytest

from protocol.record_batch import batches
from storage.errors import LogFailed
from storage.opening import torn_entries
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush, read_all

SIZE = len(batch())
BASE = f"{0:020}"
ENTRIES = {"index": struct.Struct(">ii"), "timeindex": struct.Struct(">qi")}
CONFIG = {"internal_segment_bytes": 40 * SIZE, "index_interval_bytes": SIZE}


def house_with(below, count):
    """Return a log with entries written for all of its batches; `below` are durable for sure."""
    house = House()
    house.open()
    log = house.log(**CONFIG)
    for number in range(count):
        append(log, timestamp=NOW + 1000 * number)
        if number == below - 1:
            flush(log)
            checkpoint(house, log)
    flush(log)
    log.segments.all[0].indexes.write()
    return house


def path(house, kind):
    return house.path(f"{BASE}.{kind}")


def tear(house, kind, data):
    """Let the index hold these bytes."""
    house.filesystem.open(path(house, kind)).truncate(0)
    house.filesystem.edit(path(house, kind), 0, data)


def entries_of(house, kind):
    """Return the entries, which must be those of batches, and rise."""
    log = house.filesystem.live_bytes(house.path(f"{BASE}.log"))
    right = [
        (header.last_offset, position) if kind == "index" else
        (header.max_timestamp, header.last_offset)
        for position, header in batches(log)
    ]  # fmt: skip
    found = list(ENTRIES[kind].iter_unpack(house.filesystem.live_bytes(path(house, kind))))
    assert found == sorted(set(found) & set(right))
    return found


def restarted(house):
    """Kill, recover and stop; return the recovered log."""
    house.kill()
    log = house.restart(**CONFIG)
    assert read_all(log) == dict.fromkeys(range(log.end_offset), b"v" * 30)
    assert house.stop()
    return log


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("below", [0, 1, 20])
@pytest.mark.parametrize("is_grown", [False, True])
def test_a_torn_entry_is_dropped(kind, is_closed, below, is_grown):
    """With `is_grown`, the file has the size of all entries, and zeros in their place."""
    for bytes_left in range(ENTRIES[kind].size):
        house = house_with(below, 40 + is_closed)
        whole = house.filesystem.live_bytes(path(house, kind))
        known = len(whole) * below // 40 // ENTRIES[kind].size * ENTRIES[kind].size
        data = whole[: known + bytes_left].ljust(known + ENTRIES[kind].size, b"\0")
        tear(house, kind, data.ljust(len(whole) * is_grown, b"\0"))
        assert restarted(house).end_offset == 40 + is_closed
        assert len(entries_of(house, kind)) > 15


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("first", [2, 8])
def test_entries_behind_a_page_that_is_missing_are_dropped(kind, first):
    """Some of them are of batches that recovery cuts."""
    house = house_with(4, 40)
    whole = house.filesystem.live_bytes(path(house, kind))
    size = ENTRIES[kind].size
    tear(house, kind, whole[: first * size] + bytes(5 * size) + whole[(first + 5) * size :])
    house.filesystem.edit(house.path(f"{BASE}.log"), 30 * SIZE + 50, b"torn")
    assert restarted(house).end_offset == 30
    assert len(entries_of(house, kind)) > 10


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("is_closed", [False, True])
def test_an_index_with_nothing_right_is_rebuilt(kind, is_closed, monkeypatch):
    monkeypatch.setattr(torn_entries, "DROPPED_MAX", 5)
    house = house_with(20, 40 + is_closed)
    tear(house, kind, b"\1" * len(house.filesystem.live_bytes(path(house, kind))))
    restarted(house)
    house.restart(**CONFIG)
    assert len(entries_of(house, kind)) > 15


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("kind", [*ENTRIES, "log"])
def test_nothing_is_dropped_that_cannot_be_read(kind, number):
    house = house_with(20, 40)
    segment = house.manager.logs["t", 0].segments.active
    segment.files.forget()
    before = [house.filesystem.live_bytes(path(house, kind)) for kind in ENTRIES]
    house.filesystem.fail("open", error=number, path_part=f".{kind}", forever=True)
    is_told = kind == "log" and number == errno.EMFILE
    with pytest.raises(LogFailed) if is_told else contextlib.nullcontext():
        torn_entries.drop_torn_entries(segment)
    house.filesystem.heal()
    assert [house.filesystem.live_bytes(path(house, kind)) for kind in ENTRIES] == before


def test_an_entry_with_the_right_batch_and_a_torn_offset_is_mended():
    house = House()
    house.open()
    config = CONFIG | {"index_interval_bytes": 10**6}
    log = house.log(**config)
    log.append(batch(count=3), NOW)
    flush(log)
    checkpoint(house, log)
    house.filesystem.edit(path(house, "timeindex"), 0, ENTRIES["timeindex"].pack(NOW + 2, 0))
    house.kill()
    house.restart(**config)
    house.stop()
    entry = ENTRIES["timeindex"].pack(NOW + 2, 2)
    assert house.filesystem.live_bytes(path(house, "timeindex")) == entry


@pytest.mark.parametrize("rotten", [(NOW + 8, 2), (NOW + 9, 1_000_000)])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_rotten_entry_does_not_hide_the_largest_timestamp(rotten, is_closed):
    """It was synced; the batches behind the last entry of the offset index have smaller ones."""
    house = House()
    house.open()
    config = CONFIG | {"internal_segment_bytes": 6 * SIZE, "index_interval_bytes": 1}
    log = house.log(**config)
    for timestamp in (NOW, NOW + 1, NOW + 9, NOW, NOW, NOW):
        append(log, timestamp=timestamp)
    flush(log)
    checkpoint(house, log)
    append(log, is_closed)
    flush(log)
    before = house.filesystem.live_bytes(path(house, "timeindex"))
    entry = ENTRIES["timeindex"].pack(*rotten)
    house.filesystem.edit(path(house, "timeindex"), len(before) - 12, entry)
    house.kill()
    log = house.restart(**config)
    assert log.segments.all[0].max_timestamp == NOW + 9
    house.stop()
    assert house.filesystem.live_bytes(path(house, "timeindex")) == before
