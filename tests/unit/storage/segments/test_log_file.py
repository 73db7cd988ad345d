"""Appends are all or nothing; reads report disk errors; the walk trusts no header."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from storage.errors import AppendFailed, DamagedLog, LogFailed
from storage.files.open_files import OpenFiles
from storage.files.os_filesystem import OsFileSystem
from storage.segments.log_file import (
    MAP_BYTES_MIN,
    PULL_BYTES,
    REMAP_BYTES_MIN,
    REMAP_GROWTH_BYTES,
    LogFile,
)
from tests.support.batches import batch, header_of
from tests.support.memory_filesystem import MemoryFileSystem

PATH = "/00000000000000000000.log"


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def log(disk: MemoryFileSystem) -> LogFile:
    log = LogFile(OpenFiles(disk, 10), PATH, 0)
    log.create()
    return log


def fill(log: LogFile, count: int = 5, size: int = 200) -> list[int]:
    """Append `count` batches of three records; return their positions."""
    return [log.append(batch(3 * index, 3, size=size)) for index in range(count)]


def test_append_is_one_write_at_the_end(disk: MemoryFileSystem, log: LogFile) -> None:
    assert fill(log, 3) == [0, 200, 400]
    assert log.size == 600
    assert disk.counts["pwrite"] == 3
    assert disk.live_bytes(PATH) == b"".join(batch(3 * i, 3, size=200) for i in range(3))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EFBIG])
@pytest.mark.parametrize("bytes_written", [0, 1, 61, 199])
def test_a_failed_append_leaves_the_file_as_before(
    disk: MemoryFileSystem, log: LogFile, error: int, bytes_written: int
) -> None:
    fill(log, 2)
    before = disk.live_bytes(PATH)
    disk.fail("pwrite", error=error, bytes_written=bytes_written)
    with pytest.raises(AppendFailed) as caught:
        log.append(batch(6, 3, size=200))
    assert caught.value.rolled_back
    assert (caught.value.position, caught.value.cause.errno) == (400, error)
    assert disk.live_bytes(PATH) == before
    assert log.append(batch(6, 3, size=200)) == 400
    assert [position for position, _ in log.scan()] == [0, 200, 400]


def test_a_partial_write_that_cannot_be_truncated_is_reported(
    disk: MemoryFileSystem, log: LogFile
) -> None:
    fill(log, 1)
    disk.fail("pwrite", bytes_written=100)
    disk.fail("truncate")
    with pytest.raises(AppendFailed, match="cutting the file back failed") as caught:
        log.append(batch(3, 3, size=200))
    assert not caught.value.rolled_back
    assert isinstance(caught.value, LogFailed)
    assert log.size == 200  # readers do not see the partial batch
    assert [position for position, _ in log.scan()] == [0]


def test_an_append_without_descriptors_touches_nothing(
    disk: MemoryFileSystem, log: LogFile
) -> None:
    fill(log, 1)
    log.forget()
    disk.fail("open", error=errno.EMFILE)
    with pytest.raises(AppendFailed) as caught:
        log.append(batch(3, 3, size=200))
    assert caught.value.rolled_back
    assert disk.counts["truncate"] == 0
    assert log.append(batch(3, 3, size=200)) == 200


def test_appends_succeed_once_a_full_disk_has_space_again(
    disk: MemoryFileSystem, log: LogFile
) -> None:
    fill(log, 2)
    disk.capacity_bytes = 450
    with pytest.raises(AppendFailed) as caught:
        log.append(batch(6, 3, size=200))
    assert (caught.value.rolled_back, caught.value.cause.errno) == (True, errno.ENOSPC)
    assert len(disk.live_bytes(PATH)) == 400
    disk.capacity_bytes = None
    assert log.append(batch(6, 3, size=200)) == 400


def test_headers_and_walks(log: LogFile) -> None:
    fill(log)
    assert log.read_header_at(400) == header_of(batch(6, 3, size=200))
    assert log.read_header_at(1000) is None
    assert log.read_header_at(960) is None  # less than a header remains
    for chunk_bytes in (61, 100, 200, 261, 4096):
        walked = list(log.scan(chunk_bytes=chunk_bytes))
        assert [position for position, _ in walked] == [0, 200, 400, 600, 800], chunk_bytes
        assert [header.base_offset for _, header in walked] == [0, 3, 6, 9, 12]
    assert [position for position, _ in log.scan(400, 800)] == [400, 600]
    assert list(log.scan(1000)) == []


def test_a_walk_over_large_batches_reads_headers_only(disk: MemoryFileSystem, log: LogFile) -> None:
    fill(log, 8, size=100_000)
    disk.counts.clear()
    assert len(list(log.scan())) == 8
    assert disk.counts["pread"] == 8


HEADER_DAMAGE = [
    ("base offset back", 0, ">q", 2, "base offset 2", "at least 6"),
    ("base offset negative", 0, ">q", -1, "base offset -1", "at least 6"),
    ("length zero", 8, ">i", 0, "batch length 0", "at least 49"),
    ("length negative", 8, ">i", -5, "batch length -5", "at least 49"),
    ("length past the end", 8, ">i", 600, "a batch of 612 bytes", "at most 600"),
    ("length huge", 8, ">i", 2**31 - 1, "a batch of 2147483659 bytes", "at most 600"),
    ("magic 1", 16, ">b", 1, "magic 1", "2"),
    ("magic 3", 16, ">b", 3, "magic 3", "2"),
    ("offset delta negative", 23, ">i", -1, "last offset delta -1", "at least 0"),
    ("offset past the end", 0, ">q", 2**40, f"last offset {2**40 + 2}", "less than 15"),
    ("zeros", 0, ">61s", bytes(61), "magic 0", "2"),
]


@pytest.mark.parametrize(
    ("name", "at", "code", "value", "found", "wanted"),
    HEADER_DAMAGE,
    ids=[case[0] for case in HEADER_DAMAGE],
)
@pytest.mark.parametrize("chunk_bytes", [61, 4096])
def test_the_walk_stops_at_an_inconsistent_header(
    disk: MemoryFileSystem,
    log: LogFile,
    name: str,
    at: int,
    code: str,
    value: object,
    found: str,
    wanted: str,
    chunk_bytes: int,
) -> None:
    fill(log)
    disk.edit(PATH, 400 + at, struct.pack(code, value))
    walk = log.scan(offset_end=15, chunk_bytes=chunk_bytes)
    assert [next(walk)[0], next(walk)[0]] == [0, 200], name
    with pytest.raises(DamagedLog) as caught:
        next(walk)
    damage = caught.value
    assert (damage.path, damage.position, damage.offset) == (PATH, 400, 6)
    assert (damage.found, damage.wanted) == (found, wanted)


def test_a_length_one_too_short_is_caught_at_the_next_batch(
    disk: MemoryFileSystem, log: LogFile
) -> None:
    fill(log)
    disk.edit(PATH, 408, struct.pack(">i", 187))
    with pytest.raises(DamagedLog) as caught:
        list(log.scan())
    assert caught.value.position == 599


@pytest.mark.parametrize("cut", [1, 60, 61, 100, 199])
def test_a_torn_tail_is_reported_as_damage_with_its_position(log: LogFile, cut: int) -> None:
    fill(log)
    log.truncate(800 + cut)
    with pytest.raises(DamagedLog) as caught:
        list(log.scan())
    assert caught.value.position == 800


def test_small_slices_are_read(disk: MemoryFileSystem, log: LogFile) -> None:
    fill(log)
    part = log.slice(200, 400)
    assert len(part) == 400
    assert part.load_hot() == disk.live_bytes(PATH)[200:600]
    assert part.load() == part.read() == disk.live_bytes(PATH)[200:600]
    assert part.read_hot(400) == part.read()
    assert part.read_hot(399) is None  # a thread reads it
    assert disk.counts["map"] == 0
    disk.cold.add(PATH)
    assert part.load_hot() is part.read_hot() is None
    assert part.load() == disk.live_bytes(PATH)[200:600]


def test_large_slices_are_views_of_one_map(disk: MemoryFileSystem, log: LogFile) -> None:
    fill(log, 3, size=REMAP_BYTES_MIN)
    content = disk.live_bytes(PATH)
    for position in (0, REMAP_BYTES_MIN, 2 * REMAP_BYTES_MIN):
        part = log.slice(position, REMAP_BYTES_MIN)
        for loaded in (part.load_hot(), part.load()):
            assert isinstance(loaded, memoryview)
            assert loaded == content[position : position + REMAP_BYTES_MIN]
    assert isinstance(log.slice(5, MAP_BYTES_MIN).load_hot(), memoryview)  # now the file is mapped
    assert disk.counts["map"] == 1
    assert disk.counts["pread"] == 0
    assert isinstance(log.slice(5, MAP_BYTES_MIN).read_hot(), bytes)  # whose pages can be checked
    log.append(batch(9, 3, size=REMAP_BYTES_MIN))
    assert log.slice(0, REMAP_BYTES_MIN).load_hot() is not None
    assert disk.counts["map"] == 1  # the old map still covers it
    assert log.slice(REMAP_BYTES_MIN * 3, REMAP_BYTES_MIN).load_hot() is not None
    assert disk.counts["map"] == 2


def test_reads_at_the_end_of_a_growing_file_do_not_remap_it_each_time(
    disk: MemoryFileSystem, log: LogFile
) -> None:
    size = REMAP_BYTES_MIN - 1
    count = 2 * REMAP_GROWTH_BYTES // size
    for first in range(count):
        part = log.slice(log.append(batch(first, 1, size=size)), size)
        assert part.load_hot() is not None
        assert len(part.load()) == size
    assert disk.counts["map"] == 1


def test_cold_large_slices_are_pulled_in_pieces(disk: MemoryFileSystem, log: LogFile) -> None:
    size = 3 * PULL_BYTES + 1
    log.append(batch(0, 3, size=size))
    disk.cold.add(PATH)
    part = log.slice(0, size)
    assert part.load_hot() is None
    assert part.load() == disk.live_bytes(PATH)
    assert disk.counts["pread"] == 4


def test_cold_large_slices_that_cannot_be_pulled_are_errors_of_the_log(
    disk: MemoryFileSystem,
) -> None:
    log = LogFile(OpenFiles(disk, 10), PATH, 0)
    log.create()
    log.append(batch(0, 3, size=2 * PULL_BYTES))
    disk.cold.add(PATH)
    part = log.slice(0, 2 * PULL_BYTES)
    disk.fail("pread", nth=2)
    with pytest.raises(LogFailed, match=f"read at position {PULL_BYTES} failed"):
        part.load()
    disk.open(PATH).truncate(PULL_BYTES + 10)
    short = f"read at position {PULL_BYTES} returned 10 bytes, expected {PULL_BYTES}"
    with pytest.raises(LogFailed, match=short):
        part.load()


@pytest.mark.parametrize("size", [400, REMAP_BYTES_MIN])
def test_a_slice_outlives_its_file_name(disk: MemoryFileSystem, log: LogFile, size: int) -> None:
    log.append(batch(0, 3, size=size))
    content = disk.live_bytes(PATH)
    part = log.slice(0, size)
    log._files.rename(PATH, PATH + ".deleted")
    log.path = PATH + ".deleted"
    log.forget()
    disk.unlink(PATH + ".deleted")
    assert part.load_hot() == part.read_hot() == content
    assert part.load() == content


@pytest.mark.parametrize("size", [400, REMAP_BYTES_MIN])
def test_a_failed_read_is_an_error_of_the_log(
    disk: MemoryFileSystem, log: LogFile, size: int
) -> None:
    log.append(batch(0, 3, size=size))
    part = log.slice(0, size)
    disk.fail("pread", forever=True)
    disk.fail("map", forever=True)
    for load in (part.load_hot, part.read_hot, part.load, part.read):
        if size < REMAP_BYTES_MIN or load in (part.read, part.read_hot):
            with pytest.raises(LogFailed, match="read at position 0 failed"):
                load()
        else:
            with pytest.raises(LogFailed, match="cannot map"):
                load()


@pytest.mark.parametrize("size", [400, REMAP_BYTES_MIN])
def test_a_file_truncated_by_another_program_is_an_error_of_the_log(
    disk: MemoryFileSystem, log: LogFile, size: int
) -> None:
    log.append(batch(0, 3, size=size))
    part = log.slice(0, size)
    disk.open(PATH).truncate(size - 1)
    for load in (part.load_hot, part.read_hot, part.load, part.read):
        with pytest.raises(LogFailed):
            load()


def test_a_missing_file_is_an_error_of_the_log(disk: MemoryFileSystem) -> None:
    log = LogFile(OpenFiles(disk, 10), "/none.log", 100)
    with pytest.raises(LogFailed, match="cannot be opened"):
        log.slice(0, 100)
    with pytest.raises(LogFailed, match="cannot be opened"):
        log.read(0, 100)


def test_truncate(disk: MemoryFileSystem, log: LogFile) -> None:
    fill(log)
    log.truncate(400)
    assert log.size == 400
    assert log.append(batch(6, 3, size=200)) == 400
    disk.fail("truncate")
    with pytest.raises(OSError, match="Input/output"):
        log.truncate(0)
    assert log.size == 600


def test_real_maps_are_released_without_leak_or_warning(tmp_path: Path) -> None:
    files = OpenFiles(OsFileSystem(), 10)
    path = str(tmp_path / "00000000000000000000.log")
    log = LogFile(files, path, 0)
    log.create()
    first = batch(0, 3, size=REMAP_BYTES_MIN)
    log.append(first)
    views = []
    for index in range(1, 6):
        log.append(batch(3 * index, 3, size=REMAP_BYTES_MIN))
        part = log.slice(index * REMAP_BYTES_MIN, REMAP_BYTES_MIN)
        loaded = part.load_hot()
        assert loaded is not None  # just written: in memory
        views.append(loaded)
        part.load()
    del part
    assert bytes(views[0]) == batch(3, 3, size=REMAP_BYTES_MIN)
    log.forget()
    assert _mappings(path) == 5
    del views, loaded
    assert _mappings(path) == 0
    assert bytes(log.slice(0, REMAP_BYTES_MIN).load()) == first


def _mappings(path: str) -> int:
    return Path("/proc/self/maps").read_text().count(path)
