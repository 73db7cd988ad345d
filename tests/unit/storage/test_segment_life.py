"""A segment's life: each call fails once, or from then on, and a power cut follows.

The recipe is SQLite's: count the calls of a scripted life, then fail the first, the second, … of
each kind. After the cut, whatever it does to the unsynced bytes, the synced bytes must be there,
whole, in order, and found by every look-up, whatever became of the indexes.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging

import pytest

from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.batches import batch, header_of
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment
from tests.support.thorough import share_of

LOG_PATH = f"/t-0/{0:020d}.log"


def new_disk() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.mkdir("/t-0")
    disk.sync_directory("/")
    disk.counts.clear()
    return disk


def live(disk: MemoryFileSystem) -> int:
    """Append, sync, index, read, roll; return the end offset of the last good sync."""
    acknowledged = 0
    files = OpenFiles(disk, 2)  # fewer than the three files, to force evictions
    try:
        segment = create_segment(files, "/t-0", interval=300)
        disk.sync_directory("/t-0")
    except OSError:
        return acknowledged
    for turn in range(12):
        data = batch(segment.next_offset, 3, size=250)
        try:
            segment.append(data, header_of(data))
        except AppendFailed as error:
            if not error.rolled_back:
                return acknowledged
            continue
        if turn % 3 == 2:
            try:
                segment.log_file.file().fdatasync()
            except OSError:
                return acknowledged  # no retry: the pages are clean, but not on the disk
            acknowledged = segment.next_offset
        try:
            for file in segment.indexes.write() if turn % 4 == 3 else []:
                file.fdatasync()
            segment.read(0, 700)
        except (OSError, LogFailed):
            pass  # indexes are caches, and the reader knows
    try:
        segment.on_roll()
        segment.indexes.sync()
    except (OSError, LogFailed):
        pass
    return acknowledged


def check(disk: MemoryFileSystem, acknowledged: int) -> None:
    if not disk.exists(LOG_PATH):
        assert acknowledged == 0
        return
    segment = Segment(
        OpenFiles(disk, 10),
        "/t-0",
        0,
        size=disk.size(LOG_PATH),
        index_interval_bytes=300,
        index_size_max=1 << 20,
        created_ms=0,
    )
    end = 0
    with contextlib.suppress(DamagedLog):  # a torn end, for recovery to cut
        for _, header in segment.log_file.scan():
            assert header.base_offset == end
            end = header.next_offset
    assert end >= acknowledged
    for offset in range(acknowledged):
        found = segment.position_of(offset)
        assert found is not None
        assert found[1].base_offset <= offset <= found[1].last_offset


def call_counts() -> dict[str, int]:
    disk = new_disk()
    assert live(disk) == 36
    return dict(disk.counts)


@pytest.mark.parametrize("op", ["open", "pread", "pwrite", "fdatasync", "sync_directory"])
@pytest.mark.parametrize("unsynced", ["lost", "torn", "zeros", "kept"])
def test_any_call_may_fail(op: str, unsynced: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    counts = call_counts()
    assert counts[op] > 0
    cases = itertools.product(
        range(1, counts[op] + 1), (errno.EIO, errno.ENOSPC), (False, True), (0, 100)
    )
    for nth, error, forever, bytes_written in share_of(cases):
        disk = new_disk()
        disk.fail(op, nth, error, forever=forever, bytes_written=bytes_written)
        acknowledged = live(disk)
        disk.heal()
        disk.crash(unsynced)
        check(disk, acknowledged)


def test_the_table_above_has_every_kind_of_call() -> None:
    assert set(call_counts()) <= {"open", "pread", "pwrite", "fdatasync", "sync_directory"}
