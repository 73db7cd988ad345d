"""Batches that a Produce refuses: what is counted of them, and which records are named.

Every partition of a request that fails is counted once, by its code and its topic. The reasons that
Kafka has metrics for are counted too (BytesRejected, InvalidMessageCrcRecords, InvalidMagicNumber,
NoKeyCompactedTopicRecords).
"""

from __future__ import annotations

from broker.runtime.traffic import Traffic
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.record_errors import CorruptBatch, RecordBatchTooLarge, RecordsWithoutKey
from protocol.record_walks import Mistimed
from storage.errors import BatchTooLarge, InvalidTimestamp


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


def refuse_all(body: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Return an answer with `code` for each partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=code,
                        base_offset=-1,
                        error_message=code.message,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in body.topic_data
        ]
    )
