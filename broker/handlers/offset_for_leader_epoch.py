"""OffsetForLeaderEpoch, API key 23, versions 2-4.

Behaviour
- Answers, for a leader epoch, the largest epoch at most that which the log knows, and the offset
  at which it ended: the first one of the next epoch, or the end of the log (KIP-101, KIP-279).
  Clients compare it with where they are, to notice that a log was cut (KIP-320).
- The end is the high watermark: what is not visible yet is not promised.

Version notes: 3 replica id, 4 flexible. librdkafka asks with version 2 always.
"""

from __future__ import annotations

from broker.error_mapping import error_code_of
from broker.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from storage.errors import StorageError

NO_EPOCH = -1


def handle(request: Request, services: Services) -> OffsetForLeaderEpochResponse:
    """Look each epoch up."""
    body: OffsetForLeaderEpochRequest = request.body
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_look_up(services, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in body.topics
        ]
    )


def _look_up(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        log = services.partitions.get(topic, asked.partition).log
    except StorageError as error:
        answer.error_code = error_code_of(error)
        return answer
    current = asked.current_leader_epoch
    if current not in (NO_EPOCH, log.leader_epoch):
        fenced = current < log.leader_epoch
        answer.error_code = (
            ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        return answer
    answer.leader_epoch, answer.end_offset = log.end_offset_for_epoch(asked.leader_epoch)
    return answer


def error_response(request: Request, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Return the answer that says `code` of every partition asked for."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
