"""Heirs: at the end of a history, one new member joins each group that had members, and gets all.

Everybody else has left, or is silent until its session ends. So the heir of a group must be alone
before long, with all partitions of the topics that it subscribes to. Then it leaves. Where the log
of groups may have no room for the record of so many partitions in a segment, none is asked for.
"""

from __future__ import annotations

from typing import Final

from protocol.messages.list_groups import ListGroupsRequest
from tests.simulation.clients.caller import Caller
from tests.simulation.clients.classic_members import ClassicMember
from tests.simulation.clients.consumer_members import CONSUMER_GROUPS, MIXED_GROUP, ConsumerMember
from tests.simulation.clients.described import describe_consumer_groups, describe_groups
from tests.simulation.clients.rude_members import PREFIX
from tests.simulation.clients.telling import PREFIX as STORY
from tests.simulation.context import Context
from tests.simulation.plan import ClientPlan
from tests.simulation.world import MS

LEFT_OUT: Final = (
    "simple-",  # groups that never have members begin so
    PREFIX,  # of these, what members say may be unreadable
    STORY,  # these have been judged
)
# Beyond all sessions of clients and the longest time that a group waits for a member.
BOUND_MS: Final = 40_000
BEAT_MS: Final = 400
SEGMENT_BYTES: Final = "internal.segment.bytes"
BYTES_A_PARTITION: Final = 64  # of the records of a group, at most, with the names of its topics


async def inherit(context: Context) -> list[str]:
    """Join each group, and leave it; return what is wrong."""
    caller = Caller(context, ClientPlan(name="heir", kind="heir", steps=0))
    found = []
    try:
        listed = await caller.ask(ListGroupsRequest())
        names = [] if listed is None else [group.group_id for group in listed.groups]
        for name in sorted(names):
            if name and not name.startswith(LEFT_OUT):  # commits may name "", members may not
                found += await _inherit(caller, name)
    finally:
        caller.wire.close()
    return found


async def _inherit(caller: Caller, group: str) -> list[str]:
    topics = await caller.look()
    if not topics:
        return []
    is_consumer = group in CONSUMER_GROUPS or (group == MIXED_GROUP and caller.chance(0.5))
    member = ConsumerMember(caller, group) if is_consumer else ClassicMember(caller, group)
    member.is_calm = True
    member.topics = [topic.name for topic in topics]
    wanted = sum(topic.count for topic in topics)
    segment_bytes = caller.context.plan.settings.get(SEGMENT_BYTES)
    if segment_bytes and wanted * BYTES_A_PARTITION > int(segment_bytes):
        return []
    config = caller.context.loaded.config
    bound_ms = BOUND_MS + max(
        config.group_consumer_session_timeout_ms, config.group_initial_rebalance_delay_ms
    )
    began_ns = caller.now_ns
    while True:
        if isinstance(member, ConsumerMember):
            member.regex, member.is_stubborn = None, False
        await member.step()
        if len(member.owned) == wanted:
            break
        if caller.now_ns - began_ns > bound_ms * MS:
            has = f"{len(member.owned)} partitions of {wanted} after {bound_ms} ms"
            return [f"a member of {group} that should be alone has {has}"]
        await caller.world.sleep_ms(BEAT_MS)
    await (describe_consumer_groups if is_consumer else describe_groups)(caller, [group])
    await member.leave()
    return []
