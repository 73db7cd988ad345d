"""Positions: the next offset to read, the committed offset, and the order of partitions."""

from __future__ import annotations

import pytest

from client.msgpack.membership import Partition
from client.msgpack.positions import Positions

ONE, TWO, THREE = (Partition(b"t" * 16, number) for number in range(3))


@pytest.fixture
def positions():
    held = Positions()
    held.hold([ONE, TWO, THREE])
    return held


def test_partitions_start_without_a_position_and_keep_the_one_they_get(positions):
    assert positions.unplaced() == [ONE, TWO, THREE]
    assert positions.readable() == []
    positions.place(TWO, 5)
    positions.hold([TWO])
    assert positions.unplaced() == [ONE, THREE]
    assert positions.offsets() == {TWO: 5}
    assert (positions.offset(ONE), positions.offset(TWO)) == (-1, 5)


def test_each_fetch_starts_with_another_partition(positions):
    for one in positions:
        positions.place(one, 0)
    assert [positions.readable()[0] for _ in range(4)] == [ONE, TWO, THREE, ONE]


def test_a_paused_partition_is_not_read_but_kept(positions):
    for one in positions:
        positions.place(one, 3)
    positions.pause(TWO, paused=True)
    assert set(positions.readable()) == {ONE, THREE}
    positions.pause(TWO, paused=False)
    assert set(positions.readable()) == {ONE, TWO, THREE}
    assert positions.offset(TWO) == 3


def test_a_committed_offset_is_not_committed_again(positions):
    positions.place(ONE, 7, committed=True)
    positions.place(TWO, 0)
    assert positions.uncommitted() == {TWO: 0}
    positions.move(ONE, 9, 4)
    assert positions.uncommitted() == {ONE: 9, TWO: 0}
    assert positions.leader_epoch(ONE) == 4
    positions.move(ONE, 12, 4)
    positions.committed({ONE: 9, TWO: 0})
    assert positions.uncommitted() == {ONE: 12}
    positions.place(ONE, 2)
    assert positions.leader_epoch(ONE) == -1  # the epoch of the record before it is unknown


def test_dropped_partitions_are_forgotten(positions):
    positions.place(ONE, 1)
    positions.drop([ONE, ONE])
    positions.committed({ONE: 1})
    assert ONE not in positions
    assert list(positions) == [TWO, THREE]
    assert positions.leader_epoch(ONE) == -1
    with pytest.raises(KeyError):
        positions.place(ONE, 1)
