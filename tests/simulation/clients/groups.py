"""The clients of groups: members of both protocols, committers without a group, administrators.

    classic member, consumer member, mixed member    see their modules
    committer     commits, reads and deletes offsets without being a member
    rude members  a party that makes mistakes (`tests.simulation.clients.rude_members`)
    group admin   lists, describes and deletes groups, removes members, asks odd things

`__consumer_offsets` should be small: `offsets.topic.num.partitions` 1 to 3, and small segments.
A group's session timeout must stay at least `group.consumer.session.timeout.ms`, which is what
members go by.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import SHARE, TRANSACTION, FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from tests.simulation.clients import classic_members, consumer_members, rude_members
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.committed import (
    Member,
    commit,
    delete_groups,
    delete_offsets,
    fetch,
)
from tests.simulation.clients.described import describe_consumer_groups, describe_groups
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan

SIMPLE_GROUPS: Final = ("simple-0", "simple-1", "simple-2")
MEMBER_GROUPS: Final = ("classic-0", "classic-1", "consumer-0", "consumer-1", "mixed")
GROUPS: Final = (*SIMPLE_GROUPS, *MEMBER_GROUPS)
ODD_GROUPS: Final = ("", "nobody's", "g" * 300, "\N{SNOWMAN}")
STATES: Final = ("Empty", "Stable", "Reconciling", "no state")
TYPES: Final = ("classic", "consumer", "share")
FILTERS: Final = 4  # the first version of ListGroups with filters by state
TYPE_FILTERS: Final = 5


async def run_committer(context: Context, plan: ClientPlan) -> None:
    """Commit without being a member."""
    caller = Caller(context, plan)
    group = caller.rng.choice(SIMPLE_GROUPS)
    for number in caller.steps:
        if number == 0 or caller.chance(0.05):
            body = FindCoordinatorRequest(key=group, coordinator_keys=[group])
            await caller.ask(body, what=group)
        places = await caller.some_partitions()
        chance = caller.rng.random()
        if not places:
            await caller.look()
        elif chance < 0.5:
            await commit(caller, group, places)
        elif chance < 0.85:
            await fetch(caller, caller.rng.sample(GROUPS, caller.rng.randint(1, 3)), places)
        elif chance < 0.9:
            # Refused while the group has members; an unknown one is refused always.
            member = caller.rng.choice((Member(), Member("nobody", 3), Member("", 1)))
            await commit(caller, caller.rng.choice(MEMBER_GROUPS), places, member)
        elif chance < 0.95:
            await delete_offsets(caller, caller.rng.choice(GROUPS), places[:2])
        else:
            await delete_groups(caller, [group])
        await caller.pause()
    caller.wire.close()


async def run_admin(context: Context, plan: ClientPlan) -> None:
    """Look at groups, and sometimes remove what has no members."""
    caller = Caller(context, plan)
    acts = (_list, _describe, _describe, _describe, _describe, _odd)
    for _ in caller.steps:
        chance = caller.rng.random()
        if chance < 0.08:
            await delete_groups(caller, caller.rng.sample(GROUPS, caller.rng.randint(1, 2)))
        elif chance < 0.14:
            group = caller.rng.choice(GROUPS)
            await delete_offsets(caller, group, await caller.some_partitions())
        elif chance < 0.17:
            await _remove_members(caller)
        else:
            await caller.rng.choice(acts)(caller)
        await caller.pause()
    caller.wire.close()


async def _list(caller: Caller) -> None:
    version = caller.version_of(ListGroupsRequest)
    states = caller.rng.sample(STATES, caller.rng.choice((0, 0, 1, 2)))
    types = caller.rng.sample(TYPES, caller.rng.choice((0, 0, 1)))
    body = ListGroupsRequest(states_filter=states, types_filter=types)
    answer = await caller.ask(body, version)
    if answer is None or answer.error_code:
        return
    names = [group.group_id for group in answer.groups]
    if len(set(names)) != len(names):
        caller.record.fail(caller.name, f"a group is listed twice: {sorted(names)}")
    for group in answer.groups:
        is_other_state = states and version >= FILTERS and group.group_state not in states
        is_other_type = types and version >= TYPE_FILTERS and group.group_type not in types
        if is_other_state or is_other_type:
            caller.record.fail(
                caller.name,
                f"{group.group_id} of state {group.group_state} and type {group.group_type} is "
                f"listed for states {states} and types {types}",
            )


async def _describe(caller: Caller) -> None:
    names = caller.rng.sample(GROUPS, caller.rng.randint(1, 4))
    await caller.rng.choice((describe_groups, describe_consumer_groups))(caller, names)


async def _remove_members(caller: Caller) -> None:
    """Remove static members of a classic group, as an administrator does."""
    body = LeaveGroupRequest(
        group_id=caller.rng.choice(("classic-0", "classic-1")),
        members=[
            MemberIdentity(member_id="", group_instance_id=f"static-{number}")
            for number in range(caller.rng.randint(1, 3))
        ],
    )
    await caller.ask(body, caller.version_of(LeaveGroupRequest, 3))


async def _odd(caller: Caller) -> None:
    """Ask what nobody should ask."""
    group = caller.rng.choice(ODD_GROUPS)
    body: Any = caller.rng.choice(
        (
            FindCoordinatorRequest(key=group, coordinator_keys=[group, "simple-0", group]),
            FindCoordinatorRequest(key=group, key_type=TRANSACTION, coordinator_keys=[group]),
            FindCoordinatorRequest(key=group, key_type=SHARE, coordinator_keys=[group]),
            HeartbeatRequest(group_id=group, generation_id=7, member_id="nobody"),
            LeaveGroupRequest(group_id=group, member_id="nobody"),
            DescribeGroupsRequest(groups=[group, group]),
            ConsumerGroupDescribeRequest(group_ids=[group, group]),
        )
    )
    is_keyed = isinstance(body, FindCoordinatorRequest) and body.key_type
    await caller.ask(body, caller.version_of(type(body), 1 if is_keyed else 0))


KINDS: Final[dict[str, Callable[[Context, ClientPlan], Coroutine[Any, Any, None]]]] = {
    "classic member": classic_members.run,
    "consumer member": consumer_members.run,
    "mixed member": consumer_members.run_mixed,
    "committer": run_committer,
    "group admin": run_admin,
    "rude members": rude_members.run,
}
