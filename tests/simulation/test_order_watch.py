"""The order of file calls: what must be on the disk before a file says so."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from storage.files.text_files import (
    encode_clean_shutdown,
    encode_offsets,
    encode_partition_metadata,
)
from tests.simulation import disk_logs
from tests.simulation.disk import SimDisk
from tests.simulation.disk_rig import disk_of, make
from tests.support.batches import batch

FIRST, SECOND = "/data/t-0/00000000000000000000.log", "/data/t-0/00000000000000000002.log"
CLEAN, POINTS = "/data/.kafka_cleanshutdown", "/data/recovery-point-offset-checkpoint"
STARTS = "/data/log-start-offset-checkpoint"
METADATA = "/data/__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture
def disk() -> SimDisk:
    """Return a disk with a log of two segments, each with a batch of two records."""
    disk: SimDisk = disk_of().disk
    for path, base_offset in ((FIRST, 0), (SECOND, 2)):
        make(disk, path, bytes(batch(count=2, base_offset=base_offset)))
    return disk


def write(disk: SimDisk, path: str, data: bytes, *, syncs: bool = False) -> Any:
    file = disk.open(path, create=True)
    file.pwrite(data, file.size())
    if syncs:
        file.fdatasync()
    return file


def test_a_log_is_on_the_disk_with_its_bytes_and_its_names(disk: SimDisk) -> None:
    log = disk.directory("/data/t-0")
    assert (disk_logs.missing(log, 9), disk_logs.end_offset(log)) == ("", 4)
    write(disk, SECOND, bytes(batch(count=1, base_offset=4)))
    assert disk_logs.missing(log, 4) == ""
    assert disk_logs.missing(log, 5).startswith("00000000000000000002.log, as far as byte")
    make(disk, SECOND, b"")
    write(disk, "/data/t-0/00000000000000000005.log", bytes(batch(base_offset=5)), syncs=True)
    assert disk_logs.missing(log, 5) == ""
    assert disk_logs.missing(log, 6) == "the name 00000000000000000005.log"
    assert disk_logs.missing(log, 6, 6) == "the name 00000000000000000005.log"


def test_a_segment_that_was_swapped_has_a_durable_name(disk: SimDisk) -> None:
    swap = f"{FIRST}.swap"
    disk.rename(FIRST, swap)
    disk.sync_directory("/data/t-0")
    disk.rename(swap, FIRST)
    assert disk_logs.missing(disk.directory("/data/t-0"), 4) == ""
    assert disk.order.found == []


def test_the_clean_mark_comes_after_the_logs(disk: SimDisk) -> None:
    disk.replace(CLEAN, encode_clean_shutdown())
    assert disk.order.found == []
    write(disk, SECOND, bytes(batch(base_offset=4)))
    disk.replace(CLEAN, encode_clean_shutdown())
    assert len(disk.order.found) == 1
    assert disk.order.found[0].startswith("the clean mark is there, and of t-0 0000000000000000000")


def test_the_clean_mark_comes_after_the_names_of_the_logs(disk: SimDisk) -> None:
    disk.mkdir("/data/new-0")
    disk.replace(CLEAN, encode_clean_shutdown())  # which syncs the names in its directory
    assert disk.order.found == []
    disk.open("/data/new-0/00000000000000000000.log", create=True)
    disk.replace(CLEAN, encode_clean_shutdown())
    assert disk.order.found == [
        "the clean mark is there, and of new-0 the name 00000000000000000000.log is not on the disk"
    ]


def test_recovery_points_come_after_the_logs(disk: SimDisk) -> None:
    disk.replace(POINTS, encode_offsets({("t", 0): 4, ("gone", 0): 9}))
    assert disk.order.found == []
    write(disk, SECOND, bytes(batch(base_offset=4)))
    disk.replace(POINTS, encode_offsets({("t", 0): 4}))
    assert disk.order.found == []
    disk.replace(POINTS, encode_offsets({("t", 0): 5}))
    assert disk.order.found[0].startswith("the recovery point of t-0 is 5, 0000000000000000000")


@pytest.mark.parametrize("point", [0, 1])
def test_a_recovery_point_of_a_log_that_is_being_made(disk: SimDisk, point: int) -> None:
    """0 says nothing; a deleted log of that name has left any other."""
    disk.mkdir("/data/new-0")
    disk.order.replaced(POINTS, encode_offsets({("new", 0): point}))
    assert len(disk.order.found) == point


@pytest.mark.parametrize("offset", [0, 7])
def test_a_new_log_has_no_offsets_of_another(disk: SimDisk, offset: int) -> None:
    disk.replace(POINTS, encode_offsets({("t", 0): 4, ("new", 0): offset}))
    disk.replace(STARTS, b"no checkpoint")
    disk.mkdir("/data/new-1")
    disk.mkdir("/data/new-0.b9c8-delete")
    assert disk.order.found == []
    disk.mkdir("/data/new-0")
    said = "/data/new-0 is made, and recovery-point-offset-checkpoint has 7 for it on the disk"
    assert disk.order.found == ([said] if offset else [])


def test_a_recovery_point_is_not_behind_its_log(disk: SimDisk) -> None:
    disk.replace(POINTS, encode_offsets({("t", 0): 7}))
    assert disk.order.found == ["the recovery point of t-0 is 7, it ends at 4"]


def test_where_a_damaged_log_ends_is_not_known(disk: SimDisk) -> None:
    disk.edit(SECOND, 11, b"\x40")  # the last byte of a length
    disk.replace(POINTS, encode_offsets({("t", 0): 4}))
    assert disk.order.found == []


def test_a_snapshot_of_the_metadata_comes_after_its_log(disk: SimDisk) -> None:
    disk.mkdir("/data/__cluster_metadata-0")
    make(disk, METADATA, bytes(batch(count=2)))
    write(disk, METADATA, bytes(batch(base_offset=2)))
    name = "/data/__cluster_metadata-0/0000000000000000000{}-0000000001.checkpoint"
    disk.replace(name.format(2), b"")
    assert disk.order.found == []
    disk.replace(name.format(3), b"")
    assert len(disk.order.found) == 1


def test_a_compacted_segment_is_renamed_when_it_is_on_the_disk(disk: SimDisk) -> None:
    file = write(disk, f"{FIRST}.cleaned", bytes(batch(count=2)))
    file.fdatasync()
    disk.rename(f"{FIRST}.cleaned", f"{FIRST}.swap")
    assert disk.order.found == []
    write(disk, f"{SECOND}.cleaned", bytes(batch(base_offset=2, count=2)))
    disk.rename(f"{SECOND}.cleaned", f"{SECOND}.swap")
    assert disk.order.found == [
        f"{SECOND}.cleaned is renamed to {SECOND}.swap before its bytes are on the disk"
    ]


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_directory_is_deleted_when_the_removal_is_on_the_disk(
    disk: SimDisk, is_durable: bool
) -> None:
    topic_id = bytes(range(16))
    make(disk, "/data/t-0/partition.metadata", encode_partition_metadata(topic_id))
    disk.mkdir("/data/__cluster_metadata-0")
    write(disk, METADATA, b"xx\x01\x09\x00" + topic_id + b"yy", syncs=is_durable)
    disk.rename("/data/t-0", f"/data/t-0.{'0' * 32}-delete")
    assert bool(disk.order.found) is not is_durable


def test_small_files_are_not_written_in_place(disk: SimDisk) -> None:
    disk.replace(POINTS, encode_offsets({}))
    write(disk, "/data/t-0/00000000000000000000.index", b"x")
    assert disk.order.found == []
    write(disk, POINTS, b"x")
    assert disk.order.found == [f"{POINTS} is written in place"]


@pytest.mark.parametrize("rewrites", [True, False])
def test_a_sync_after_a_failed_one_needs_the_bytes_again(disk: SimDisk, rewrites: bool) -> None:
    data = bytes(batch(base_offset=4))
    file = write(disk, SECOND, data)
    fault = disk.fail("fdatasync")
    with pytest.raises(OSError, match="error") as caught:
        file.fdatasync()
    assert (caught.value.errno, fault.seen) == (errno.EIO, 1)
    if rewrites:
        file.pwrite(data, file.size() - len(data))
    file.fdatasync()
    assert bool(disk.order.found) is not rewrites


def test_the_next_process_may_sync_what_it_has_read(disk: SimDisk) -> None:
    file = write(disk, SECOND, bytes(batch(base_offset=4)))
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="error"):
        file.fdatasync()
    disk.kill()
    disk.open(SECOND).fdatasync()
    assert disk.order.found == []
