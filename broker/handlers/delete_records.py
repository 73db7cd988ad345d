"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- Readers no longer see the records of a partition below an offset. The answer has the new log start
  offset. It comes, and readers see the new start, when the log start checkpoint on the disk has it,
  so that no crash brings the records back. Kafka writes that file once a minute. ListOffsets that
  asks for the start meanwhile waits.
- If the start offset cannot be written, the answer is KAFKA_STORAGE_ERROR. The records are deleted
  all the same once a later write succeeds.
- The segment files are deleted later, by the next retention check, as in Kafka; on a full disk they
  are deleted at once.
- Offset -1 is the log's end when the request arrives, as in Kafka with one replica. The answer
  waits until the log is durable up to the offset. An offset beyond the end is OFFSET_OUT_OF_RANGE.
  One below the log start offset changes nothing and is no error.
- A topic whose cleanup policy is compact without delete: POLICY_VIOLATION. One of Kafka's internal
  topics: INVALID_TOPIC_EXCEPTION.
- Of more than 500 partitions, some are cut after the others.
- A partition that is named twice is cut once, at the offset given last.

Version notes: 1 none, 2 flexible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import NamedTuple

from broker.error_mapping import error_code_of
from broker.metadata.topic_rules import INTERNAL_TOPICS
from broker.partitions.partition import Partition
from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from storage.errors import OffsetOutOfRange, StorageError
from storage.log import Log

logger = logging.getLogger("barnabas.topics")

TO_THE_END = -1
NO_OFFSET = -1  # in an answer with an error
TOGETHER = 500  # partitions, each some 10 us of the loop; beyond them, the loop turns in between
# A timeout of 0 waits for no other replica, but still for the disk.
TIMEOUT_MS_MIN = 1_000


Offsets = Mapping[tuple[str, int], int]  # by topic and partition


class _Cut(NamedTuple):
    """A log that begins at `offset` once that is durable, and its result in the answer."""

    log: Log
    offset: int
    result: DeleteRecordsPartitionResult


def handle(request: Request, services: Services) -> Coroutine[None, None, DeleteRecordsResponse]:
    """Cut each partition at its offset if that is durable; the coroutine does the rest."""
    body: DeleteRecordsRequest = request.body
    timeout_ms = max(body.timeout_ms, TIMEOUT_MS_MIN)
    offsets = {
        (topic.name, asked.partition_index): asked.offset
        for topic in body.topics
        for asked in topic.partitions
    }
    if len(offsets) > TOGETHER:
        return _delete_in_pieces(services, offsets, timeout_ms)
    return _delete(services, offsets, timeout_ms)


async def _delete_in_pieces(
    services: Services, offsets: Offsets, timeout_ms: int
) -> DeleteRecordsResponse:
    """Cut some partitions after the others, so that other clients are served in between.

    All wait for the disk together: -1 is the end that a log has now, and the timeout is one for
    all.
    """
    items = list(offsets.items())
    pieces: list[asyncio.Task[DeleteRecordsResponse]] = []
    for start in range(0, len(items), TOGETHER):
        some = _delete(services, dict(items[start : start + TOGETHER]), timeout_ms)
        pieces.append(owners.spawn(Owner.REQUEST, some))
        await asyncio.sleep(0)
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for piece in await asyncio.gather(*pieces):
        for topic in piece.topics:
            whole = topics.setdefault(topic.name, DeleteRecordsTopicResult(name=topic.name))
            whole.partitions += topic.partitions
    return DeleteRecordsResponse(topics=list(topics.values()))


def _delete(
    services: Services, offsets: Offsets, timeout_ms: int
) -> Coroutine[None, None, DeleteRecordsResponse]:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    cuts: list[_Cut] = []
    waits = []
    logs: dict[Log, None] = {}
    for (name, number), offset in offsets.items():
        result = DeleteRecordsPartitionResult(partition_index=number, low_watermark=NO_OFFSET)
        topics.setdefault(name, DeleteRecordsTopicResult(name=name)).partitions.append(result)
        if (undurable := _cut(services, name, offset, result, cuts)) is not None:
            waits.append(_cut_when_durable(services, *undurable, timeout_ms, result, cuts))
            logs[undurable[0].log] = None
    logs.update(dict.fromkeys(cut.log for cut in cuts))
    response = DeleteRecordsResponse(topics=list(topics.values()))
    under_way = services.starts.begin_cut(logs)
    finish = _finish(services, waits, response, cuts)
    return _note_end(services, finish, under_way, logs)


async def _note_end(
    services: Services,
    finish: Coroutine[None, None, DeleteRecordsResponse],
    under_way: asyncio.Future[None],
    logs: dict[Log, None],
) -> DeleteRecordsResponse:
    try:
        return await finish
    finally:
        services.starts.end_cut(under_way, logs)


async def _finish(
    services: Services,
    waits: list[Coroutine[None, None, None]],
    response: DeleteRecordsResponse,
    cuts: list[_Cut],
) -> DeleteRecordsResponse:
    await asyncio.gather(*waits)
    if cuts:
        await _make_durable(services, cuts)
    return response


def _cut(
    services: Services,
    topic: str,
    offset: int,
    result: DeleteRecordsPartitionResult,
    cuts: list[_Cut],
) -> tuple[Partition, int] | None:
    """Cut a partition, or refuse; or return it with the offset to wait for."""
    try:
        partition = services.partitions.get(topic, result.partition_index)
        result.error_code = _refusal(partition)
        if not result.error_code:
            log = partition.log
            target = log.end_offset if offset == TO_THE_END else offset
            if not 0 <= target <= log.end_offset:
                raise OffsetOutOfRange(offset, log.start_offset, log.end_offset)
            if target > log.durable_offset:
                return partition, target
            if log.failed is not None:
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                log.delete_records_before(target)
                cuts.append(_Cut(log, target, result))
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
    cuts: list[_Cut],
) -> None:
    """Cut when the log is durable up to `offset`: its start cannot pass its durable end."""
    result.error_code = await services.commit.durable(partition, offset, timeout_ms)
    if result.error_code:
        return
    if _cut(services, partition.log.topic, offset, result, cuts) is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR  # it failed and was opened again


async def _make_durable(services: Services, cuts: list[_Cut]) -> None:
    """Make the new log start offsets durable, and answer with them, or with an error."""
    try:
        await services.starts.settle([cut.log for cut in cuts], services.clock.now_ms())
    except OSError as error:
        logger.error(
            "log start offsets cannot be written: %(error)s. DeleteRecords is refused; the records"
            " are deleted once a checkpoint succeeds.",
            {"error": error},
        )
    for log, offset, result in cuts:
        if log.start_offset >= offset:
            result.low_watermark = log.start_offset
        elif log.is_closed:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR


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
