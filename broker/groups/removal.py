"""Removes offsets and groups: expired ones, and those that a client deletes.

Offsets expire by `offsets.retention.minutes`. A group without members is removed with its last
offset (KIP-211). DeleteGroups and OffsetDelete are answered when the removal is durable.

A group may have 100,000 offsets, so they are removed in turns of the loop (I13). While a group is
deleted, its requests are refused with COORDINATOR_LOAD_IN_PROGRESS: clients try again, and none
sees a part of the offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from broker.groups.coordinator import Coordinator, check_id
from broker.groups.errors import GroupError
from broker.groups.forgetting import TURN_UNITS, UNITS_PER_BATCH
from broker.groups.group import Group
from broker.groups.offsets import tombstone
from broker.groups.registry import Registry
from protocol.errors import ErrorCode

logger = logging.getLogger("barnabas.groups")

MINUTE_MS = 60_000
PLACES_A_UNIT: Final = 10  # so many offsets that stay are as much work as one tombstone


class _Turns:
    """Lets other tasks run when a turn's work is done."""

    def __init__(self) -> None:
        self._units = 0

    async def spend(self, units: int) -> None:
        """Count work; sleep if this turn has done enough."""
        self._units += units
        if self._units >= TURN_UNITS:
            self._units = 0
            await asyncio.sleep(0)


async def expire_offsets(groups: Coordinator) -> None:
    """Remove expired offsets, and groups that have neither members nor offsets left."""
    now_ms = groups.clock.now_ms()
    retention_ms = groups.config.offsets_retention_minutes * MINUTE_MS
    turns = _Turns()
    for group in list(groups.groups()):
        await turns.spend(UNITS_PER_BATCH)
        group_id = group.group_id
        registry = _registry_with(groups, group)
        if registry is None:
            continue
        places = registry.offsets.places(group_id)
        while registry is not None and (piece := list(islice(places, TURN_UNITS))):
            expiry = group.expiry()
            if expiry is None:
                break
            read = group.is_subscribed_to
            records = registry.offsets.expired(group_id, piece, expiry, read, now_ms, retention_ms)
            if not groups.remove_offsets(registry, group_id, records):
                break
            await turns.spend(len(piece) // PLACES_A_UNIT + len(records))
            registry = _registry_with(groups, group)
        if registry is not None and group.is_empty and not registry.offsets.has_group(group_id):
            _remove(groups, registry, group)


def _registry_with(groups: Coordinator, group: Group) -> Registry | None:
    """Return the registry of a group; None if the group was removed or replaced in a sleep."""
    try:
        registry = groups.registry_of(group.group_id)
    except GroupError:
        return None
    return registry if registry.get(group.group_id) is group else None


async def delete_groups(groups: Coordinator, group_ids: Sequence[str]) -> list[ErrorCode]:
    """Delete groups without members and their offsets; return when the removal is durable.

    Offsets of open transactions are deleted, too. Their commit brings none back.
    """
    turns = _Turns()
    codes: dict[str, ErrorCode] = {}
    numbers: dict[str, int] = {}  # of the partitions of deleted groups
    for group_id in group_ids:
        codes[group_id] = await _delete(groups, group_id, turns)
        if not codes[group_id]:
            numbers[group_id] = groups.partition_of(group_id)
        await turns.spend(1 if codes[group_id] else UNITS_PER_BATCH)
    one_of = {number: group_id for group_id, number in numbers.items()}
    durable = await asyncio.gather(*(_durable(groups, group_id) for group_id in one_of.values()))
    code_of = dict(zip(one_of, durable, strict=True))
    return [codes[group_id] or code_of[numbers[group_id]] for group_id in group_ids]


async def _delete(groups: Coordinator, group_id: str, turns: _Turns) -> ErrorCode:
    """Write the tombstones of a group; return its code if that has failed."""
    try:
        registry = groups.registry_of(group_id)
        group = registry.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        group.check_delete()
    except GroupError as error:
        return error.code
    registry.being_deleted.add(group_id)
    try:
        while records := list(islice(registry.offsets.tombstones(group_id), TURN_UNITS)):
            if not groups.remove_offsets(registry, group_id, records):
                return ErrorCode.NOT_COORDINATOR
            await turns.spend(UNITS_PER_BATCH + len(records))
            if all(one is not registry for one in groups.registries()):  # the topic was deleted
                return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if _remove(groups, registry, group) else ErrorCode.NOT_COORDINATOR
    finally:
        registry.being_deleted.discard(group_id)


async def delete_offsets(
    groups: Coordinator, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]
) -> dict[str, ErrorCode]:
    """Delete offsets, also of open transactions; return each topic's code when that is durable.

    Raises GroupError for the request as a whole.
    """
    check_id(group_id)
    turns = _Turns()
    places = ((name, number) for name, numbers in topics for number in numbers)
    read: dict[str, bool] = {}  # of each topic, once it has been begun
    has_written = False
    while True:
        try:
            registry, group = _to_delete_of(groups, group_id)
        except GroupError as error:
            if has_written:  # no refusal, since offsets are gone: clients try again
                raise GroupError(ErrorCode.NOT_COORDINATOR) from error
            raise
        piece = dict.fromkeys(islice(places, TURN_UNITS))
        for name, _ in piece:
            if name not in read:
                read[name] = group.is_subscribed_to(name)
        tombstones = [
            tombstone(group_id, name, number)
            for name, number in piece
            if not read[name] and registry.offsets.has(group_id, name, number)
        ]
        if not groups.remove_offsets(registry, group_id, tombstones):
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        has_written = has_written or bool(tombstones)
        if not piece:
            break
        await turns.spend(len(piece) // PLACES_A_UNIT + len(tombstones))
    code = await _durable(groups, group_id) if has_written else ErrorCode.NONE
    return {
        name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if read.get(name) else code for name, _ in topics
    }


def _to_delete_of(groups: Coordinator, group_id: str) -> tuple[Registry, Group]:
    """Return a group of which offsets may be deleted. Raises GroupError."""
    registry = groups.registry_of(group_id)
    group = registry.get(group_id)
    if group is None:
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
    group.check_offset_delete()
    return registry, group


async def _durable(groups: Coordinator, group_id: str) -> ErrorCode:
    future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    try:
        groups.when_durable(group_id, future.set_result)
    except GroupError as error:  # the broker stops, or the topic was deleted
        return error.code
    return await future


def _remove(groups: Coordinator, registry: Registry, group: Group) -> bool:
    """Remove a group without members and offsets; return whether its tombstones were written."""
    try:
        groups.write(group.group_id, group.tombstones())
    except GroupError as error:
        logger.warning(
            "group %(group)s: not removed: %(error)s", {"group": group.group_id, "error": error}
        )
        return False
    registry.remove(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    return True
