"""OffsetCommit, API key 8, versions 2-10.

Behaviour
- Topics and partitions that do not exist are refused one by one. The others are stored in one
  batch, and answered when that is durable (broker/groups/commits.py). Refused ones come first in
  the answer, as in Kafka.
- An error of the group is repeated for each partition.

Version notes: up to 4 a retention time per commit, 6 leader epochs, 7 static members, 8 flexible,
9 consumer groups (KIP-848) and GROUP_ID_NOT_FOUND, 10 topic ids.
"""

from __future__ import annotations

from broker.groups.commits import commit
from broker.metadata.image import TopicInfo
from broker.runtime.request import Pending, Request
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


def handle(request: Request, services: Services) -> OffsetCommitResponse | Pending:
    """Store the offsets of all partitions that exist."""
    body: OffsetCommitRequest = request.body
    version = request.header.api_version
    by_id = version >= TOPIC_ID_VERSION
    refused: list[OffsetCommitResponseTopic] = []
    known: list[OffsetCommitRequestTopic] = []
    for asked in body.topics:
        topics = services.topics
        topic = topics.by_id(asked.topic_id) if by_id else topics.by_name(asked.name)
        _sort_out(asked, topic, refused, known, by_id=by_id)
    if not known:
        return OffsetCommitResponse(topics=refused)
    pending = Pending()
    commit(
        services.groups,
        body,
        known,
        version,
        lambda answers: pending.complete(OffsetCommitResponse(topics=_merged(refused, answers))),
    )
    return pending


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
    good = [one for one in asked.partitions if one.partition_index in numbers]
    bad = [one for one in asked.partitions if one.partition_index not in numbers]
    if bad:
        refused.append(_refusal(asked, bad, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if good:
        known.append(
            OffsetCommitRequestTopic(name=topic.name, topic_id=asked.topic_id, partitions=good)
        )


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


def _merged(
    refused: list[OffsetCommitResponseTopic], answers: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    by_name = {(topic.topic_id, topic.name): topic for topic in refused}
    merged = list(refused)
    for answer in answers:
        same = by_name.get((answer.topic_id, answer.name))
        if same is None:
            merged.append(answer)
        else:
            same.partitions.extend(answer.partitions)
    return merged


def error_response(request: Request, code: ErrorCode) -> OffsetCommitResponse:
    """Return an answer with `code` for each partition in the request."""
    return OffsetCommitResponse(
        topics=[_refusal(topic, topic.partitions, code) for topic in request.body.topics]
    )
