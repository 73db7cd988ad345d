"""OffsetForLeaderEpoch, API key 23, versions 2-4.

Behaviour
- For a leader epoch, the answer has the largest known epoch that is not above it, and the offset
  at which that one ended: the start of the next epoch, or the end of the log (KIP-101, KIP-279).
  Clients compare it with their position to detect that a log was truncated (KIP-320).
- The current leader epoch is known even before it has records, and ends at the end of the log, as
  in Kafka. Records above the high watermark count, since no client can have read beyond them.
- A `current_leader_epoch` other than the log's is fenced or unknown (KIP-320).
- The replica id is ignored: there are no followers.

Version notes: 3 replica id, 4 flexible. librdkafka always uses version 2.
"""

from __future__ import annotations

from broker.error_mapping import error_code_of
from broker.partitions.epoch_fencing import end_of_epoch, fence
from broker.runtime.request import Request
from broker.runtime.steps import Steps
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


def handle(request: Request, services: Services) -> Steps:
    """Look up the end of each epoch."""
    body: OffsetForLeaderEpochRequest = request.body
    response = OffsetForLeaderEpochResponse()
    for topic in body.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        yield len(topic.topic)
        for asked in topic.partitions:
            result.partitions.append(_look_up(services, topic.topic, asked))
            yield 0
    return response


def _look_up(services: Services, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        log = services.partitions.get(topic, asked.partition).log
    except StorageError as error:
        answer.error_code = error_code_of(error)
        return answer
    if code := fence(log, asked.current_leader_epoch):
        answer.error_code = code
        return answer
    answer.leader_epoch, answer.end_offset = end_of_epoch(log, asked.leader_epoch)
    return answer


def error_response(request: Request, code: ErrorCode) -> OffsetForLeaderEpochResponse:
    """Return an answer with `code` for each partition in the request."""
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
