"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- The records of a partition below an offset are gone from its readers' view, and the answer names
  the first offset that is left. It comes when that offset stands in the checkpoint of log starts
  on the disk, so that no crash brings the records back. Kafka writes that file once a minute.
- The files go later, segment by segment, with the next round of retention, as in Kafka; on a full
  disk at once.
- Offset -1 is the end of what was written when the request came, as for Kafka's one replica; what
  of it is not yet durable is waited for, and so are offsets beyond the high watermark. Beyond the
  end: OFFSET_OUT_OF_RANGE. Below the first offset: nothing to do, and no error.
- A topic that is compacted and not deleted from: POLICY_VIOLATION. One of Kafka's internal topics:
  INVALID_TOPIC_EXCEPTION.
- A partition given twice is cut once, at the later of its places in the request.

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
NO_OFFSET = -1  # in the answer, when there is an error
# A client that waits for no other replica (0) still waits for the disk.
TIMEOUT_MS_MIN = 1_000


def handle(request: Request, services: Services) -> Coroutine[None, None, DeleteRecordsResponse]:
    """Cut each partition at its start, as far as it is durable; the rest is for the coroutine."""
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
        # What can be cut is cut now: a request right behind this one finds the new start.
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
    """Cut a partition and fill its result in; or return it and the offset to wait for."""
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
    """Cut when everything below `offset` is durable: a log cannot start beyond its end."""
    result.error_code = await services.commit.durable(partition, offset, timeout_ms)
    if not result.error_code and _cut(services, partition.log.topic, offset, result) is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR  # it failed and was opened again


async def _make_durable(
    services: Services, response: DeleteRecordsResponse, cut: Iterable[tuple[str, int]]
) -> None:
    """Write the new starts down, or take the good answers back.

    On a full disk what was cut makes the room first. Crashing then takes nothing back: a log
    begins with its first segment.
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
        logger.error("deleted records may come back at the next start: %s", error)
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
    """Return the answer that says `code` of every partition asked for."""
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
