"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- Readers no longer see the records of a partition below an offset. The answer has the new log start
  offset, and comes when the log start checkpoint on the disk has it, so that no crash brings the
  records back. Kafka writes that file once a minute.
- The segment files are deleted later, by the next retention check, as in Kafka; on a full disk they
  are deleted at once.
- Offset -1 is the log's end when the request arrives, as in Kafka with one replica. The answer
  waits until the log is durable up to the offset. An offset beyond the end is OFFSET_OUT_OF_RANGE.
  One below the log start offset changes nothing and is no error.
- A topic whose cleanup policy is compact without delete: POLICY_VIOLATION. One of Kafka's internal
  topics: INVALID_TOPIC_EXCEPTION.
- A partition that is named twice is cut once, at the offset given last.

Version notes: 1 none, 2 flexible.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable

from broker.error_mapping import error_code_of
from broker.metadata.topic_rules import INTERNAL_TOPICS
from broker.partitions.partition import Partition
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from storage.errors import OffsetOutOfRange, StorageError, UnknownPartition
from storage.trash import FOREVER_MS

logger = logging.getLogger("barnabas.topics")

TO_THE_END = -1
NO_OFFSET = -1  # in an answer with an error
# A timeout of 0 waits for no other replica, but still for the disk.
TIMEOUT_MS_MIN = 1_000


def handle(request: Request, services: Services) -> Coroutine[None, None, DeleteRecordsResponse]:
    """Cut each partition at its offset if that is durable; the coroutine does the rest."""
    body: DeleteRecordsRequest = request.body
    timeout_ms = max(body.timeout_ms, TIMEOUT_MS_MIN)
    offsets = {
        (topic.name, asked.partition_index): asked.offset
        for topic in body.topics
        for asked in topic.partitions
    }
    topics: dict[str, DeleteRecordsTopicResult] = {}
    waits = []
    for (name, number), offset in offsets.items():
        result = DeleteRecordsPartitionResult(partition_index=number, low_watermark=NO_OFFSET)
        topics.setdefault(name, DeleteRecordsTopicResult(name=name)).partitions.append(result)
        # At once where possible, so that a pipelined request sees the new log start offset.
        if (undurable := _cut(services, name, offset, result)) is not None:
            waits.append(_cut_when_durable(services, *undurable, timeout_ms, result))
    response = DeleteRecordsResponse(topics=list(topics.values()))
    return _finish(services, waits, response, list(offsets))


async def _finish(
    services: Services,
    waits: list[Coroutine[None, None, None]],
    response: DeleteRecordsResponse,
    cut: list[tuple[str, int]],
) -> DeleteRecordsResponse:
    await asyncio.gather(*waits)
    await _make_durable(services, response, cut)
    return response


def _cut(
    services: Services, topic: str, offset: int, result: DeleteRecordsPartitionResult
) -> tuple[Partition, int] | None:
    """Cut a partition and fill in its result; or return it with the offset to wait for."""
    try:
        partition = services.partitions.get(topic, result.partition_index)
        result.error_code = _refusal(partition)
        if not result.error_code:
            log = partition.log
            target = log.end_offset if offset == TO_THE_END else offset
            if not 0 <= target <= log.end_offset:
                raise OffsetOutOfRange(offset, log.start_offset, log.end_offset)
            if target > log.high_watermark:
                return partition, target
            if log.failed is not None:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                result.low_watermark = log.delete_records_before(target)
    except StorageError as error:
        result.error_code = error_code_of(error)
    return None


def _refusal(partition: Partition) -> ErrorCode:
    if partition.log.topic in INTERNAL_TOPICS:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    policy = partition.log.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


async def _cut_when_durable(
    services: Services,
    partition: Partition,
    offset: int,
    timeout_ms: int,
    result: DeleteRecordsPartitionResult,
) -> None:
    """Cut when the log is durable up to `offset`: its start cannot pass its durable end."""
    result.error_code = await services.commit.durable(partition, offset, timeout_ms)
    if not result.error_code and _cut(services, partition.log.topic, offset, result) is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR  # it failed and was opened again


async def _make_durable(
    services: Services, response: DeleteRecordsResponse, cut: Iterable[tuple[str, int]]
) -> None:
    """Write the new log start offsets to disk, or turn the successes into errors.

    On a full disk, the deleted segments free the space first. A crash then brings no records back:
    a log starts with its first segment.
    """
    done = [
        result for topic in response.topics for result in topic.partitions if not result.error_code
    ]
    if not done:
        return
    try:
        try:
            await services.checkpoints.write()
        except OSError as error:
            if not services.logs.home.room.note(error):
                raise
            await _remove_files(services, cut)
            await services.checkpoints.write()
    except (OSError, StorageError) as error:
        logger.error("deleted records may reappear at the next start: %s", error)
        for result in done:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            result.low_watermark = NO_OFFSET


async def _remove_files(services: Services, cut: Iterable[tuple[str, int]]) -> None:
    now_ms = services.clock.now_ms()
    for name, number in cut:
        with contextlib.suppress(UnknownPartition):
            gone = services.partitions.get(name, number).log.begin_retention(now_ms)
            if gone is not None:
                await services.pool.run(gone.run)
                gone.finish()
    purge = services.logs.home.trash.begin_purge(FOREVER_MS)
    if purge is not None:
        await services.pool.run(purge.run)
        services.logs.finish_purge(purge)


def error_response(request: Request, code: ErrorCode) -> DeleteRecordsResponse:
    """Return an answer with `code` for each partition in the request."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=asked.partition_index,
                        low_watermark=NO_OFFSET,
                        error_code=code,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )
