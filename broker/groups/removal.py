"""Removes offsets and groups: expired ones, and those that a client deletes.

Offsets expire by `offsets.retention.minutes`. A group without members is removed with its last
offset (KIP-211). DeleteGroups and OffsetDelete are answered when the removal is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from broker.groups.coordinator import Coordinator, check_id
from broker.groups.errors import GroupError
from broker.groups.forgetting import TURN_UNITS, UNITS_PER_BATCH
from broker.groups.group import Group
from broker.groups.offsets import tombstone
from protocol.errors import ErrorCode

logger = logging.getLogger("barnabas.groups")

MINUTE_MS = 60_000


async def expire_offsets(groups: Coordinator) -> None:
    """Remove expired offsets, and groups that have neither members nor offsets left."""
    now_ms = groups.clock.now_ms()
    retention_ms = groups.config.offsets_retention_minutes * MINUTE_MS
    units = 0
    for group in list(groups.groups()):
        if units >= TURN_UNITS:
            await asyncio.sleep(0)
            units = 0
        group_id = group.group_id
        try:
            registry = groups.registry_of(group_id)
        except GroupError:
            continue  # the topic was deleted during a sleep
        expiry = group.expiry()
        if expiry is None or registry.get(group_id) is not group:
            continue  # the group was removed or replaced
        offsets = registry.offsets
        records = offsets.expired(group_id, expiry, group.is_subscribed_to, now_ms, retention_ms)
        count = sum(map(len, offsets.topics(group_id).values()))
        units += UNITS_PER_BATCH + count // 10 + len(records)
        is_pending = offsets.pending.has_group(group_id)
        is_over = len(records) == count and group.is_empty and not is_pending
        if groups.remove_offsets(registry, group_id, records) and is_over:
            _remove(groups, group)


async def delete_group(groups: Coordinator, group_id: str) -> ErrorCode:
    """Delete a group without members and its offsets; return when the removal is durable.

    Offsets of open transactions are deleted, too. Their commit brings none back.
    """
    try:
        registry = groups.registry_of(group_id)
        group = registry.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        group.check_delete()
    except GroupError as error:
        return error.code
    if not groups.remove_offsets(registry, group_id, registry.offsets.tombstones(group_id)):
        return ErrorCode.NOT_COORDINATOR
    if not _remove(groups, group):
        return ErrorCode.NOT_COORDINATOR
    return await _durable(groups, group_id)


async def delete_offsets(
    groups: Coordinator, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]
) -> dict[str, ErrorCode]:
    """Delete offsets, also of open transactions; return each topic's code when that is durable.

    Raises GroupError for the request as a whole.
    """
    check_id(group_id)
    registry = groups.registry_of(group_id)
    group = registry.get(group_id)
    if group is None:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
    group.check_offset_delete()
    read = {name for name, _ in topics if group.is_subscribed_to(name)}
    named = dict.fromkeys((name, number) for name, numbers in topics for number in numbers)
    tombstones = [
        tombstone(group_id, name, number)
        for name, number in named
        if name not in read and registry.offsets.has(group_id, name, number)
    ]
    if not groups.remove_offsets(registry, group_id, tombstones):
        raise GroupError(ErrorCode.NOT_COORDINATOR)
    code = await _durable(groups, group_id) if tombstones else ErrorCode.NONE
    return {
        name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name in read else code for name, _ in topics
    }


async def _durable(groups: Coordinator, group_id: str) -> ErrorCode:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    groups.when_durable(group_id, future.set_result)
    return await future


def _remove(groups: Coordinator, group: Group) -> bool:
    """Remove a group without members and offsets; return whether its tombstones were written."""
    try:
        groups.write(group.group_id, group.tombstones())
    except GroupError as error:
        logger.warning(
            "group %(group)s: not removed: %(error)s", {"group": group.group_id, "error": error}
        )
        return False
    groups.registry_of(group.group_id).remove(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    return True
