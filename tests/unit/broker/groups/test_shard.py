"""A shard: when its groups are served, and its end."""

import pytest

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.errors import GroupError
from broker.groups.shard import Shard, ShardState
from protocol.errors import ErrorCode
from tests.support.group_host import FakeHost


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (ShardState.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ShardState.REFUSED, ErrorCode.NOT_COORDINATOR),
        (ShardState.OFFLINE, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_groups_that_are_not_served_are_refused(state, code):
    shard = Shard(3)
    shard.check()
    shard.state = state
    assert not shard.is_served
    with pytest.raises(GroupError) as caught:
        shard.check()
    assert caught.value.code == code


def test_the_end_of_a_shard_ends_its_groups():
    shard = Shard(0)
    group = ClassicGroup("g", FakeHost())
    shard.registry.put(group)
    shard.drop()
    assert (shard.is_dropped, group.state_name, shard.registry.groups) == (True, "Dead", {})


def test_a_refused_shard_drops_its_groups():
    shard = Shard(0)
    shard.registry.put(ClassicGroup("g", FakeHost()))
    shard.deleted_topics.add("t")
    shard.refuse()
    assert (shard.is_served, shard.registry.groups, shard.deleted_topics) == (False, {}, set())
