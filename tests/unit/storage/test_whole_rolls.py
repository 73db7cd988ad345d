"""A roll happens completely or not at all, whichever of its file calls fails.

A log is opened, must roll with its first append, and continues; one file call fails, once or from
then on. Acknowledged records (durable, in a log that has not failed) are there after any stop.
"""

import errno
import logging

import pytest

from storage.errors import LogFailed
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush, read_all
from tests.support.thorough import some_of

SMALL, LARGE = b"s" * 10, b"L" * 60
CONFIG = {
    "internal_segment_bytes": len(batch(LARGE)) + 2 * len(batch(SMALL)),
    "index_interval_bytes": 1,
}
CALLS = ("open", "size", "pread", "pwrite", "truncate", "fdatasync", "sync_directory", "unlink")


def begun() -> House:
    """A directory whose log still has room for a small batch, and rolls for a large one."""
    house = House()
    house.open()
    log = house.log(**CONFIG)
    append(log, value=LARGE)
    append(log, value=SMALL)
    assert house.stop()
    house.open()
    return house


def live(house: House) -> dict[int, bytes]:
    """Append with retries, as producers do; return the acknowledged records."""
    log = house.manager.logs["t", 0]
    acknowledged = {0: LARGE, 1: SMALL}
    for turn in range(8):
        value = SMALL if turn % 4 == 1 else LARGE
        try:
            (offset,) = append(log, value=value)
        except LogFailed:
            continue
        flush(log)
        if log.failed is None:
            assert log.durable_offset == offset + 1
            acknowledged[offset] = value
        if turn % 4 == 3:
            try:
                checkpoint(house, log)
            except OSError:
                continue
    return acknowledged


ENDINGS = ["clean", "lost", "torn", "kept"]


def calls_made() -> dict[str, int]:
    house = begun()
    house.log(epoch=1, **CONFIG)
    house.filesystem.counts.clear()
    assert len(live(house)) == 10
    return dict(house.filesystem.counts)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("op", CALLS)
def test_acknowledged_records_survive_any_failed_call(
    op: str, forever: bool, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    first = ENDINGS.index(ending) + forever
    for nth in some_of(range(1, calls_made().get(op, 0) + 2), first):
        for error in (errno.EIO, errno.ENOSPC):
            house = begun()
            house.log(epoch=1, **CONFIG)
            house.filesystem.fail(op, nth, error, forever=forever)
            if op != "unlink":  # a file that could not be created cannot be removed either
                house.filesystem.fail("unlink", forever=forever)
            acknowledged = live(house)
            house.filesystem.heal()
            if ending == "clean":
                house.stop()
                house.filesystem.kill()
            else:
                house.crash(ending)
            found = read_all(house.restart(**CONFIG), size_max=1)  # batch by batch
            assert found | acknowledged == found, (nth, error)


def test_an_unreadable_log_is_rolled_completely() -> None:
    """Only the time index needs the largest timestamp, and it can do without."""
    house = begun()
    log = house.log(epoch=1, **CONFIG)
    house.filesystem.fail("pread", forever=True, path_part=".log")
    log.roll(NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert house.names(".log") == [f"{0:020}.log", f"{2:020}.log"]
    house.filesystem.heal()
    assert append(log) == [2]
    assert house.stop()
    assert list(read_all(house.restart(**CONFIG))) == [0, 1, 2]


@pytest.mark.parametrize("is_mended", [True, False])
def test_a_flush_keeps_the_files_of_rolled_segments_open(is_mended: bool) -> None:
    """Also if a checkpoint has replaced one of them by a segment with new indexes."""
    house = House()
    house.open()
    log = house.log(**CONFIG)
    append(log, 3)
    flush(log)
    append(log, 8)
    rolled = [segment for segment in log.segments if segment is not log.segments.active]
    for _ in rolled if is_mended else ():
        rolled[-1].indexes.damage = "for the test"
        checkpoint(house, log)
    assert is_mended == any(segment not in log.segments.all for segment in rolled)
    flush(log)
    assert log.durable_offset == log.end_offset == 11
    house.crash()
    assert list(read_all(house.restart(**CONFIG))) == list(range(11))


def test_a_flush_syncs_a_file_that_was_evicted_before_the_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread opened files between the look-up of a clean file and its write."""
    house = House(open_files_max=3)
    house.open()
    log = house.log()
    files = house.manager.home.files
    path = log.segments.active.log_file.path
    append(log)
    flush(log)
    look_up = files.get

    def get(wanted: str, create: bool = False) -> object:
        found = look_up(wanted, create)
        if wanted == path:
            for number in range(4):
                look_up(f"/data/other{number}", create=True)
        return found

    monkeypatch.setattr(files, "get", get)
    append(log)
    assert files.peek(path) is None, "the file was evicted"
    flush(log)
    house.crash()
    monkeypatch.undo()
    assert list(read_all(house.restart())) == [0, 1]
