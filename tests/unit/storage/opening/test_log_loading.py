"""Loading a partition's directory: missing and wrong caches, holes, wrong checkpoints."""

import struct

import pytest

from storage.errors import OffsetOutOfRange
from tests.support.log_house import NOW, append, apply_retention, batch, checkpoint, read_all
from tests.support.lookups import first_found
from tests.support.stopped_logs import FIRST, SECOND, SEGMENTS, THIRD, stopped_house

SIZE = len(batch())


def test_a_clean_start_reads_only_the_end_of_the_log():
    house = stopped_house(400, internal_segment_bytes=10**6)
    house.filesystem.calls.clear()
    log = house.restart(**(SEGMENTS | {"internal_segment_bytes": 10**6}))
    assert log.end_offset == 400
    reads = [path for operation, path in house.filesystem.calls
             if operation == "pread" and path.endswith(".log")]  # fmt: skip
    assert len(reads) <= 3
    assert not [call for call in house.filesystem.calls if call[0] == "pwrite"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "gone",
    [
        "index",
        "timeindex",
        "snapshot",
        "producers",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ],
)
def test_any_cache_can_be_deleted(clean, gone):
    house = stopped_house(clean=clean)
    for name in house.names(gone):
        house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    assert first_found(log.timestamp_candidates(NOW)).offset == 0
    assert log.epochs.entries() == [(0, 0)]
    for _ in range(3):
        checkpoint(house, log)
    assert house.names(".index") == [f"{base}.index" for base in (FIRST, SECOND, THIRD)]
    assert all(not segment.indexes.damage for segment in log.segments)
    assert list(read_all(log)) == list(range(12))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b"\xff" * 4096, b"\x01" * 13, struct.pack(">ii", 3, 2**30) * 5],
    ids=["empty", "zeros", "ones", "odd", "beyond"],
)
def test_an_index_may_contain_any_bytes(clean, kind, content):
    house = stopped_house(clean=clean)
    for name in house.names(f".{kind}"):
        house.filesystem.replace(house.path(name), content)
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    assert list(read_all(log, 7)) == list(range(7, 12))
    assert first_found(log.timestamp_candidates(NOW)).offset == 0
    assert append(log) == [12]


def test_indexes_preallocated_by_kafka_are_read():
    """A killed Kafka leaves index files of 10 MiB, with zeros after the entries."""
    house = stopped_house(clean=False)
    for name in house.names("index"):
        content = house.filesystem.live_bytes(house.path(name))
        house.filesystem.replace(house.path(name), content.ljust(1 << 16, b"\0"))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log)) == list(range(12))
    append(log, 3)
    assert house.stop()
    assert list(read_all(house.restart(**SEGMENTS))) == list(range(15))


def test_a_missing_segment_leaves_a_hole_and_shifts_no_offset():
    house = stopped_house()
    house.filesystem.unlink(house.path(f"{SECOND}.log"))
    log = house.restart(**SEGMENTS)
    assert list(read_all(log, 10)) == [10, 11]
    for offset in (5, 9):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000)
    assert append(log) == [12]


def test_readers_of_a_compacted_log_skip_a_hole():
    house = stopped_house(cleanup_policy=("compact",))
    house.filesystem.unlink(house.path(f"{SECOND}.log"))
    log = house.restart(cleanup_policy=("compact",), **SEGMENTS)
    assert list(read_all(log)) == [0, 1, 2, 3, 4, 10, 11]


def test_a_directory_without_a_log_file_continues_at_its_checkpoints():
    house = stopped_house()
    for name in house.names():
        if name != "partition.metadata":
            house.filesystem.unlink(house.path(name))
    log = house.restart(**SEGMENTS)
    assert (log.start_offset, log.end_offset) == (12, 12)
    assert append(log) == [12]


def test_a_log_start_beyond_the_end_deletes_nothing():
    house = stopped_house()
    house.filesystem.replace("/data/log-start-offset-checkpoint", b"0\n1\nt 0 500\n")
    log = house.restart(**SEGMENTS)
    assert (log.start_offset, log.end_offset) == (0, 12)
    assert apply_retention(house, log, NOW) == 0
    assert list(read_all(log)) == list(range(12))
