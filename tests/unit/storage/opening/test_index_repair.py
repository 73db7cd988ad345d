"""Indexes that the disk fails during recovery: the log is opened, and they are built anew."""

import errno

import pytest

from client.files.findings import CACHE
from client.files.verify import Verification
from tests.support.log_house import append, checkpoint, flush, read_all
from tests.support.stopped_logs import SEGMENTS, house_with

SUFFIXES = [".index", ".timeindex"]


def killed_house():
    """Return the house of a log of three segments, in the second of which recovery begins."""
    house = house_with(12, below=7, **SEGMENTS)
    house.kill()
    house.open()
    return house


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("operation", ["pread", "pwrite", "truncate"])
@pytest.mark.parametrize("base", ["", f"{5:020}", f"{10:020}"], ids=["all", "closed", "active"])
def test_an_index_that_the_disk_fails_is_built_anew(suffix, operation, base):
    house = killed_house()
    house.filesystem.fail(operation, path_part=f"{base}{suffix}", forever=True)
    try:
        log = house.log(epoch=1, **SEGMENTS)
    except OSError:  # not even by cutting it to nothing can the index be made to agree
        assert operation == "truncate"
        house.filesystem.heal()
        log = house.log(epoch=1, **SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    house.filesystem.heal()
    for _ in range(4):
        checkpoint(house, log)
    assert not [one for one in log.segments if one.indexes.damage]
    append(log, 6)
    assert house.stop()
    found = Verification(house.filesystem).run(["/data"]).findings
    assert [one for one in found if one.weight == CACHE] == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_a_descriptor_the_log_is_not_opened_and_no_index_suffers(suffix, number):
    house = killed_house()
    names = house.names(suffix)
    before = [house.filesystem.live_bytes(house.path(name)) for name in names]
    house.filesystem.fail("open", error=number, path_part=suffix, forever=True)
    with pytest.raises(OSError, match="open files"):
        house.log(epoch=1, **SEGMENTS)
    assert [house.filesystem.live_bytes(house.path(name)) for name in names] == before
    house.filesystem.heal()
    log = house.log(epoch=1, **SEGMENTS)
    assert not [one for one in log.segments if one.indexes.damage]
    assert list(read_all(log)) == list(range(12))


def test_on_a_full_disk_the_newest_entries_are_missing():
    house = killed_house()
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part="index", forever=True)
    log = house.log(epoch=1, **SEGMENTS)
    assert not [one for one in log.segments if one.indexes.damage]
    house.filesystem.heal()
    append(log)
    flush(log)
    house.crash()
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(13))
