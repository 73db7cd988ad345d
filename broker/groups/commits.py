"""OffsetCommit and OffsetFetch, on the offsets of broker/groups/offsets.py.

Members of the current generation may commit, and any client while the group is empty. A commit for
an unused id creates a group that holds only offsets. A commit is answered when it is durable. A
large one is prepared in a thread, and checked in the turn of the loop that appends it. A fetch
returns everything committed before it arrived. It runs in steps (`broker.runtime.steps`) and
is answered when all that it returns is durable. `require_stable` also refuses partitions for which
an open transaction may commit an offset (broker/groups/pending.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from broker.groups.apply import apply_offset
from broker.groups.committed import Committed
from broker.groups.coordinator import Coordinator
from broker.groups.errors import GroupError
from broker.groups.group import GroupRecord
from broker.groups.group_log import java_length
from broker.groups.offsets import Offsets
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
from protocol.wire import ZERO_UUID

GROUP_NOT_FOUND_VERSION: Final = 9  # of OffsetCommit
NO_OFFSET: Final = -1
INT64_MAX: Final = (1 << 63) - 1
OFFSET_BYTES: Final = 20  # of one in an answer, without its metadata

ANSWERED_PER_STEP: Final = 1_000  # partitions of a commit

Answers = Generator[int, None, list[OffsetCommitResponseTopic]]  # in steps
IsUnstable = Callable[[str, int], bool]  # of a topic and a partition


class PreparedOffsets(NamedTuple):
    """The records of a commit, and their batch: those of `topics` that are not too large."""

    topics: Sequence[OffsetCommitRequestTopic]
    records: Sequence[GroupRecord]
    batch: bytearray


def prepare(
    groups: Coordinator, body: OffsetCommitRequest, topics: Sequence[OffsetCommitRequestTopic]
) -> PreparedOffsets:
    """Make the records of `topics` (those of `body` that exist, by name). Changes nothing.

    That takes some 8 us a partition, so a large commit is prepared in a thread.
    """
    size_max = groups.config.offset_metadata_max_bytes
    now_ms = groups.clock.now_ms()
    expires_ms = NO_TIMESTAMP
    if body.retention_time_ms >= 0:
        expires_ms = min(now_ms + body.retention_time_ms, INT64_MAX)
    records = [
        _record(body.group_id, topic, partition, now_ms, expires_ms)
        for topic in topics
        for partition in topic.partitions
        if not _too_large(partition, size_max)
    ]
    batch = groups.log.batch_of(records) if records else bytearray()
    return PreparedOffsets(topics, records, batch)


def commit(
    groups: Coordinator,
    body: OffsetCommitRequest,
    prepared: PreparedOffsets,
    version: int,
    answer: Callable[[Answers], None],
) -> None:
    """Store the offsets that were prepared, then call `answer`. The group is checked now."""
    topics, records, batch = prepared
    size_max = groups.config.offset_metadata_max_bytes

    def done(code: ErrorCode) -> None:
        answer(_answers(topics, lambda one: _too_large(one, size_max) or code))

    try:
        _check(groups, body, [(key.topic, key.partition) for key, _ in records], version)
    except GroupError as error:
        refusal = error.code
        answer(_answers(topics, lambda _: refusal))
        return
    if not records:
        done(ErrorCode.NONE)
        return
    try:
        first_offset = groups.write_batch(body.group_id, batch, len(records), done)
    except GroupError as error:
        done(error.code)
        return
    registry = groups.registry_of(body.group_id)
    for record_offset, (key, value) in enumerate(records, first_offset):
        apply_offset(registry, groups, key, value, record_offset)


def _too_large(partition: OffsetCommitRequestPartition, size_max: int) -> ErrorCode:
    is_too_large = java_length(partition.committed_metadata or "") > size_max
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE


def _check(
    groups: Coordinator,
    body: OffsetCommitRequest,
    places: Sequence[tuple[str, int]],
    version: int,
) -> None:
    group = groups.group(body.group_id)
    if group is not None:
        group.check_commit(body, places, version)
        group.committed(body.member_id)
    elif body.generation_id_or_member_epoch >= 0:
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
        # The version of a record with a retention of its own has no field for the id.
        topic_id=topic.topic_id if expires_ms == NO_TIMESTAMP else ZERO_UUID,
    )
    return key, value


def _answers(
    topics: Sequence[OffsetCommitRequestTopic],
    code_of: Callable[[OffsetCommitRequestPartition], ErrorCode],
) -> Answers:
    answers = []
    for topic in topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        answers.append(answer)
        for start in range(0, len(topic.partitions), ANSWERED_PER_STEP):
            answer.partitions += [
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code_of(partition)
                )
                for partition in topic.partitions[start : start + ANSWERED_PER_STEP]
            ]
            yield ANSWERED_PER_STEP
    return answers


def fetch(
    groups: Coordinator,
    asked: OffsetFetchRequestGroup,
    topic_id_of: Callable[[str], bytes] | None,
    *,
    require_stable: bool,
) -> Generator[int, None, OffsetFetchResponseGroup]:
    """Return the committed offsets of the requested topics; null topics request all.

    With `topic_id_of` the answer carries each topic's current id and leaves out topics without one.
    The offsets may not be durable yet: see `when_durable`. A partition that is named twice is
    answered once. With `require_stable`, a partition with a pending offset is refused with
    UNSTABLE_OFFSET_COMMIT; as in Kafka, a request for all topics has those with committed offsets
    only. Raises GroupError for the group as a whole.
    """
    registry = groups.registry_of(asked.group_id)
    group = registry.get(asked.group_id)
    if group is not None:
        group.check_fetch(asked.member_id, asked.member_epoch)
    pending = registry.offsets.pending

    def is_unstable(topic: str, number: int) -> bool:
        return require_stable and pending.has(asked.group_id, topic, number)

    if asked.topics is None:
        topics = yield from _all(registry.offsets, asked.group_id, topic_id_of, is_unstable)
    else:
        topics = yield from _named(registry.offsets, asked, is_unstable)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def when_durable(groups: Coordinator, group_id: str, done: Callable[[ErrorCode], None]) -> None:
    """Call `done` when all offsets of a group are durable, or have failed to become so."""

    def told(code: ErrorCode) -> None:
        # Consumers before 3.9 do not handle COORDINATOR_NOT_AVAILABLE here.
        is_unknown = code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        done(ErrorCode.NOT_COORDINATOR if is_unknown else code)

    try:
        groups.when_durable(group_id, told)
    except GroupError as error:  # at a stop
        told(error.code)


def _all(
    offsets: Offsets,
    group_id: str,
    topic_id_of: Callable[[str], bytes] | None,
    is_unstable: IsUnstable,
) -> Generator[int, None, list[OffsetFetchResponseTopics]]:
    # A copy: other requests run between two steps.
    found = [
        (name, list(partitions.items())) for name, partitions in offsets.topics(group_id).items()
    ]
    answers = []
    for name, partitions in found:
        topic_id = ZERO_UUID if topic_id_of is None else topic_id_of(name)
        if topic_id_of is not None and topic_id == ZERO_UUID:
            continue
        answer = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
        for number, committed in partitions:
            if is_unstable(name, number):
                answer.partitions.append(_unstable(number))
            elif committed.is_of(topic_id):  # else a deleted topic of that name had it
                answer.partitions.append(_answer(number, committed))
            yield OFFSET_BYTES + len(committed.metadata)
        if answer.partitions:
            answers.append(answer)
    return answers


def _named(
    offsets: Offsets, asked: OffsetFetchRequestGroup, is_unstable: IsUnstable
) -> Generator[int, None, list[OffsetFetchResponseTopics]]:
    answers = []
    answered: set[tuple[str, int]] = set()
    for topic in asked.topics or ():
        answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
        answers.append(answer)
        for number in topic.partition_indexes:
            yield 0
            if (topic.name, number) in answered:
                continue
            answered.add((topic.name, number))
            if is_unstable(topic.name, number):
                answer.partitions.append(_unstable(number))
                continue
            committed = offsets.get(asked.group_id, topic.name, number)
            if committed is not None and not committed.is_of(topic.topic_id):
                committed = None
            answer.partitions.append(_answer(number, committed))
            yield OFFSET_BYTES + (0 if committed is None else len(committed.metadata))
    return answers


def _unstable(number: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=NO_OFFSET,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def _answer(number: int, committed: Committed | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=number, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
