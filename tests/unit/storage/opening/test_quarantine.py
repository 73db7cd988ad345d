"""What recovery cuts, and where it copies the bytes."""

import errno

import pytest

from storage.errors import LogFailed
from tests.support.log_house import append, batch, flush, read_all
from tests.support.stopped_logs import LOG, SIZE, house_with, quarantined, report_of

TAIL = [
    ("zeros", b"\0" * 500, 0),
    ("a torn header", bytes(batch())[:40], 40),
    ("a torn batch", bytes(batch())[:-1], SIZE - 1),
    ("garbage", b"\xff" * 300, 300),
    ("a torn batch and zeros", bytes(batch())[:50] + b"\0" * 4096, 4096 - 10 * SIZE),
    ("a length beyond the end", b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\1" * 60, 72),
    ("a negative length", b"\0" * 8 + b"\xff\xff\xff\xf0" + b"\1" * 60, 72),
    ("a good batch with an old offset", bytes(batch()), SIZE),
]


@pytest.mark.parametrize(("name", "tail", "kept"), TAIL, ids=[case[0] for case in TAIL])
def test_a_bad_tail_is_cut_and_kept(name, tail, kept):
    house = house_with(10, below=3)
    house.filesystem.edit(house.path(LOG), 10 * SIZE, tail)
    house.kill()
    log = house.restart()
    assert (log.end_offset, log.failed) == (10, None)
    assert len(house.filesystem.durable_bytes(house.path(LOG))) == 10 * SIZE
    files = quarantined(house)
    saved = tail[:kept]
    assert list(files.values()) == ([saved] if saved else [])
    report = report_of(house)
    assert report.bytes_quarantined == len(saved)
    assert report.zero_bytes_cut == len(tail) - len(saved)
    assert report.damage
    assert "truncating to offset 10" in "\n".join(report.lines())
    assert append(log) == [10]


def test_segments_after_a_cut_are_renamed_whole():
    config = {"internal_segment_bytes": 5 * SIZE}
    house = house_with(20, below=2, **config)
    third = house.filesystem.live_bytes(house.path("00000000000000000010.log"))
    house.filesystem.edit(house.path("00000000000000000005.log"), 2 * SIZE + 30, b"\xff\xff")
    house.kill()
    log = house.restart(**config)
    assert log.end_offset == 7
    names = house.names("quarantine")
    assert [name.split(".")[0] for name in names] == ["0" * 19 + "5", "0" * 18 + "10",
                                                      "0" * 18 + "15"]  # fmt: skip
    assert quarantined(house)[names[1]] == third
    assert append(log, 3) == [7, 8, 9]
    flush(log)
    house.crash()
    assert list(read_all(house.restart(**config))) == list(range(10))


def test_without_room_for_the_quarantine_the_log_is_read_only():
    house = house_with(10, below=3)
    house.filesystem.edit(house.path(LOG), 10 * SIZE, b"\xff" * 300)
    house.kill()
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part="quarantine", forever=True)
    log = house.restart()
    assert "Free disk space" in log.failed.reason
    assert (log.end_offset, log.high_watermark) == (10, 10)
    assert len(read_all(log)) == 10
    with pytest.raises(LogFailed):
        append(log)
    assert len(house.filesystem.live_bytes(house.path(LOG))) == 10 * SIZE + 300
    assert not house.names("quarantine")
    house.filesystem.heal()
    house.kill()
    assert append(house.restart()) == [10]
    assert len(house.names("quarantine")) == 1
