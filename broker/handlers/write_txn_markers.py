"""WriteTxnMarkers, API key 27, versions 1-2: markers that end transactions in single partitions.

In Kafka, coordinators send this to leaders, and `kafka-transactions.sh abort` to end what hangs.
Here the coordinator writes its markers itself, so this is for operators.

Behaviour
- A marker is answered once it is durable and readers see what it has ended.
- It needs no transaction, as in Kafka: an idle partition gets it, too.
- Below the epoch that the partition has seen: INVALID_PRODUCER_EPOCH; with transaction version 2
  also that epoch itself, while something is open. Of an older coordinator:
  TRANSACTION_COORDINATOR_FENCED. An unknown partition: UNKNOWN_TOPIC_OR_PARTITION.
- Ours: a marker never tears a transaction of this broker's coordinator
  (`broker.transactions.hand_markers`). To abort in one partition aborts the whole.

Version notes: 1 flexible, 2 transaction version (KIP-1228).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.transactions.hand_markers import HandMarkers
from protocol.control_records import Marker
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

PLACES_PER_TURN = 200  # of the loop, if none has to wait for the disk
RESULT_BYTES = 6  # of a partition in the answer


async def handle(request: Request, services: Services) -> Steps:
    """Write each marker to each of its partitions, one after the other."""
    body: WriteTxnMarkersRequest = request.body
    writer = HandMarkers(
        services.transactions,
        services.partitions,
        services.commit,
        services.appends,
        lambda: services.groups,
        services.purgatory.notify,
    )
    codes: list[ErrorCode] = []
    for wanted in body.markers:
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
        )
        for topic in wanted.topics:
            for number in topic.partition_indexes:
                place = (topic.name, number)
                codes.append(await writer.write(marker, wanted.transaction_version, place))
                if len(codes) % PLACES_PER_TURN == 0:
                    await asyncio.sleep(0)
    return _answer(body, codes)


def _answer(body: WriteTxnMarkersRequest, codes: Sequence[ErrorCode]) -> Steps:
    """Answer with the codes of all partitions, in their order."""
    response, left = WriteTxnMarkersResponse(), iter(codes)
    for wanted in body.markers:
        result = WritableTxnMarkerResult(producer_id=wanted.producer_id)
        response.markers.append(result)
        for topic in wanted.topics:
            answer = WritableTxnMarkerTopicResult(name=topic.name)
            result.topics.append(answer)
            for number in topic.partition_indexes:
                answer.partitions.append(
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(left))
                )
                yield RESULT_BYTES
            yield len(topic.name)
        yield 0
    return response


def _result(wanted: WritableTxnMarker, code: ErrorCode) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=wanted.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                    for number in topic.partition_indexes
                ],
            )
            for topic in wanted.topics
        ],
    )


def error_response(request: Request, code: ErrorCode) -> WriteTxnMarkersResponse:
    """Return an answer with `code` for each partition of each marker in the request."""
    body: WriteTxnMarkersRequest = request.body
    return WriteTxnMarkersResponse(markers=[_result(wanted, code) for wanted in body.markers])
