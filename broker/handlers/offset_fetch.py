"""OffsetFetch, API key 9, versions 1-10.

Behaviour
- Offset -1 and no metadata for a partition without a committed offset, whether the partition, the
  topic or the group exist or not.
- An answer waits until all that it tells is durable (broker/groups/commits.py); `require_stable`
  asks for nothing beyond that, since there are no transactions.

Version notes: 2 null topics ask for all, and an error of the group (in 1 it stands in each
partition), 5 leader epochs, 6 flexible, 7 require_stable, 8 many groups (KIP-709), 9 consumer
groups (KIP-848), 10 topic ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from broker.groups.commits import NO_OFFSET, fetch
from broker.pending import Pending
from broker.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
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
from protocol.wire import ZERO_UUID

GROUP_ERROR_VERSION = 2
MANY_GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10


class _Progress:
    """One request under way: the groups' answers, and how many are outstanding."""

    def __init__(self, groups: list[OffsetFetchRequestGroup], version: int) -> None:
        self.groups = groups
        self.version = version
        self.answers: list[OffsetFetchResponseGroup | None] = [None] * len(groups)
        self.outstanding = len(groups)
        self.pending = Pending()

    def answered(
        self,
        index: int,
        unknown: list[OffsetFetchResponseTopics],
        answer: OffsetFetchResponseGroup,
    ) -> None:
        """Take one group's answer in; the last one sends them all."""
        if not answer.error_code:
            answer.topics = unknown + answer.topics
        self.answers[index] = answer
        self.outstanding -= 1
        if not self.outstanding:
            self.pending.complete(self.response())

    def response(self) -> OffsetFetchResponse:
        """Return the answer in the shape of the version."""
        answers = [answer for answer in self.answers if answer is not None]
        if self.version >= MANY_GROUPS_VERSION:
            return OffsetFetchResponse(groups=answers)
        (answer,) = answers
        if answer.error_code and self.version < GROUP_ERROR_VERSION:
            answer.topics = _refusals(self.groups[0].topics or (), answer.error_code)
        return OffsetFetchResponse(
            error_code=answer.error_code,
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=one.partition_index,
                            committed_offset=one.committed_offset,
                            committed_leader_epoch=one.committed_leader_epoch,
                            metadata=one.metadata,
                            error_code=one.error_code,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in answer.topics
            ],
        )


def handle(request: Request, services: Services) -> OffsetFetchResponse | Pending:
    """Answer what groups have committed."""
    version = request.header.api_version
    groups = _groups(request.body, version)
    if not groups:
        return OffsetFetchResponse()
    progress = _Progress(groups, version)
    for index, asked in enumerate(groups):
        if version < TOPIC_ID_VERSION:
            fetch(services.groups, asked, partial(progress.answered, index, []))
        elif asked.topics is None:
            done = partial(progress.answered, index, [])
            fetch(services.groups, asked, partial(_with_ids, services, done))
        else:
            named, unknown = _by_name(services, asked)
            fetch(services.groups, named, partial(progress.answered, index, unknown))
    return progress.pending


def _groups(body: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """Return the request in the form that it has from version 8 on."""
    if version >= MANY_GROUPS_VERSION:
        return body.groups
    topics = None
    if body.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in body.topics
        ]
    return [OffsetFetchRequestGroup(group_id=body.group_id, topics=topics)]


def _by_name(
    services: Services, asked: OffsetFetchRequestGroup
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Return a request by ids with names beside them, and the answers for ids nobody has."""
    named: list[OffsetFetchRequestTopics] = []
    unknown: list[OffsetFetchRequestTopics] = []
    for topic in asked.topics or ():
        info = services.topics.by_id(topic.topic_id)
        if info is None:
            unknown.append(topic)
        else:
            named.append(replace(topic, name=info.name))
    return replace(asked, topics=named), _refusals(unknown, ErrorCode.UNKNOWN_TOPIC_ID)


def _with_ids(
    services: Services,
    done: Callable[[OffsetFetchResponseGroup], None],
    answer: OffsetFetchResponseGroup,
) -> None:
    """Put the ids of topics into an answer to one who asked for all; leave out what has none."""
    for topic in answer.topics:
        if topic.topic_id == ZERO_UUID:
            info = services.topics.by_name(topic.name)
            topic.topic_id = ZERO_UUID if info is None else info.topic_id
    answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID]
    done(answer)


def _refusals(
    topics: Iterable[OffsetFetchRequestTopics], code: int
) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=number, committed_offset=NO_OFFSET, error_code=code
                )
                for number in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def error_response(request: Request, code: ErrorCode) -> OffsetFetchResponse:
    """Return the answer that says `code` of every group."""
    groups = _groups(request.body, request.header.api_version)
    progress = _Progress(groups, request.header.api_version)
    progress.answers = [
        OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in groups
    ]
    return progress.response()
