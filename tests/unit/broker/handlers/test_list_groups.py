"""ListGroups and its filters."""

import pytest

from broker.groups.shard import ShardState
from broker.handlers import list_groups
from protocol.messages.list_groups import ListGroupsRequest
from tests.support.group_rig import commit, member
from tests.support.rig_client import ask, create


@pytest.fixture
async def rig(group_rig):
    await create(group_rig)
    await member(group_rig)
    await commit(group_rig, ("t", 0, 1), group_id="a")
    return group_rig


@pytest.mark.parametrize(
    ("states", "types", "names"),
    [
        ([], [], ["a", "g"]),
        (["STABLE"], [], ["g"]),
        (["Empty", "Stable"], [], ["a", "g"]),
        (["Dead", "none"], [], []),
        ([], ["Classic"], ["a", "g"]),
        ([], ["consumer"], []),
        (["empty"], ["classic"], ["a"]),
    ],
)
async def test_filters(rig, states, types, names):
    body = ListGroupsRequest(states_filter=states, types_filter=types)
    assert [group.group_id for group in (await ask(rig, body, 5)).groups] == names


async def test_the_fields_of_a_listed_group(rig):
    first, second = (await ask(rig, ListGroupsRequest(), 5)).groups
    assert (first.protocol_type, first.group_state, first.group_type) == ("", "Empty", "classic")
    assert (second.protocol_type, second.group_state) == ("consumer", "Stable")


async def test_while_groups_are_loaded(rig, monkeypatch):
    monkeypatch.setattr(rig.services.groups._shards[0], "state", ShardState.LOADING)
    answer = await ask(rig, ListGroupsRequest(), 5)
    assert (answer.error_code, answer.groups) == (14, [])


async def test_many_groups_are_sorted_a_few_per_step(rig, monkeypatch):
    monkeypatch.setattr(list_groups, "SORTED_PER_STEP", 2)
    for name in ("z", "c", "y", "b", "x"):
        await commit(rig, ("t", 0, 1), group_id=name)
    answer = await ask(rig, ListGroupsRequest(), 5)
    assert [group.group_id for group in answer.groups] == ["a", "b", "c", "g", "x", "y", "z"]
