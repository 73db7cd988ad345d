"""Flipped bits: where they may be, and how what has one is told from what has none."""

from __future__ import annotations

import random

import pytest

from protocol.record_batch import read_header, verify
from protocol.record_errors import RecordError
from storage.files.filenames import OFFSET_MAX
from storage.files.text_files import encode_offsets, encode_partition_metadata
from tests.simulation.bit_flip import Flip, batches_below, found_again, holds, refused_from
from tests.simulation.disk import SimDisk
from tests.simulation.disk_rig import disk_of, make
from tests.support.batches import batch

LOG = "/data/t-0/00000000000000000000.log"
TOPIC_ID = bytes(range(16))
ROWS = [(0, 3), (3, 2), (5, 5)]  # base offset and records
RECORDS = {(3, b"v"), (4, b"")}  # of the second


def log_of(rows: list[tuple[int, int]] = ROWS) -> bytearray:
    return bytearray().join(batch(*row) for row in rows)


def disk_with(content: bytes, point: int = 7) -> SimDisk:
    disk = disk_of().disk
    points = {("t", 0): point, ("u", 1): 0, ("__cluster_metadata", 0): 10, ("gone", 0): 5}
    logs = {
        "recovery-point-offset-checkpoint": encode_offsets(points),
        "t-0": {
            "00000000000000000000.log": bytes(content),
            "00000000000000000000.index": bytes(content),
            "partition.metadata": encode_partition_metadata(TOPIC_ID),
        },
        "u-1": {"00000000000000000000.log": bytes(content)},
        "__cluster_metadata-0": {"00000000000000000000.log": bytes(content)},
    }
    disk.load(logs, at="/data")
    return disk


def flipped(at: int, bit: int = 2, content: bytes | None = None) -> tuple[Flip, bytearray]:
    """Flip a bit of the second batch; return the flip and the log as it is now."""
    content = bytearray(log_of() if content is None else content)
    first, second, _ = batches_below(log_of(), OFFSET_MAX)
    content[second.begin + at] ^= 1 << bit
    head = bytes(content[second.begin : second.begin + max(61, at + 1)])
    assert first.end == second.begin
    return Flip("t-0", TOPIC_ID, LOG, second.begin + at, bit, second, head), content


@pytest.mark.parametrize(("at", "shows"), [(0, False), (16, False), (17, True), (60, True)])
def test_the_checksum_covers_all_from_its_own_place_on(at: int, *, shows: bool) -> None:
    flip, content = flipped(at)
    is_right = True
    try:
        verify(content, flip.batch.begin)
    except RecordError:
        is_right = False
    assert flip.shows is shows
    if shows:
        assert not is_right


def test_a_bit_flips_below_the_recovery_point_only() -> None:
    assert disk_of().disk.flip(random.Random(1)) is None
    log, rng, places = log_of(), random.Random(2), set()
    for _ in range(50):
        disk = disk_with(log)
        flip = disk.flip(rng)
        assert flip is not None
        places.add((flip.base_offset, flip.next_offset))
        assert (flip.partition, flip.path, flip.topic_id) == ("t-0", LOG, TOPIC_ID)
        changed = bytearray(log)
        changed[flip.position] ^= 1 << flip.bit
        assert disk.live_bytes(LOG) == disk.durable_bytes(LOG) == changed
        assert holds(disk.directory("/"), flip)
        assert (disk.harmed, disk.failed) == ({"t-0"}, set())
    assert places == {(0, 3), (3, 5)}
    assert disk.flip(rng, but=("t-0", "__cluster_metadata-0")) is None


def test_a_batch_that_has_rotted_is_known_as_it_was_written() -> None:
    """Even if its header says something else now, more of its bits may flip, each once."""
    content = batch(0, 2)
    disk, rng = disk_with(content, point=2), random.Random(3)
    flips: list[Flip] = []
    for _ in range(8 * len(content)):
        flip = disk.flip(rng, known=flips)
        assert flip is not None
        flips.append(flip)
    assert len({(one.position, one.bit) for one in flips}) == len(flips)
    assert len({one.batch for one in flips}) == 1
    assert disk.live_bytes(LOG) == bytes(byte ^ 0xFF for byte in content)


