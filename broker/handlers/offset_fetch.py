"""OffsetFetch, API key 9, versions 1-10.

Behaviour
- A partition without a committed offset has offset -1 and no metadata, whether the partition, the
  topic and the group exist or not.
- An answer waits until everything in it is durable (broker/groups/commits.py).
- With `require_stable`, a partition for which an open transaction may commit an offset answers
  UNSTABLE_OFFSET_COMMIT; other partitions of the group are answered.
- A group that is named again with the same topics is answered once, and so is a partition that is
  named again for a group.
- From version 10 on, an offset that was committed under a topic id is answered under that id only.

Version notes: 2 null topics mean all, and a group-level error (in 1 it is repeated for each
partition), 5 leader epochs, 6 flexible, 7 require_stable, 8 many groups (KIP-709), 9 consumer
groups (KIP-848), 10 topic ids.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from dataclasses import replace
from functools import partial

from broker.groups.commits import NO_OFFSET, fetch, when_durable
from broker.groups.errors import GroupError
from broker.runtime.lines import Turn
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps, finished
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.wire import ZERO_UUID

GROUP_ERROR_VERSION = 2
MANY_GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10
REFUSED_PER_STEP = 500
REFUSED_BYTES = 20  # of one in an answer, about


def handle(request: Request, services: Services) -> Steps | Coroutine[None, None, Steps]:
    """Answer with the committed offsets of each group, behind commits that came before."""
    body: OffsetFetchRequest = request.body
    lines = services.groups.large_offset_commits
    names = [body.group_id]
    if request.header.api_version >= MANY_GROUPS_VERSION:
        names = [group.group_id for group in body.groups] if lines.waiting else []
    names = [name for name in names if name in lines.waiting]
    if names:
        turns = [lines.turn(name) for name in dict.fromkeys(names)]
        return _fetch_in_turn(turns, request, services)
    return _fetch(request, services)


async def _fetch_in_turn(turns: list[Turn], request: Request, services: Services) -> Steps:
    for turn in turns:
        async with turn:
            pass
    return _fetch(request, services)


def _fetch(request: Request, services: Services) -> Steps:
    version = request.header.api_version
    answers: list[OffsetFetchResponseGroup] = []
    groups = yield from _groups(request.body, version)
    for asked in _once_each(groups):
        try:
            answers.append((yield from _answered(services, asked, request)))
        except GroupError as error:
            answers.append(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code))
        yield 0
    response = yield from _in_version(request, answers)
    waiting = [answer for answer in answers if not answer.error_code]
    if not waiting:
        return response
    return _when_durable(request, services, waiting, response)


def _once_each(groups: list[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Return the groups without those that repeat an earlier one."""
    if len(groups) < 2:
        return groups
    once = {
        (
            group.group_id,
            group.member_id,
            group.member_epoch,
            None
            if group.topics is None
            else tuple(
                (topic.name, topic.topic_id, *topic.partition_indexes) for topic in group.topics
            ),
        ): group
        for group in reversed(groups)
    }
    return list(once.values())[::-1]


def _answered(
    services: Services, asked: OffsetFetchRequestGroup, request: Request
) -> Generator[int, None, OffsetFetchResponseGroup]:
    require_stable: bool = request.body.require_stable
    if request.header.api_version < TOPIC_ID_VERSION:
        return (yield from fetch(services.groups, asked, None, require_stable=require_stable))

    def topic_id_of(name: str) -> bytes:
        topic = services.topics.by_name(name)
        return ZERO_UUID if topic is None else topic.topic_id

    if asked.topics is None:
        return (
            yield from fetch(services.groups, asked, topic_id_of, require_stable=require_stable)
        )
    named, unknown = yield from _by_name(services, asked)
    answer = yield from fetch(services.groups, named, None, require_stable=require_stable)
    answer.topics = unknown + answer.topics
    return answer


