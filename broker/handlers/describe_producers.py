"""DescribeProducers, API key 61, version 0.

Behaviour
- The answer has each partition's producers (`storage.producers.producer_state`): the epoch, the
  last sequence number, the timestamp of the last batch, the coordinator epoch of the last marker,
  and the first offset of the transaction that is open.
- An invalid topic name is INVALID_TOPIC_EXCEPTION, an unknown topic or partition
  UNKNOWN_TOPIC_OR_PARTITION. A partition that is named twice is answered once, since its producers
  may be many.
"""

from __future__ import annotations

from collections.abc import Generator

from broker.error_mapping import error_code_of
from broker.metadata.topic_rules import TopicError, check_name
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from storage.errors import StorageError

REFUSED_PER_STEP = 500
PRODUCER_BYTES = 36  # the size of one producer in the answer


def handle(request: Request, services: Services) -> Steps:
    """Describe the producers of each partition."""
    body: DescribeProducersRequest = request.body
    response = DescribeProducersResponse()
    answered: set[tuple[str, int]] = set()
    for asked in body.topics:
        described = TopicResponse(name=asked.name)
        response.topics.append(described)
        refusal = _refusal(services, asked)
        if refusal is not None:
            code, message = refusal
            for start in range(0, len(asked.partition_indexes), REFUSED_PER_STEP):
                some = asked.partition_indexes[start : start + REFUSED_PER_STEP]
                described.partitions += _refused(some, code, message)
                yield len(some) * len(message)
            yield 0
            continue
        for number in asked.partition_indexes:
            if (asked.name, number) not in answered:
                answered.add((asked.name, number))
                answer = yield from _describe(services, asked.name, number)
                described.partitions.append(answer)
            yield 0
    return response


def _refusal(services: Services, asked: TopicRequest) -> tuple[ErrorCode, str] | None:
    try:
        check_name(asked.name)
    except TopicError as error:
        return error.code, error.message
    if services.topics.by_name(asked.name) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code, code.message
    return None


def _refused(numbers: list[int], code: ErrorCode, message: str) -> list[PartitionResponse]:
    return [
        PartitionResponse(partition_index=number, error_code=code, error_message=message)
        for number in numbers
    ]


def _describe(
    services: Services, topic: str, number: int
) -> Generator[int, None, PartitionResponse]:
    answer = PartitionResponse(partition_index=number)
    try:
        producers = services.partitions.get(topic, number).log.producers
    except StorageError as error:
        answer.error_code = error_code_of(error)
        return answer
    for entry in list(producers.entries.values()):
        answer.active_producers.append(
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
        )
        yield PRODUCER_BYTES
    return answer


def error_response(request: Request, code: ErrorCode) -> DescribeProducersResponse:
    """Return an answer with `code` for each partition in the request."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=asked.name, partitions=_refused(asked.partition_indexes, code, code.message)
            )
            for asked in request.body.topics
        ]
    )
