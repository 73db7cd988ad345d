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
from collections.abc import Iterator

from broker.runtime.request import Request
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


async def handle(request: Request, services: Services) -> WriteTxnMarkersResponse:
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
    response = error_response(request, ErrorCode.NONE)
    for wanted, result in zip(body.markers, response.markers, strict=True):
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.transaction_result,
            wanted.coordinator_epoch,
        )
        for count, (topic, partition) in enumerate(_places(result), 1):
            if count % PLACES_PER_TURN == 0:
                await asyncio.sleep(0)
            place = (topic, partition.partition_index)
            code = await writer.write(marker, wanted.transaction_version, place)
            partition.error_code = code
    return response


def _places(
    result: WritableTxnMarkerResult,
) -> Iterator[tuple[str, WritableTxnMarkerPartitionResult]]:
    for topic in result.topics:
        for partition in topic.partitions:
            yield topic.name, partition


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
