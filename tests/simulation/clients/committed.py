"""Committing, reading and deleting offsets of groups, in all versions, noted as events.

Offsets are drawn from 40 bits, so that no two commits of a history have the same. Their metadata
are drawn too; seldom they are too long and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.simulation.clients.caller import Caller, Topic
from tests.simulation.group_events import Commit, Fetched, Removed

OFFSET_BITS: Final = 40
BY_ID: Final = 10  # the version of OffsetCommit and OffsetFetch that names topics by id
MANY_GROUPS: Final = 8
TOO_LONG: Final = ("x" * 5_000, "\U0001f600" * 3_000)  # for offset.metadata.max.bytes, in UTF-16
RETENTIONS_MS: Final = (-1, -1, -1, -1, 0, 5_000, 2**63 - 1)
Place = tuple[Topic, int]


class Member(NamedTuple):
    """Who commits: a member id with its generation or epoch; the default is nobody."""

    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


NOBODY: Final = Member()


async def commit(
    caller: Caller, group: str, places: Sequence[Place], member: Member = NOBODY, lowest: int = 0
) -> set[int]:
    """Commit a new offset for each place; return the codes, none if no answer came."""
    lowest = max(lowest, 7 if member.instance_id else 0)
    version = caller.version_of(OffsetCommitRequest, lowest)
    retention_ms = caller.rng.choice(RETENTIONS_MS) if version <= 4 else -1
    events = {}
    for topic, number in places:
        offset = caller.rng.getrandbits(OFFSET_BITS)
        metadata = f"{offset:x}"[:1] * caller.rng.choice((0, 3, 40))
        if caller.chance(0.01):
            metadata = caller.rng.choice(TOO_LONG)
        events[topic.topic_id, topic.name, number] = Commit(
            who=caller.name,
            group=group,
            began_ns=caller.now_ns,
            topic=topic.name,
            topic_id=topic.topic_id.hex(),
            partition=number,
            offset=offset,
            metadata=metadata,
            member_id=member.member_id,
            epoch=member.epoch,
            retention_ms=retention_ms,
        )
    body = _commit_body(group, member, retention_ms, events, by_id=version >= BY_ID)
    caller.record.group_events += events.values()
    answer = await caller.ask(body, version, what=f"{group} {member.epoch}")
    if answer is None:
        return set()
    by_id = {(key[0], key[2]): event for key, event in events.items()}
    by_name = {(key[1], key[2]): event for key, event in events.items()}
    codes = set()
    for topic in answer.topics:
        for one in topic.partitions:
            key = one.partition_index
            event = by_id.get((topic.topic_id, key)) if version >= BY_ID else None
            event = event or by_name.get((getattr(topic, "name", ""), key))
            if event is None:
                caller.record.fail(caller.name, f"{group}: an answer to no commit: {topic}")
                continue
            event.answered(caller.now_ns, one.error_code)
            caller.record.told(event)
            codes.add(one.error_code)
            if one.error_code == 0 and event.metadata in TOO_LONG:
                caller.record.fail(caller.name, f"{group}: metadata that is too long was taken")
    if any(event.code is None for event in events.values()):
        caller.record.fail(caller.name, f"{group}: not all commits are answered")
    return codes


def _commit_body(
    group: str,
    member: Member,
    retention_ms: int,
    events: dict[tuple[bytes, str, int], Commit],
    *,
    by_id: bool,
) -> OffsetCommitRequest:
    topics: dict[bytes, OffsetCommitRequestTopic] = {}
    for (topic_id, name, number), event in events.items():
        topic = topics.setdefault(topic_id, OffsetCommitRequestTopic())
        if by_id:
            topic.topic_id = topic_id
        else:
            topic.name = name
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=event.offset,
                committed_metadata=event.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        retention_time_ms=retention_ms,
        topics=list(topics.values()),
    )


async def fetch(
    caller: Caller, groups: Sequence[str], places: Sequence[Place], member: Member = NOBODY
) -> int:
    """Read offsets of groups (the first one before version 8); return the first error, or 0."""
    version = caller.version_of(OffsetFetchRequest)
    wants_all = version >= 2 and caller.chance(0.2)
    if caller.chance(0.2):  # what is named again is answered once
        places = [*places, *places[:1]]
    stable = caller.chance(0.3)
    if version < MANY_GROUPS:
        named = [
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=[number])
            for topic, number in places
        ]
        body = OffsetFetchRequest(
            group_id=groups[0], topics=None if wants_all else named, require_stable=stable
        )
    else:
        body = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group,
                    member_id=member.member_id or None,
                    member_epoch=member.epoch if member.member_id else -1,
                    topics=None if wants_all else _asked(places, by_id=version >= BY_ID),
                )
                for group in groups
            ],
            require_stable=stable,
        )
    began_ns = caller.now_ns
    answer = await caller.ask(body, version, what=",".join(groups))
    if answer is None:
        return 0
    answers = answer.groups if version >= MANY_GROUPS else [answer]
    names = {topic.topic_id: topic.name for topic in caller.known}
    names |= {topic.topic_id: topic.name for topic, _ in places}
    first = 0
    for one, group in zip(answers, groups, strict=False):
        first = first or one.error_code
        if one.error_code == 0:
            _saw(caller, getattr(one, "group_id", "") or group, one.topics, began_ns, names)
    return int(first)


def _asked(places: Iterable[Place], *, by_id: bool) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(topic_id=topic.topic_id, partition_indexes=[number])
        if by_id
        else OffsetFetchRequestTopics(name=topic.name, partition_indexes=[number])
        for topic, number in places
    ]


def _saw(
    caller: Caller, group: str, topics: Sequence[Any], began_ns: int, names: dict[bytes, str]
) -> None:
    told = [
        (getattr(topic, "name", ""), getattr(topic, "topic_id", b""), one.partition_index)
        for topic in topics
        for one in topic.partitions
        if one.error_code == 0
    ]
    if len(set(told)) != len(told):
        caller.record.fail(caller.name, f"{group}: an offset is told twice: {told}")
    for topic in topics:
        name = getattr(topic, "name", "") or names.get(topic.topic_id)
        for one in topic.partitions:
            if one.error_code == 0 and name:
                event = Fetched(
                    who=caller.name,
                    group=group,
                    began_ns=began_ns,
                    ended_ns=caller.now_ns,
                    code=0,
                    topic=name,
                    partition=one.partition_index,
                    offset=one.committed_offset,
                    metadata=one.metadata or "",
                )
                caller.record.group_events.append(event)
                caller.record.told(event)


async def delete_offsets(caller: Caller, group: str, places: Sequence[Place]) -> None:
    """Delete offsets of a group."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=number)]
        )
        for topic, number in places
    ]
    events = {
        (topic.name, number): Removed(
            who=caller.name,
            group=group,
            began_ns=caller.now_ns,
            topic=topic.name,
            partition=number,
        )
        for topic, number in places
    }
    caller.record.group_events += events.values()
    answer = await caller.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0, what=group)
    if answer is None:
        return
    for event in events.values():
        event.answered(caller.now_ns, answer.error_code)
    for topic in () if answer.error_code else answer.topics:
        for one in topic.partitions:
            events[topic.name, one.partition_index].answered(caller.now_ns, one.error_code)


async def delete_groups(caller: Caller, groups: Sequence[str]) -> None:
    """Delete groups; those with members stay."""
    events = {
        group: Removed(who=caller.name, group=group, began_ns=caller.now_ns, is_group=True)
        for group in groups
    }
    caller.record.group_events += events.values()
    answer = await caller.ask(DeleteGroupsRequest(groups_names=list(events)), what=str(groups))
    for one in answer.results if answer is not None else ():
        events[one.group_id].answered(caller.now_ns, one.error_code)
