"""WriteTxnMarkers, API key 27, versions 1 and 2: the markers that end transactions in partitions.

Sent by transaction coordinators to leaders, and by an admin client that ends a transaction by hand.

Version notes
- 0 went with Apache Kafka 4.0. 1: flexible.
- 2: `transaction_version` of each marker (KIP-1228).

Source: WriteTxnMarkersRequest.json and WriteTxnMarkersResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int8, Int16, Int32, Int64, Since, String, message, structure


@structure
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: String
    partition_indexes: list[Int32] = field(default_factory=list)


@structure
class WritableTxnMarker:
    """One marker: a commit if `transaction_result`, else an abort, and where to write it.

    `coordinator_epoch` is the leader epoch of the coordinator's partition of
    `__transaction_state`. `transaction_version`: 0 or 1 the older rules of epochs, 2 those of
    KIP-890.
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, Since(2)] = 0


@message(api_key=27, kind="request", versions=(1, 2), flexible_since=1)
@structure
class WriteTxnMarkersRequest:
    """Markers to write."""

    markers: list[WritableTxnMarker] = field(default_factory=list)


@structure
class WritableTxnMarkerPartitionResult:
    """The outcome for one partition."""

    partition_index: Int32
    error_code: Int16 = 0


@structure
class WritableTxnMarkerTopicResult:
    """The outcome for partitions of one topic."""

    name: String
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@structure
class WritableTxnMarkerResult:
    """The outcome for one marker."""

    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(api_key=27, kind="response", versions=(1, 2), flexible_since=1)
@structure
class WriteTxnMarkersResponse:
    """A result for every partition of every marker; there is no throttle time."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
