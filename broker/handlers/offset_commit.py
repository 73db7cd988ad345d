"""OffsetCommit, API key 8, versions 2-10.

Behaviour
- Topics and partitions that do not exist are refused one by one. The others are stored in one
  batch, and answered when that is durable (broker/groups/commits.py). Refused ones come first in
  the answer, as in Kafka.
- The record has the topic's id, also if the request named the topic.
- A large commit is prepared in a thread. Later commits and fetches of the same group wait for it.
  A commit that has waited is refused if its client has lost a right meanwhile.
- An error of the group is repeated for each partition.

Version notes: up to 4 a retention time per commit, 6 leader epochs, 7 static members, 8 flexible,
9 consumer groups (KIP-848) and GROUP_ID_NOT_FOUND, 10 topic ids.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from functools import partial
from typing import NamedTuple

from broker.groups.commits import Answers, PreparedOffsets, commit, prepare
from broker.metadata.image import TopicInfo
from broker.rights.standing import StandingCommit
from broker.runtime.lines import Turn
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps, finished
from broker.runtime.turns import in_turns, names_more_than
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION = 10
PARTITIONS_ON_THE_LOOP = 500  # a commit that names more, or more topics, is prepared in a thread


class Sorted(NamedTuple):
    """What of a request exists, the refusals of what does not, and which topics do."""

    known: list[OffsetCommitRequestTopic]
    refused: list[OffsetCommitResponseTopic]
    names: dict[bytes, str]  # of the topics in `known`, by their ids


def handle(
    request: Request, services: Services
) -> OffsetCommitResponse | Pending | Coroutine[None, None, OffsetCommitResponse | Pending]:
    """Store the offsets of all partitions that exist."""
    body: OffsetCommitRequest = request.body
    is_large = names_more_than(body.topics, PARTITIONS_ON_THE_LOOP)
    if is_large or body.group_id in services.groups.large_offset_commits.waiting:
        turn = services.groups.large_offset_commits.turn(body.group_id)
        standing = None
        if services.authorizer is not None:
            standing = StandingCommit(request, services.authorizer, body.group_id)
        return _append_in_turn(turn, request, services, standing, is_large=is_large)
    return _append(request, services, finished(_sorted(request, services)))


async def _append_in_turn(
    turn: Turn,
    request: Request,
    services: Services,
    standing: StandingCommit | None,
    *,
    is_large: bool,
) -> OffsetCommitResponse | Pending:
    """Append behind the large commits of the same group, and have a thread prepare this one."""
    async with turn:
        prepared = None
        while is_large:
            found = await in_turns(_sorted(request, services))
            if not found.known:
                break
            make = partial(prepare, services.groups, request.body, found.known)
            prepared = await services.pool.run(make)
            if all(services.topics.by_id(one) is not None for one in found.names):
                break  # else a topic was deleted meanwhile
        else:
            found = finished(_sorted(request, services))
        if standing is not None and (code := standing.refusal(found.names.values())):
            return error_response(request, code)
        return _append(request, services, found, prepared)


def _append(
    request: Request, services: Services, found: Sorted, prepared: PreparedOffsets | None = None
) -> OffsetCommitResponse | Pending:
    body: OffsetCommitRequest = request.body
    known, refused, _ = found
    if not known:
        return OffsetCommitResponse(topics=refused)
    is_large = prepared is not None
    if prepared is None:
        prepared = prepare(services.groups, body, known)
    pending = Pending()

    def answer(answers: Answers) -> None:
        merged = _merged(refused, answers)
        pending.complete(merged if is_large else finished(merged))

    commit(services.groups, body, prepared, request.header.api_version, answer)
    return pending


def _sorted(request: Request, services: Services) -> Generator[int, None, Sorted]:
    """Divide the request into what exists and what does not, in steps.

    A topic that is deleted between two steps is still there for the steps before.
    """
    body: OffsetCommitRequest = request.body
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    found = Sorted([], [], {})
    topics = services.topics
    for asked in body.topics:
        topic = topics.by_id(asked.topic_id) if by_id else topics.by_name(asked.name)
        yield from _sort_out(asked, topic, found, by_id=by_id)
        yield 0
    return found


def _sort_out(
    asked: OffsetCommitRequestTopic, topic: TopicInfo | None, found: Sorted, *, by_id: bool
) -> Generator[int, None, None]:
    """Divide the partitions of one topic into those that exist and those that do not."""
    numbers: set[int] = set()
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    existing = OffsetCommitRequestTopic(name=asked.name, topic_id=asked.topic_id)
    if topic is not None:
        numbers = {info.partition for info in topic.partitions}
        existing.name, existing.topic_id = topic.name, topic.topic_id
    elif by_id:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    refusal = _refusal(existing, (), code)
    for one in asked.partitions:
        if one.partition_index in numbers:
            existing.partitions.append(one)
        else:
            refusal.partitions.append(_refused(one, code))
        yield 0
    if refusal.partitions or topic is None:
        found.refused.append(refusal)
    if existing.partitions:
        found.known.append(existing)
        found.names[existing.topic_id] = existing.name


def _refusal(
    asked: OffsetCommitRequestTopic,
    partitions: Iterable[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[_refused(one, code) for one in partitions],
    )


def _refused(
    partition: OffsetCommitRequestPartition, code: ErrorCode
) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)


def _merged(refused: list[OffsetCommitResponseTopic], answers: Answers) -> Steps:
    answered = yield from answers
    by_name: dict[tuple[bytes, str], OffsetCommitResponseTopic] = {}
    for topic in refused:
        by_name[topic.topic_id, topic.name] = topic
        yield 0
    merged = list(refused)
    for answer in answered:
        same = by_name.get((answer.topic_id, answer.name))
        if same is None:
            merged.append(answer)
        else:
            same.partitions.extend(answer.partitions)
    return OffsetCommitResponse(topics=merged)


def error_response(request: Request, code: ErrorCode) -> OffsetCommitResponse:
    """Return an answer with `code` for each partition in the request."""
    return OffsetCommitResponse(
        topics=[_refusal(topic, topic.partitions, code) for topic in request.body.topics]
    )
