"""ListOffsets, API key 2, versions 1 to 11: the offset that belongs to a timestamp.

Timestamps below zero ask for a place: -1 the end, -2 the start, -3 the record with the highest
timestamp, -4 the start of the local log, -5 the end of the tiered one, -6 the first not yet tiered.

Version notes
- 0, which answered lists of offsets, went with Apache Kafka 4.0. 1: one offset and its timestamp
  (KIP-79). 2: isolation level and `throttle_time_ms` (KIP-98). From 3 on a throttled answer is
  sent before the pause.
- 4: leader epochs, both ways (KIP-320). 5: OFFSET_NOT_AVAILABLE may be answered (KIP-207).
- 6: flexible. Later versions differ only in what may be asked: 7: -3 (KIP-734). 8: -4 (KIP-405).
  9: -5 (KIP-1005). 11: -6 (KIP-1023).
- 10: how long the client waits for the remote storage (KIP-1075).

Source: ListOffsetsRequest.json and ListOffsetsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Int64, Since, String, message, structure


@structure
class ListOffsetsPartition:
    """A partition and the timestamp (ms) or special value to look up."""

    partition_index: Int32
    current_leader_epoch: Annotated[Int32, Since(4)] = -1
    timestamp: Int64


@structure
class ListOffsetsTopic:
    """A topic, always by name."""

    name: String
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(api_key=2, kind="request", versions=(1, 11), flexible_since=6)
@structure
class ListOffsetsRequest:
    """The question. `replica_id` is -1 for consumers, -2 for tools; the schema's default is 0."""

    replica_id: Int32
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[Int32, Since(10)] = 0


@structure
class ListOffsetsPartitionResponse:
    """The offset found, its leader epoch, and its timestamp (-1 for a special value)."""

    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Since(4)] = -1


@structure
class ListOffsetsTopicResponse:
    """A topic, always by name."""

    name: String
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(api_key=2, kind="response", versions=(1, 11), flexible_since=6)
@structure
class ListOffsetsResponse:
    """An answer for every partition asked about."""

    throttle_time_ms: Annotated[Int32, Since(2)] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
