"""Restored groups: what the log of groups tells the next start is what this broker had in memory.

When a broker has stopped, or was killed between two steps, its groups are compared with those that
loading its files would give. So nothing is answered from memory that the log does not hold, and no
record of the log is another than the one that was answered.

    offsets           the same, committed and pending ones
    consumer groups   the same in all of their state; no partition is with two members
    classic groups    the same generation, members and assignments in Stable and Empty; no later
                      generation otherwise, since one that is not stable yet ends with the process

`listening` notes the groups of brokers that stop, which let them go on their way. What is in the
page cache counts as written: of a power cut, other judges know more. A partition that is being
compacted at a kill is left out, and so is a log that has failed.

A marker is in the log before readers see what it ends: not before the decision is durable, too. Nor
is the memory told of a marker that a stop writes when its groups have gone already. Of such markers
the log knows, and the memory is judged as it would be with them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.state import ConsumerState
from broker.groups.coordinator import Coordinator
from broker.groups.group_log import partition_of
from broker.groups.registry import Registry
from broker.groups.replay import Replayer, read_chunk
from broker.groups.states import ClassicGroupState
from broker.server import Broker
from storage.errors import StorageError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.log import Log
from tests.support.group_host import FakeHost
from tests.support.memory_inodes import Directory, Inode

GROUPS: Final = "__consumer_offsets"
COMPACTING: Final = ("." + filenames.CLEANED, "." + filenames.SWAP)
LISTED: Final = 5


class Classic(NamedTuple):
    """What a classic group has agreed on."""

    state: str
    generation: int
    since_ms: int | None
    protocol: tuple[str | None, str | None]
    leader: str | None
    members: dict[str, tuple[str | None, bytes]]  # instance id and assignment


class Held(NamedTuple):
    """The groups and the offsets of one partition."""

    classic: dict[str, Classic]
    consumer: dict[str, dict[str, Any]]
    offsets: dict[str, Any]
    pending: dict[int, Any]  # by producer id
    unsettled_from: int | None = None  # offset of the first marker that memory is not told of yet


Notes = dict[int, Held]  # by partition


@contextmanager
def listening(notes: Notes) -> Iterator[None]:
    """Note what a broker that stops holds, before it lets its groups go."""
    unload = Coordinator._unload

    def noted(coordinator: Coordinator) -> None:
        if coordinator._stopped:
            notes.clear()
            notes.update(held(coordinator))
        unload(coordinator)

    with patch.object(Coordinator, "_unload", noted):
        yield


def of_broker(broker: Broker) -> Notes:
    """Return what a broker that was killed had in memory."""
    services = broker._assembly.services
    return held(services.groups) if services.has_groups else {}


def held(coordinator: Coordinator) -> Notes:
    """Return what a coordinator has in memory, of partitions that are served and written."""
    return {
        shard.number: _of(shard.registry)._replace(
            unsettled_from=_unsettled_from(coordinator.log.partition(shard.number).log)
        )
        for shard in coordinator._shards
        if shard.is_served and _is_sound(coordinator, shard.number)
    }


def _unsettled_from(log: Log) -> int:
    return log.end_offset if log.unsettled_from is None else log.unsettled_from


def _is_sound(coordinator: Coordinator, number: int) -> bool:
    try:
        return coordinator.log.partition(number).log.failed is None
    except StorageError:
        return False


def _of(registry: Registry) -> Held:
    groups = registry.groups
    return Held(
        {
            name: _classic(group)
            for name, group in groups.items()
            if isinstance(group, ClassicGroup)
        },
        {
            name: _fields(group.state)
            for name, group in groups.items()
            if isinstance(group, ConsumerGroup)
        },
        {
            name: {topic: dict(of) for topic, of in topics.items() if of}
            for name, topics in registry.offsets._groups.items()
            if any(topics.values())
        },
        copy.deepcopy(dict(registry.offsets.pending.producers())),
    )


def _classic(group: ClassicGroup) -> Classic:
    generation = group.generation
    return Classic(
        generation.state.value,
        generation.generation_id,
        generation.state_since_ms,
        (generation.protocol_type, generation.protocol_name),
        generation.roster.leader_id,
        {
            member.member_id: (member.instance_id, bytes(member.assignment))
            for member in generation.roster
        },
    )


def _fields(state: ConsumerState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in ConsumerState.__slots__}


def judge(notes: Mapping[int, Held], data: Directory) -> list[str]:
    """Return where the files below `data` tell of other groups than the notes."""
    found: list[str] = []
    count = len([name for name in data.live if _is_of_groups(name)])
    for number, before in sorted(notes.items()):
        logs = _logs(data, f"{GROUPS}-{number}")
        if logs is not None:
            found += compare(settled(before, logs), _of(_loaded(logs, number, count)))
            found += [text for state in before.consumer.values() for text in _shared(state)]
    return found[:LISTED]


def _is_of_groups(name: str) -> bool:
    parsed = filenames.parse(name)
    return parsed is not None and parsed.kind is Kind.PARTITION and parsed.topic == GROUPS


def _logs(data: Directory, name: str) -> list[bytes] | None:
    """Return the segments of a partition in order; None if a compaction is under way."""
    partition = data.live.get(name)
    if not isinstance(partition, Directory):
        return None
    if any(file.endswith(COMPACTING) for file in partition.live):
        return None
    found = []
    for file in sorted(partition.live):
        node = partition.live[file]
        if file.endswith("." + filenames.LOG) and isinstance(node, Inode):
            found.append(bytes(node.live))
    return found


def _loaded(logs: list[bytes], number: int, count: int) -> Registry:
    registry = Registry()
    host = FakeHost()
    replayer = Replayer(registry, host, lambda group: partition_of(group, count) == number)
    for log in logs:
        for _ in replayer.apply(read_chunk(log)):
            pass
    return registry


def settled(held: Held, logs: Sequence[bytes]) -> Held:
    """Return what was held, with what the markers end that readers do not see yet."""
    if held.unsettled_from is None:
        return held
    changed = copy.deepcopy(held)
    for batch in chain.from_iterable(map(read_chunk, logs)):
        marker_offset = batch.next_offset - 1
        if batch.is_commit is not None and marker_offset >= held.unsettled_from:
            _end(changed, batch.producer_id, marker_offset, is_commit=batch.is_commit)
    return changed


def _end(held: Held, producer_id: int, marker_offset: int, *, is_commit: bool) -> None:
    ended = [
        (group, topic, partition, committed)
        for group, topics in held.pending.get(producer_id, {}).items()
        for topic, of in topics.items()
        for partition, committed in of.items()
    ]
    if not ended or ended[0][3].record_offset > marker_offset:
        return  # seen already: this is the next transaction
    del held.pending[producer_id]
    for group, topic, partition, committed in ended if is_commit else ():
        known = held.offsets.setdefault(group, {}).setdefault(topic, {})
        before = known.get(partition)
        if before is None or before.record_offset < committed.record_offset:
            known[partition] = committed


def compare(before: Held, after: Held) -> Iterator[str]:
    """Yield what a start would load otherwise."""
    for name in sorted(before.offsets.keys() | after.offsets.keys()):
        had, has = before.offsets.get(name), after.offsets.get(name)
        if had != has:
            yield f"the offsets of {name} were {had}, the log has {has}"
    for producer in sorted(before.pending.keys() | after.pending.keys()):
        had, has = before.pending.get(producer), after.pending.get(producer)
        if had != has:
            yield f"producer {producer} had the pending offsets {had}, the log has {has}"
    for name in sorted(before.consumer.keys() | after.consumer.keys()):
        had, has = before.consumer.get(name), after.consumer.get(name)
        if had is None or has is None:
            where = "log" if had is None else "memory"
            yield f"{name}: a consumer group is in the {where} only: {had or has}"
            continue
        for field, value in had.items():
            if value != has[field]:
                yield f"{name}: {field} was {value}, the log has {has[field]}"
    for name in sorted(before.classic.keys() | after.classic.keys()):
        yield from _compare_classic(name, before.classic.get(name), after.classic.get(name))


def _compare_classic(name: str, had: Classic | None, has: Classic | None) -> Iterator[str]:
    if had is None:
        yield f"{name}: a classic group is in the log only: {has}"
    elif has is None:
        # One that has never held more than offsets has no record of its own.
        if had.generation or had.state != ClassicGroupState.EMPTY:
            yield f"{name}: a classic group is in memory only: {had}"
    elif not _fits(had, has):
        yield f"{name} was {had}, the log has {has}"


def _fits(had: Classic, has: Classic) -> bool:
    if had.state == ClassicGroupState.STABLE:  # since when is not in the record
        return had._replace(since_ms=None) == has._replace(since_ms=None)
    if had.state == ClassicGroupState.EMPTY:
        return (had.generation, had.since_ms, {}) == (has.generation, has.since_ms, has.members)
    return has.generation <= had.generation


def _shared(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield partitions with two members, or with two that shall have them."""
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, member in state["members"].items():
        for held_now in (member.assigned, member.pending_revocation):
            for place in ((topic, number) for topic, of in held_now.items() for number in of):
                other = owners.setdefault(place, member_id)
                if other != member_id:
                    yield f"{state['group_id']}: {member_id} has {place}, and so does {other}"
    if owners != state["owners"]:
        yield f"{state['group_id']}: its owners are {state['owners']}, expected {owners}"
    targets: dict[tuple[bytes, int], str] = {}
    for member_id, target in state["targets"].items():
        for place in ((topic, number) for topic, of in target.items() for number in of):
            other = targets.setdefault(place, member_id)
            if other != member_id:
                yield f"{state['group_id']}: {member_id} shall have {place}, and so shall {other}"
