"""OffsetFetch: DESCRIBE on each group, and on each topic of it.

If all offsets of a group are asked for, those of topics without the right are left out.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import GROUP, TOPIC, Each, Whole
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

MANY_GROUPS_VERSION: Final = 8
TOPIC_ID_VERSION: Final = 10
NO_OFFSET: Final = -1
GROUPS_PER_TURN: Final = 50
NEED_OF_GROUP: Final = (Need(GROUP, AclOperation.DESCRIBE),)
NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
ONE_GROUP: Final = Whole(NEED_OF_GROUP, "group_id")
EACH_GROUP: Final = Each(NEED_OF_GROUP, "groups", "groups", "group_id")

# Of a group's entries, by what is left of each: the handler answers the same once.
Refusals = dict[Hashable, dict[Hashable, OffsetFetchResponseTopics]]
LINES: Final = (
    (
        "GROUP DESCRIBE",
        "GROUP_AUTHORIZATION_FAILED for the group",
    ),
    (
        "TOPIC DESCRIBE",
        "TOPIC_AUTHORIZATION_FAILED for the topic's partitions; left out if all are asked for",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse groups and topics."""
    if asking.request.header.api_version < MANY_GROUPS_VERSION:
        return (yield from _ask_for_one(asking))
    refused = yield from EACH_GROUP.ask(asking)
    if refused is not None:
        return refused
    body: OffsetFetchRequest = asking.request.body
    groups: list[OffsetFetchRequestGroup] = []
    refusals: dict[str, Refusals] = {}
    for at, group in enumerate(body.groups):
        kept, topics = yield from _sorted_out(asking, group)
        groups.append(kept)
        if at % GROUPS_PER_TURN == GROUPS_PER_TURN - 1:
            yield
        of_group = refusals.setdefault(group.group_id, {})
        key = _key(kept)
        # In the order of the handler: that of the last entry of those that are the same.
        of_group[key] = of_group.pop(key, {}) | topics
    asking.narrow(groups=groups)
    asking.later.append(lambda answer: _completed(asking, answer, refusals))
    return None


def _key(group: OffsetFetchRequestGroup) -> Hashable:
    topics = group.topics
    return (
        group.member_id,
        group.member_epoch,
        None if topics is None else tuple(map(_key_of_topic, topics)),
    )


def _key_of_topic(topic: OffsetFetchRequestTopics) -> Hashable:
    return topic.name, topic.topic_id, *topic.partition_indexes


def _sorted_out(
    asking: Asking, group: OffsetFetchRequestGroup
) -> Generator[
    None, None, tuple[OffsetFetchRequestGroup, dict[Hashable, OffsetFetchResponseTopics]]
]:
    """Return a group's entry with what may be answered, and the answers for the rest."""
    kept = []
    refused: dict[Hashable, OffsetFetchResponseTopics] = {}
    for at, topic in enumerate(group.topics or ()):
        name = _name(asking, topic)
        if name is None or asking.allows(NEED, name):
            kept.append(topic)
        else:
            asking.log(NEED, name)
            refused[_key_of_topic(topic)] = OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=NO_OFFSET,
                        error_code=DENIED[TOPIC],
                    )
                    for number in topic.partition_indexes
                ],
            )
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    return (group if group.topics is None else replace(group, topics=kept)), refused


def _name(asking: Asking, topic: Any) -> str | None:
    if asking.request.header.api_version >= TOPIC_ID_VERSION:
        return asking.name_of(topic.topic_id)
    name: str = topic.name
    return name


def _completed(
    asking: Asking, answer: OffsetFetchResponse, refusals: dict[str, Refusals]
) -> Generator[int, None, Any]:
    left = {group_id: iter(entries.values()) for group_id, entries in refusals.items()}
    for group in answer.groups:
        topics = next(left[group.group_id], {})
        if not group.error_code:
            yield from _filtered(asking, group)
            group.topics += topics.values()
        yield 0
    return answer


def _filtered(asking: Asking, group: OffsetFetchResponseGroup) -> Generator[int, None, None]:
    """Leave out topics that the client may not describe: all may have been asked for."""
    kept = []
    for topic in group.topics:
        name = _name(asking, topic)
        if name is None or asking.allows(NEED, name):
            kept.append(topic)
        yield 0
    group.topics = kept


def _ask_for_one(asking: Asking) -> Generator[None, None, Refused | None]:
    """Ask for the one group of older versions."""
    refused: Refused | None = yield from ONE_GROUP.ask(asking)
    if refused is not None:
        return refused
    body: OffsetFetchRequest = asking.request.body
    kept = []
    denied: list[OffsetFetchResponseTopic] = []
    for at, topic in enumerate(body.topics or ()):
        if asking.allows(NEED, topic.name):
            kept.append(topic)
        else:
            asking.log(NEED, topic.name)
            denied.append(
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=number,
                            committed_offset=NO_OFFSET,
                            error_code=DENIED[TOPIC],
                        )
                        for number in topic.partition_indexes
                    ],
                )
            )
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    if denied:
        asking.narrow(topics=kept)
    if denied or body.topics is None:
        asking.later.append(lambda answer: _completed_one(asking, answer, denied))
    return None


def _completed_one(
    asking: Asking, answer: OffsetFetchResponse, denied: Sequence[OffsetFetchResponseTopic]
) -> Generator[int, None, Any]:
    if not answer.error_code:
        kept = []
        for topic in answer.topics:
            if asking.allows(NEED, topic.name):
                kept.append(topic)
            yield 0
        answer.topics = [*kept, *denied]
    return answer
