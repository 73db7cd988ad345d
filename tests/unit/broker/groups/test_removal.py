"""Removal of groups with many offsets: in turns of the loop, and whole for clients."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker.groups.apply import apply_offset
from broker.groups.coordinator import Coordinator
from broker.groups.errors import GroupError
from broker.groups.forgetting import TURN_UNITS
from broker.groups.removal import delete_groups, delete_offsets, expire_offsets
from protocol.errors import ErrorCode
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, committed, find
from tests.support.rig_client import create

COUNT = 3 * TURN_UNITS
LOADING = 14


@pytest.fixture
async def rig(tmp_path: Path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(made)
    await find(made)
    fill(made.services.groups, "g")
    yield made
    await made.close()


def fill(groups: Coordinator, group_id: str) -> None:
    """Give a group old offsets of two topics."""
    for number in range(COUNT):
        apply_offset(
            groups.registry_of(group_id),
            groups,
            OffsetCommitKey(group=group_id, topic=f"t{number % 2}", partition=number),
            OffsetCommitValue(offset=7, commit_timestamp=1),
            number,
        )


def left(groups: Coordinator, group_id: str) -> int:
    (registry,) = groups.registries()
    return sum(1 for _ in registry.offsets.places(group_id))


async def whole_group(groups: Coordinator) -> None:
    assert await delete_groups(groups, ["g", "no"]) == [0, ErrorCode.GROUP_ID_NOT_FOUND]


async def each_offset(groups: Coordinator) -> None:
    places = [(f"t{odd}", list(range(odd, COUNT, 2))) for odd in (0, 1)]
    assert await delete_offsets(groups, "g", places) == {"t0": 0, "t1": 0}


@pytest.mark.parametrize("remove", [whole_group, each_offset, expire_offsets])
async def test_many_offsets_are_removed_in_turns(
    rig: Rig, remove: Callable[[Coordinator], Awaitable[None]]
) -> None:
    groups = rig.services.groups
    task = asyncio.ensure_future(remove(groups))
    seen = [COUNT]
    while not task.done():
        await asyncio.sleep(0)
        seen.append(left(groups, "g"))
    await task
    assert seen[-1] == 0
    assert max(before - now for before, now in itertools.pairwise(seen)) <= TURN_UNITS


async def test_a_group_that_is_being_deleted_refuses_its_requests_until_it_is_gone(
    rig: Rig,
) -> None:
    groups = rig.services.groups
    task = asyncio.ensure_future(delete_groups(groups, ["g"]))
    await asyncio.sleep(0)
    assert 0 < left(groups, "g") < COUNT
    assert await committed(rig, ("t0", 0)) == LOADING
    assert await commit(rig, ("t", 0, 5)) == [("t", 0, LOADING)]
    assert await task == [0]
    assert await committed(rig, ("t0", 0)) == {("t0", 0): -1}
    assert await commit(rig, ("t", 0, 5)) == [("t", 0, 0)]


async def test_a_group_that_could_not_be_deleted_is_served_again(rig: Rig) -> None:
    groups = rig.services.groups
    log = groups.log.partition(0).log
    task = asyncio.ensure_future(delete_groups(groups, ["g"]))
    await asyncio.sleep(0)
    log.update_config(log.config.with_overrides({"max.message.bytes": "1"}))
    assert await task == [ErrorCode.NOT_COORDINATOR]
    assert await committed(rig, ("t1", COUNT - 1)) == {("t1", COUNT - 1): 7}


async def test_a_deletion_that_a_stop_overtakes_is_answered(rig: Rig) -> None:
    groups = rig.services.groups
    task = asyncio.ensure_future(delete_groups(groups, ["g"]))
    await asyncio.sleep(0)
    groups.stop()
    assert await task == [ErrorCode.NOT_COORDINATOR]


async def test_a_group_that_is_deleted_between_two_turns_of_an_offset_delete(rig: Rig) -> None:
    groups = rig.services.groups
    task = asyncio.ensure_future(delete_offsets(groups, "g", [("t0", range(0, COUNT, 2))]))
    while left(groups, "g") == COUNT:
        await asyncio.sleep(0)
    (registry,) = groups.registries()
    registry.remove("g", ErrorCode.GROUP_ID_NOT_FOUND)
    with pytest.raises(GroupError) as refused:
        await task
    assert refused.value.code == ErrorCode.NOT_COORDINATOR  # not a refusal: offsets are gone
