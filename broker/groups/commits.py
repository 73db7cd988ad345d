"""OffsetCommit and OffsetFetch: between a request and broker/groups/offsets.py.

Offsets are accepted from members of the group's generation, and from outside of any membership
while the group is empty; an id that nobody has used becomes a group of nothing but offsets. A
commit is answered when it is durable. A fetch sees everything committed when it came, and waits
until that is durable, which is what `require_stable` asks for where there are no transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.groups.coordinator import Coordinator
from broker.groups.errors import GroupError
from broker.groups.group import GroupRecord
from broker.groups.offsets import Committed
from broker.groups.replay import replay_offset
from protocol.errors import ErrorCode
from protocol.group_records import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

GROUP_NOT_FOUND_VERSION: Final = 9  # of OffsetCommit
NO_OFFSET: Final = -1


def commit(
    groups: Coordinator,
    body: OffsetCommitRequest,
    topics: Sequence[OffsetCommitRequestTopic],
    version: int,
    answer: Callable[[list[OffsetCommitResponseTopic]], None],
) -> None:
    """Store the offsets of `topics` (the known ones of `body`, with names), then `answer`."""
    try:
        _check(groups, body, version)
    except GroupError as error:
        refusal = error.code
        answer(_answers(topics, lambda _: refusal))
        return
    size_max = groups.config.offset_metadata_max_bytes

    def too_large(partition: OffsetCommitRequestPartition) -> ErrorCode:
        is_too_large = len(partition.committed_metadata or "") > size_max
        return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE

    now_ms = groups.clock.now_ms()
    expires_ms = NO_TIMESTAMP if body.retention_time_ms < 0 else now_ms + body.retention_time_ms
    records = [
        _record(body.group_id, topic, partition, now_ms, expires_ms)
        for topic in topics
        for partition in topic.partitions
        if not too_large(partition)
    ]
    if not records:
        answer(_answers(topics, too_large))
        return
    try:
        groups.write(
            body.group_id,
            records,
            lambda code: answer(_answers(topics, lambda one: too_large(one) or code)),
        )
    except GroupError as error:
        code = error.code
        answer(_answers(topics, lambda one: too_large(one) or code))
        return
    for key, value in records:
        replay_offset(groups.registry, groups, key, value)


def _check(groups: Coordinator, body: OffsetCommitRequest, version: int) -> None:
    group = groups.group(body.group_id)
    generation = body.generation_id_or_member_epoch
    if group is not None:
        group.check_commit(body.member_id, body.group_instance_id, generation, version)
        group.committed(body.member_id)
    elif generation >= 0:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND
            if version >= GROUP_NOT_FOUND_VERSION
            else ErrorCode.ILLEGAL_GENERATION
        )


def _record(
    group_id: str,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
    expires_ms: int,
) -> GroupRecord:
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expires_ms,
        topic_id=topic.topic_id,
    )
    return key, value


def _answers(
    topics: Sequence[OffsetCommitRequestTopic],
    code_of: Callable[[OffsetCommitRequestPartition], ErrorCode],
) -> list[OffsetCommitResponseTopic]:
    return [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code_of(partition)
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def fetch(
    groups: Coordinator,
    asked: OffsetFetchRequestGroup,
    answer: Callable[[OffsetFetchResponseGroup], None],
) -> None:
    """Answer what a group has committed for the topics asked for; null topics ask for all."""

    def done(code: ErrorCode) -> None:
        response = OffsetFetchResponseGroup(group_id=asked.group_id)
        if not code:
            try:
                groups.group(asked.group_id)  # at a stop all are forgotten: that is not "no offset"
            except GroupError as error:
                code = error.code
        if code == ErrorCode.COORDINATOR_NOT_AVAILABLE:  # consumers before 3.9 do not know it here
            code = ErrorCode.NOT_COORDINATOR
        if code:
            response.error_code = code
        elif asked.topics is None:
            response.topics = _all(groups, asked.group_id)
        else:
            response.topics = _named(groups, asked)
        answer(response)

    try:
        group = groups.group(asked.group_id)
        if group is not None:
            group.check_fetch(asked.member_id, asked.member_epoch)
        groups.when_durable(asked.group_id, done)
    except GroupError as error:
        done(error.code)


def _all(groups: Coordinator, group_id: str) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[_answer(number, committed) for number, committed in partitions.items()],
        )
        for topic, partitions in groups.registry.offsets.topics(group_id).items()
    ]


def _named(groups: Coordinator, asked: OffsetFetchRequestGroup) -> list[OffsetFetchResponseTopics]:
    answers = []
    for topic in asked.topics or ():
        answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
        for number in topic.partition_indexes:
            committed = groups.registry.offsets.get(asked.group_id, topic.name, number)
            if committed is not None and not committed.is_of(topic.topic_id):
                committed = None
            answer.partitions.append(_answer(number, committed))
        answers.append(answer)
    return answers


def _answer(number: int, committed: Committed | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=number, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
