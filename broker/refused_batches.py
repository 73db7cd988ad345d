"""Batches that a Produce refuses: what is counted of them, and which records are named.

Every partition of a request that fails is counted once, by its code and its topic. The reasons that
Kafka has metrics for are counted too (BytesRejected, InvalidMessageCrcRecords, InvalidMagicNumber,
NoKeyCompactedTopicRecords).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.runtime.steps import Steps, finished
from broker.runtime.traffic import Traffic
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.record_errors import CorruptBatch, RecordBatchTooLarge, RecordsWithoutKey
from protocol.record_walks import Mistimed
from storage.errors import BatchTooLarge, InvalidTimestamp

REFUSED_PER_STEP: Final = 200
REFUSED_BYTES: Final = 100  # of one in an answer, about


def count_refused(
    traffic: Traffic,
    code: ErrorCode,
    topic: str = "",
    error: Exception | None = None,
    batch: object = None,
) -> None:
    """Count one partition. `topic` is known to exist, `error` says why, `batch` was refused."""
    traffic.errors[int(ApiKey.PRODUCE), int(code)] += 1
    traffic.failed_produces += 1
    if topic:
        traffic.topic(topic).failed_produces += 1
    if isinstance(error, BatchTooLarge | RecordBatchTooLarge):
        traffic.bytes_rejected += len(batch) if isinstance(batch, memoryview) else 0
    elif isinstance(error, CorruptBatch):
        traffic.batches_corrupt += 1
    elif isinstance(error, RecordsWithoutKey):
        traffic.records_without_key += error.count


def say_mistimed(
    answer: PartitionProduceResponse, error: InvalidTimestamp, found: Mistimed
) -> None:
    """Name the records whose timestamps are out of bounds in `answer`."""
    answer.record_errors = [
        BatchIndexAndErrorMessage(
            batch_index=index,
            batch_index_error_message=(
                f"timestamp {timestamp} ms, expected {error.earliest} to {error.latest}"
            ),
        )
        for index, timestamp in found.first
    ]
    answer.error_message = f"{error}; {found.total} records of the batch are out of these bounds"


def refused_each(
    partitions: Sequence[PartitionProduceData], code: ErrorCode
) -> list[PartitionProduceResponse]:
    """Return answers with `code`."""
    return [
        PartitionProduceResponse(
            index=data.index, error_code=code, base_offset=-1, error_message=code.message
        )
        for data in partitions
    ]


def refusing(body: ProduceRequest, code: ErrorCode) -> Steps:
    """Make an answer with `code` for each partition, in steps."""
    response = ProduceResponse()
    for topic in body.topic_data:
        answered = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[]
        )
        response.responses.append(answered)
        yield 0
        for start in range(0, len(topic.partition_data), REFUSED_PER_STEP):
            some = topic.partition_data[start : start + REFUSED_PER_STEP]
            answered.partition_responses += refused_each(some, code)
            yield REFUSED_BYTES * len(some)
    return response


def refuse_all(body: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Return an answer with `code` for each partition."""
    response: ProduceResponse = finished(refusing(body, code))
    return response
