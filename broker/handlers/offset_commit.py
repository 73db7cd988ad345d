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

from collections.abc import Coroutine
from functools import partial

from broker.groups.commits import Answers, PreparedOffsets, commit, prepare
from broker.metadata.image import TopicInfo
from broker.rights.standing import StandingCommit
from broker.runtime.lines import Turn
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps, finished
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
PARTITIONS_ON_THE_LOOP = 500  # a larger commit is prepared in a thread


def handle(
    request: Request, services: Services
) -> OffsetCommitResponse | Pending | Coroutine[None, None, OffsetCommitResponse | Pending]:
    """Store the offsets of all partitions that exist."""
    body: OffsetCommitRequest = request.body
    is_large = sum(len(topic.partitions) for topic in body.topics) > PARTITIONS_ON_THE_LOOP
    if is_large or body.group_id in services.groups.large_offset_commits.waiting:
        turn = services.groups.large_offset_commits.turn(body.group_id)
        standing = None
        if services.authorizer is not None:
            standing = StandingCommit(request, services.authorizer, body.group_id)
        return _append_in_turn(turn, request, services, standing, is_large=is_large)
    return _append(request, services)


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
        if is_large:
            known, _ = _known(request, services)
            make = partial(prepare, services.groups, request.body, known)
            prepared = await services.pool.run(make)
        if standing is not None:
            known, _ = _known(request, services)
            if code := standing.refusal(topic.name for topic in known):
                return error_response(request, code)
        return _append(request, services, prepared)


def _append(
    request: Request, services: Services, prepared: PreparedOffsets | None = None
) -> OffsetCommitResponse | Pending:
    body: OffsetCommitRequest = request.body
    known, refused = _known(request, services)
    if not known:
        return OffsetCommitResponse(topics=refused)
    is_large = prepared is not None
    if prepared is None or prepared.topics != known:  # or a topic was deleted meanwhile
        prepared = prepare(services.groups, body, known)
    pending = Pending()

    def answer(answers: Answers) -> None:
        merged = _merged(refused, answers)
        pending.complete(merged if is_large else finished(merged))

    commit(services.groups, body, prepared, request.header.api_version, answer)
    return pending


def _known(
    request: Request, services: Services
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """Return what of the request exists, and the refusals of what does not."""
    body: OffsetCommitRequest = request.body
    by_id = request.header.api_version >= TOPIC_ID_VERSION
    refused: list[OffsetCommitResponseTopic] = []
    known: list[OffsetCommitRequestTopic] = []
    topics = services.topics
    for asked in body.topics:
        topic = topics.by_id(asked.topic_id) if by_id else topics.by_name(asked.name)
        _sort_out(asked, topic, refused, known, by_id=by_id)
    return known, refused


def _sort_out(
    asked: OffsetCommitRequestTopic,
    topic: TopicInfo | None,
    refused: list[OffsetCommitResponseTopic],
    known: list[OffsetCommitRequestTopic],
    *,
    by_id: bool,
) -> None:
    """Divide the partitions of one topic into those that exist and those that do not."""
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refused.append(_refusal(asked, asked.partitions, code))
        return
    numbers = {info.partition for info in topic.partitions}
    found = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id)
    found.partitions = [one for one in asked.partitions if one.partition_index in numbers]
    bad = [one for one in asked.partitions if one.partition_index not in numbers]
    if bad:
        refused.append(_refusal(found, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if found.partitions:
        known.append(found)


def _refusal(
    asked: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
            for one in partitions
        ],
    )


def _merged(refused: list[OffsetCommitResponseTopic], answers: Answers) -> Steps:
    answered = yield from answers
    by_name = {(topic.topic_id, topic.name): topic for topic in refused}
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