def _when_durable(
    request: Request,
    services: Services,
    waiting: list[OffsetFetchResponseGroup],
    response: OffsetFetchResponse,
) -> Pending:
    """Complete with `response` when it is durable; refuse groups that cannot become durable."""
    pending = Pending()
    outstanding = len(waiting)
    refused = False

    def finish_one(answer: OffsetFetchResponseGroup, code: ErrorCode) -> None:
        nonlocal outstanding, refused
        if code:
            answer.error_code, answer.topics = code, []
            refused = True
        outstanding -= 1
        if not outstanding:
            is_old = refused and request.header.api_version < MANY_GROUPS_VERSION
            pending.complete(_in_version(request, waiting) if is_old else response)

    for answer in waiting:
        when_durable(services.groups, answer.group_id, partial(finish_one, answer))
    return pending


def _in_version(
    request: Request, answers: list[OffsetFetchResponseGroup]
) -> Generator[int, None, OffsetFetchResponse]:
    """Return the answer in the version's shape: before version 8 it has one group."""
    version = request.header.api_version
    if version >= MANY_GROUPS_VERSION:
        return OffsetFetchResponse(groups=answers)
    (answer,) = answers
    if answer.error_code and version < GROUP_ERROR_VERSION:
        answer.topics = yield from _refusals(request.body.topics or (), answer.error_code)
    response = OffsetFetchResponse(error_code=answer.error_code)
    for topic in answer.topics:
        old = OffsetFetchResponseTopic(name=topic.name)
        response.topics.append(old)
        yield 0
        for one in topic.partitions:
            old.partitions.append(
                OffsetFetchResponsePartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
            )
            yield 0
    return response


def _groups(
    body: OffsetFetchRequest, version: int
) -> Generator[int, None, list[OffsetFetchRequestGroup]]:
    """Return the request in the form of version 8 and later."""
    if version >= MANY_GROUPS_VERSION:
        return body.groups
    topics: list[OffsetFetchRequestTopics] | None = None
    if body.topics is not None:
        topics = []
        for topic in body.topics:
            topics.append(
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            )
            yield 0
    return [OffsetFetchRequestGroup(group_id=body.group_id, topics=topics)]


def _by_name(
    services: Services, asked: OffsetFetchRequestGroup
) -> Generator[int, None, tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]]:
    """Return a request by ids with names filled in, and the answers for unknown ids."""
    named: list[OffsetFetchRequestTopics] = []
    unknown: list[OffsetFetchRequestTopics] = []
    for topic in asked.topics or ():
        info = services.topics.by_id(topic.topic_id)
        if info is None:
            unknown.append(topic)
        else:
            named.append(replace(topic, name=info.name))
        yield 0
    refused = yield from _refusals(unknown, ErrorCode.UNKNOWN_TOPIC_ID)
    return replace(asked, topics=named), refused


def _refusals(
    topics: Iterable[OffsetFetchRequestTopics | OffsetFetchRequestTopic], code: int
) -> Generator[int, None, list[OffsetFetchResponseTopics]]:
    refused = []
    for topic in topics:
        answer = OffsetFetchResponseTopics(
            name=topic.name, topic_id=getattr(topic, "topic_id", ZERO_UUID)
        )
        refused.append(answer)
        for start in range(0, len(topic.partition_indexes), REFUSED_PER_STEP):
            some = topic.partition_indexes[start : start + REFUSED_PER_STEP]
            answer.partitions += [
                OffsetFetchResponsePartitions(
                    partition_index=number, committed_offset=NO_OFFSET, error_code=code
                )
                for number in some
            ]
            yield REFUSED_BYTES * len(some)
        yield 0
    return refused


def error_response(request: Request, code: ErrorCode) -> OffsetFetchResponse:
    """Return an answer with `code` for each group in the request."""
    groups = finished(_groups(request.body, request.header.api_version))
    refused = [
        OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in groups
    ]
    return finished(_in_version(request, refused))
