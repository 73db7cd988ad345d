"""TxnOffsetCommit: offsets that a transaction commits, or not (broker/groups/pending.py).

    check the group ── admit to the transaction ── check the member ── append ── answer when durable

All up to the append is one turn of the loop, so no transaction ends between the check and the
append. What is appended may have been prepared before, since it follows from the request alone.
Members are checked as for a plain commit, except that a commit which names no member is
accepted beside live members (KIP-447). It does not renew a member's session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from broker.groups.coordinator import Coordinator, check_id
from broker.groups.errors import GroupError
from broker.groups.group import GroupRecord
from broker.groups.group_log import Producer, java_length
from protocol.errors import ErrorCode
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ANSWERED_PER_STEP: Final = 1_000  # partitions

Answers = Generator[int, None, list[TxnOffsetCommitResponseTopic]]  # in steps
Admit = Callable[[int], ErrorCode]  # the group's partition of `__consumer_offsets`


class Prepared(NamedTuple):
    """The records of a commit, and their batch: those of `topics` that are not refused."""

    topics: Sequence[TxnOffsetCommitRequestTopic]
    records: Sequence[GroupRecord]
    batch: bytearray


def prepare(
    groups: Coordinator,
    body: TxnOffsetCommitRequest,
    topics: Sequence[TxnOffsetCommitRequestTopic],
) -> Prepared:
    """Make the records of `topics` (those of `body` that exist). Changes nothing.

    That takes some 15 us a partition, so a large commit is prepared in a thread.
    """
    now_ms = groups.clock.now_ms()
    size_max = groups.config.offset_metadata_max_bytes
    records = [
        _record(body.group_id, topic, partition, now_ms)
        for topic in topics
        for partition in topic.partitions
        if not _too_large(partition, size_max)
    ]
    producer = Producer(body.producer_id, body.producer_epoch)
    batch = groups.log.batch_of(records, producer) if records else bytearray()
    return Prepared(topics, records, batch)


def commit(
    groups: Coordinator,
    body: TxnOffsetCommitRequest,
    prepared: Prepared,
    admit: Admit,
    answer: Callable[[Answers], None],
) -> None:
    """Append the offsets that were prepared, then call `answer`.

    `admit(number)` tells whether the transaction may write to that partition now.
    """
    topics, records, batch = prepared
    size_max = groups.config.offset_metadata_max_bytes

    def done(code: ErrorCode) -> None:
        answer(answers(topics, lambda one: code or _too_large(one, size_max)))

    try:
        _check(groups, body, [(key.topic, key.partition) for key, _ in records], admit)
        if not records:
            done(ErrorCode.NONE)
            return
        number, end_offset = groups.append_pending(body.group_id, body.producer_id, records, batch)
    except GroupError as error:
        done(error.code)
        return
    groups.log.when_durable(number, end_offset, done, on_disk=True)


def _too_large(partition: TxnOffsetCommitRequestPartition, size_max: int) -> ErrorCode:
    is_too_large = java_length(partition.committed_metadata or "") > size_max
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else ErrorCode.NONE


def _check(
    groups: Coordinator,
    body: TxnOffsetCommitRequest,
    places: Sequence[tuple[str, int]],
    admit: Admit,
) -> None:
    """Raise GroupError for what is refused; a group that is not served joins no transaction."""
    check_id(body.group_id)
    group = groups.group(body.group_id)
    code = admit(groups.partition_of(body.group_id))
    if code:
        raise GroupError(code)
    if group is not None:
        group.check_txn_commit(body, places)
    elif body.generation_id >= 0:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)


def _record(
    group_id: str,
    topic: TxnOffsetCommitRequestTopic,
    partition: TxnOffsetCommitRequestPartition,
    now_ms: int,
) -> GroupRecord:
    key = OffsetCommitKey(group=group_id, topic=topic.name, partition=partition.partition_index)
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
    )
    return key, value


def answers(
    topics: Sequence[TxnOffsetCommitRequestTopic],
    code_of: Callable[[TxnOffsetCommitRequestPartition], ErrorCode],
) -> Answers:
    """Return the answers of `topics`, with the code of each partition."""
    answered = []
    for topic in topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        answered.append(answer)
        yield 0
        for start in range(0, len(topic.partitions), ANSWERED_PER_STEP):
            answer.partitions += [
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code_of(partition)
                )
                for partition in topic.partitions[start : start + ANSWERED_PER_STEP]
            ]
            yield ANSWERED_PER_STEP
    return answered
