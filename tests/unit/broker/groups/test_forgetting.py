"""Offsets of deleted topics leave memory at once, and the log a few per turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

from broker.groups.forgetting import TURN_UNITS, DeletedTopics
from broker.groups.group import GroupRecord
from broker.groups.registry import Registry
from broker.groups.shard import Shard
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.wire import ZERO_UUID

COUNT = 3 * TURN_UNITS


class House:
    """One group with offsets of `t`, and the tombstones written so far."""

    def __init__(self) -> None:
        self.shard = Shard(0)
        self.offsets = self.shard.registry.offsets
        for number in range(COUNT):
            self.commit(number, 7)
        self.offsets.apply(self.key(0, "u"), OffsetCommitValue(offset=8, commit_timestamp=1), 0)
        self.written: list[list[int]] = []
        self.fails = False
        self.topics = DeletedTopics(self.remove, lambda _: ZERO_UUID)

    def key(self, number: int, topic: str = "t") -> OffsetCommitKey:
        return OffsetCommitKey(group="g", topic=topic, partition=number)

    def commit(self, number: int, offset: int) -> None:
        value = OffsetCommitValue(offset=offset, commit_timestamp=1)
        self.offsets.apply(self.key(number), value, number)

    def remove(self, _: Registry, group_id: str, records: Sequence[GroupRecord]) -> None:
        if self.fails:
            self.fails = False
            raise RuntimeError("a bug")
        assert group_id == "g"
        self.written.append([key.partition for key, _ in records])

    async def until(self, count: int) -> None:
        for _ in range(100):
            if len(self.written) >= count:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{len(self.written)} batches in 100 turns, not {count}")


@pytest.fixture
def house() -> House:
    return House()


async def test_the_offsets_are_gone_at_once_and_the_tombstones_take_turns(house: House) -> None:
    house.topics.forget(house.shard, "t")
    assert list(house.offsets.topics("g")) == ["u"]
    await house.until(1)
    assert [len(batch) for batch in house.written] == [TURN_UNITS]
    await house.until(3)
    assert sorted(chain.from_iterable(house.written)) == list(range(COUNT))


async def test_shards_with_few_offsets_take_turns_as_well() -> None:
    # A turn may write hundreds of tombstones for each.
    houses = [House() for _ in range(3)]
    topics = houses[0].topics
    for one in houses:
        topics.forget(one.shard, "u")
    written = houses[0].written
    assert written == []
    for count in range(1, 4):
        await houses[0].until(count)
        assert len(written) == count


async def test_an_offset_committed_in_the_meantime_gets_no_tombstone(house: House) -> None:
    house.topics.forget(house.shard, "t")
    house.commit(COUNT - 1, 9)
    await house.until(3)
    assert sorted(chain.from_iterable(house.written)) == list(range(COUNT - 1))


async def test_a_stop_writes_all_remaining_tombstones(house: House) -> None:
    house.topics.forget(house.shard, "t")
    house.topics.forget(house.shard, "u")
    house.topics.finish()
    assert [len(batch) for batch in house.written] == [TURN_UNITS] * 3 + [1]
    await asyncio.sleep(0)
    assert len(house.written) == 4


async def test_a_dropped_shard_gets_no_more_tombstones(house: House) -> None:
    house.topics.forget(house.shard, "t")
    await house.until(1)
    house.shard.drop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(house.written) == 1


async def test_a_failed_write_does_not_block_the_next_turn(house: House) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    house.topics.forget(house.shard, "t")
    house.topics.forget(house.shard, "u")
    await house.until(1)
    house.fails = True
    await house.until(2)
    assert [len(batch) for batch in house.written] == [TURN_UNITS, 1]
    assert [str(context["exception"]) for context in told] == ["a bug"]