def test_batches_are_found_up_to_one_that_nobody_knows() -> None:
    flip, content = flipped(at=70)
    assert [one.base_offset for one in batches_below(content, 7)] == [0]
    known = {flip.batch.begin: flip}
    found = list(batches_below(content, 7, known))
    assert [one.base_offset for one in found] == [0, 3]
    assert found[1] == flip.batch
    assert found[1].records == RECORDS
    assert [one.base_offset for one in batches_below(log_of(), 7, known)] == [0, 3], "it is gone"


@pytest.mark.parametrize("at", [0, 7, 8, 12, 16, 17, 26, 61, 80])
def test_bytes_with_and_without_the_flipped_bit(at: int) -> None:
    flip, content = flipped(at)
    begin = flip.batch.begin
    assert flip.begins(content, begin)
    assert flip.begins(content[: begin + at + 1], begin), "an answer that ends behind the bit"
    assert not flip.begins(content[: begin + at], begin)
    assert not flip.begins(content, 0)
    assert not flip.begins(log_of(), begin), "from before the bit flipped"
    again, content = flipped(at + 1, content=content)
    assert again.begins(content, begin)


def test_records_of_a_batch_that_is_out_of_its_place() -> None:
    flip = flipped(at=6)[0]  # 1,024 too high
    assert flip.shift == 1024
    moved = [(1027, b"v"), (1028, b"")]
    assert flip.is_in(moved)
    assert flip.is_in(moved[1:], epoch=0), "compaction may have removed some"
    assert not flip.is_in(RECORDS), "from before the bit flipped"
    assert not flip.is_in([(1029, b"v")])
    down, _ = flipped(at=7, bit=1)
    assert (down.shift, down.is_in([(1, b"v")]), down.is_in([(3, b"v")])) == (-2, True, False)


def test_records_of_a_batch_with_another_epoch() -> None:
    flip, content = flipped(at=14)
    epoch = read_header(content, flip.batch.begin).leader_epoch
    assert flip.is_in(RECORDS, epoch)
    assert not flip.is_in(RECORDS, 0)
    assert not flip.is_in(RECORDS, epoch + 1)
    assert not flip.is_in(RECORDS)
    assert not flip.is_in([(5, b"v")], epoch)


def test_a_flip_under_the_crc_is_not_told_by_records() -> None:
    flip, _ = flipped(at=70)
    assert not flip.is_in(RECORDS, 0)


@pytest.mark.parametrize(
    ("at", "hides"), [(0, True), (8, True), (12, False), (16, True), (17, False), (23, True)]
)
def test_where_reading_goes_on(at: int, hides: bool) -> None:
    flip, content = flipped(at)
    disk = disk_with(content)
    assert flip.hides == hides
    assert found_again(disk.directory("/"), flip) == (OFFSET_MAX if hides else 5)
    make(disk, "/data/t-0/00000000000000000010.log")
    assert found_again(disk.directory("/"), flip) == (10 if hides else 5)
    disk.load({"00000000000000000000.log": bytes(log_of(ROWS[:2]))}, at="/data/t-0")
    assert not holds(disk.directory("/"), flip)


def test_where_reading_goes_on_behind_a_hole_and_at_the_end() -> None:
    flip, content = flipped(at=70)
    end = flip.batch.end
    assert found_again(disk_with(content[:end]).directory("/"), flip) == OFFSET_MAX
    assert found_again(disk_with(content[:end] + batch(20, 1)).directory("/"), flip) == 20


@pytest.mark.parametrize(("at", "bit", "begins"), [(70, 2, 3), (6, 2, 3), (7, 1, 0), (7, 0, 0)])
def test_from_where_a_log_with_holes_meets_the_batch(at: int, bit: int, begins: int) -> None:
    """A base offset that is too low may be that of the batch before."""
    flip, content = flipped(at, bit)
    assert refused_from(disk_with(content).directory("/"), flip, [flip]) == begins
    copied = disk_with(log_of(ROWS[:1]))
    assert refused_from(copied.directory("/"), flip, [flip]) == 0
